package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// direct is an import of one cluster that declares its pods, so that Envoy calls its picker itself.
func direct(c *exportingCluster, picker string, port int, protocol string) string {
	_, pod, _ := net.SplitHostPort(c.server.Listener.Addr().String())
	return fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: %s
    routingMode: EndpointMode
    targetPorts: [{number: %s}]
    endpoints: [{address: 127.0.0.1}]
    endpointPicker: {service: {addresses: [%s], ports: [{number: %d, appProtocol: %q}]}}
`, c.name, pod, picker, port, protocol)
}

// Envoy calls no picker before it has checked its health, and one that takes another's place may take its time to answer.
func TestInferencePoolImport_PickerThatMovesLosesNoRequest(t *testing.T) {
	t.Parallel()
	east := newExportingCluster(t, "east")
	var calls atomic.Int64
	moved := grpc.NewServer(grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if info.FullMethod != extprocv3.ExternalProcessor_Process_FullMethodName { // the check of its health
			time.Sleep(250 * time.Millisecond)
			return status.Error(codes.Unimplemented, "no health here")
		}
		calls.Add(1)
		return handler(srv, stream)
	}), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }))
	extprocv3.RegisterExternalProcessorServer(moved, east)
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = moved.Serve(l) }()
	t.Cleanup(moved.Stop)
	port := freePort(t)
	s := up(t, map[string]string{"gateway.yaml": gatewayYAML("gw", port), "far.yaml": routeYAML("far", "/far", toImport("far")), "import.yaml": direct(east, "127.0.0.1", east.port, "kubernetes.io/h2c")})
	answers(t, local(port)+"/far", http.StatusOK)

	traffic := sendTraffic(t, local(port)+"/far")
	s.write("import.yaml", direct(east, "127.0.0.2", l.Addr().(*net.TCPAddr).Port, "kubernetes.io/h2c"))
	eventually(t, "the picker is asked where it has moved", func() error {
		if calls.Load() < 20 {
			return fmt.Errorf("%d calls", calls.Load())
		}
		return nil
	})
	traffic.end(t)
}

// A request in flight is answered although the configuration of its picker's cluster changes, and its call to the picker lasts as long as it does.
func TestInferencePoolImport_ChangedPickerClusterEndsNoRequestInFlight(t *testing.T) {
	t.Parallel()
	east := newExportingCluster(t, "east")
	arrived, may := make(chan struct{}, 100), make(chan struct{})
	east.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.Contains(r.URL.Path, "held") {
			arrived <- struct{}{}
			<-may
		}
	})
	port := freePort(t)
	s := up(t, map[string]string{"gateway.yaml": gatewayYAML("gw", port), "far.yaml": routeYAML("far", "/far", toImport("far")), "import.yaml": direct(east, "127.0.0.1", east.port, "kubernetes.io/h2c")})
	answers(t, local(port)+"/far", http.StatusOK)

	held := make(chan string)
	go func() {
		got, err := chat(t.Context(), local(port)+"/far/held")
		held <- fmt.Sprint(got.status, err)
	}()
	<-arrived
	s.write("import.yaml", direct(east, "127.0.0.1", east.port, "")) // TLS, which the picker does not speak
	eventually(t, "new requests meet the new configuration", func() error {
		if got, err := chat(t.Context(), local(port)+"/far"); err != nil || got.status == http.StatusOK {
			return fmt.Errorf("%d %v", got.status, err)
		}
		return nil
	})
	close(may)
	if got := <-held; got != "200 <nil>" {
		t.Errorf("the request in flight: %s", got)
	}
}

// The picker of a pool that fails open ends. Until Envoy's health check has noticed, it would answer each request whose call it begins with a 503.
func TestPool_LostPickerIsPassedByAtOnce(t *testing.T) {
	t.Parallel()
	const few = 100 // of those that are sent one after the other
	picker := newExportingCluster(t, "here")
	port := freePort(t)
	files := withPicker(chatFiles(port, picker.server.Listener.Addr().String()), picker.port)
	files["pool.yaml"] = strings.Replace(files["pool.yaml"], "{name: epp,", "{name: epp, failureMode: FailOpen,", 1)
	s := up(t, files)
	answers(t, local(port), http.StatusOK)
	s.errs.expect(t, "external picker answered its probe") // so that it is connected to it

	requests := sendTraffic(t, local(port))
	requests.flows(t, 20)
	picker.pickers.Stop()
	s.errs.expect(t, "lost=true")
	answers(t, local(port), http.StatusOK)
	requests.flows(t, 2*few)
	if out := s.penstock("status"); !strings.Contains(out, fmt.Sprintf("the endpoint picker at port %d fails: connection refused", picker.port)) {
		t.Errorf("no finding about the picker in\n%s", out)
	}
	requests.endWithFew(t, few)
	s.remove("pool.yaml")
	eventually(t, "no finding about a picker that no pool has", func() error {
		if out := s.penstock("status"); strings.Contains(out, "the endpoint picker at port") {
			return errors.New(out)
		}
		return nil
	})
}
