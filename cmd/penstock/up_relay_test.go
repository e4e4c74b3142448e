package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// heldPicker is a remote picker whose answers the test releases.
type heldPicker struct {
	extprocv3.UnimplementedExternalProcessorServer
	names  string
	called chan struct{} // receives a value for each request
	may    chan struct{} // closed when it may answer
}

func (p *heldPicker) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		if !m.GetRequestHeaders().GetEndOfStream() && !m.GetRequestBody().GetEndOfStream() {
			continue
		}
		p.called <- struct{}{}
		<-p.may
		if err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
				{Header: &corev3.HeaderValue{Key: "x-gateway-destination-endpoint", RawValue: []byte(p.names)}},
			}}},
		}}}); err != nil {
			return err
		}
	}
}

func (p *heldPicker) serve(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(server, p)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().(*net.TCPAddr).Port
}

// Found by the zero-loss harness: the objects no longer have a cluster for the endpoint that the picker names for the first
// request, while Envoy still has it.
func TestInferencePoolImport_DeletedKeepsRequestsInFlight(t *testing.T) {
	for what, leave := range map[string]func(*site, map[string]string){
		"the cluster leaves the import": func(s *site, files map[string]string) {
			s.write("import.yaml", strings.Replace(files["import.yaml"], "name: west", "name: north", 1))
		},
		"the import leaves": func(s *site, _ map[string]string) { s.remove("import.yaml") },
		"the route leaves":  func(s *site, _ map[string]string) { s.write("far.yaml", routeYAML("far", "/far", toPool("chat"))) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := modelServer(t, sim.Config{Name: "west-1"})
			remote := &heldPicker{names: server, called: make(chan struct{}, 1), may: make(chan struct{})}
			port := freePort(t)
			files := chatFiles(port, modelServer(t, sim.Config{Name: "here-1"}))
			_, serverPort, _ := net.SplitHostPort(server)
			files["import.yaml"] = fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: west
    routingMode: EndpointMode
    targetPortNumber: %s
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}}
`, serverPort, remote.serve(t))
			files["far.yaml"] = routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
			s := up(t, files)

			type result struct {
				reply
				err error
			}
			first := make(chan result, 1)
			go func() {
				got, err := chat(t.Context(), local(port)+"/far")
				first <- result{got, err}
			}()
			<-remote.called
			leave(s, files)
			s.write("here.yaml", routeYAML("here", "/here", toPool("chat")))
			answers(t, local(port)+"/here", http.StatusOK) // Envoy has all resources
			close(remote.may)
			got := <-first
			if got.err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != "west-1" {
				t.Errorf("the request in flight: %d from %q: %s %v", got.status, got.header.Get("x-served-by"), got.body, got.err)
			}
		})
	}
}

// A call to an external picker lasts as long as its request, because the picker receives which endpoint served. Envoy resets
// the call with the picker's cluster.
func TestEndpointPicker_RemovedExternalPickerKeepsRequestsInFlight(t *testing.T) {
	t.Parallel()
	server := modelServer(t, sim.Config{Name: "pod-1", TimeToFirstToken: 7 * time.Second}) // longer than a cluster outlives its routes
	_, external := exporter(t, server)
	port := freePort(t)
	files := chatFiles(port, server)
	files["pool.yaml"] = strings.TrimSuffix(poolYAML("chat"), "\n") + fmt.Sprintf(`
  endpointPickerRef: {name: epp, port: {number: %d}, failureMode: FailClose}
---
apiVersion: v1
kind: Service
metadata: {name: epp}
spec:
  selector: {app: epp}
  ports: [{port: %d, targetPort: %d, appProtocol: kubernetes.io/h2c}]
---
%s`, external, external, external, serversYAML("epp", fmt.Sprintf("127.0.0.1:%d", external)))
	s := up(t, files)
	var got reply
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, err = chat(t.Context(), local(port))
	}()
	eventually(t, "the server has the request", func() error {
		resp, err := http.Get("http://" + server + "/metrics")
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		page, err := io.ReadAll(resp.Body)
		if err == nil && !strings.Contains(string(page), "num_requests_running{model_name=\"llama\"} 1") {
			err = fmt.Errorf("%s", page)
		}
		return err
	})
	s.write("pool.yaml", poolYAML("chat"))
	<-done
	if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != "pod-1" {
		t.Errorf("%d from %q: %s %v", got.status, got.header.Get("x-served-by"), got.body, err)
	}
}

// Between two Penstocks: the remote picker serves cleartext, and a port without appProtocol means TLS.
func TestInferencePoolImport_FailedRemotePicksAreReported(t *testing.T) {
	t.Parallel()
	server := modelServer(t, sim.Config{Name: "west-1"})
	_, serverPort, _ := net.SplitHostPort(server)
	_, remote := exporter(t, server)
	port, admin := freePort(t), freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "here-1"}))
	write := func(protocol, cidrs string) string {
		return fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: west
    routingMode: EndpointMode
    targetPortNumber: %s
    podCIDRs: [%s]
    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %d%s}]}}
`, serverPort, cidrs, remote, protocol)
	}
	const cleartext = ", appProtocol: kubernetes.io/h2c"
	files["import.yaml"] = write("", "10.0.0.0/8")
	files["far.yaml"] = routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
	s := up(t, files, "--http", fmt.Sprintf("127.0.0.1:%d", admin))
	reports := func(text string) {
		t.Helper()
		eventually(t, "the status reports "+text, func() error {
			if got, err := chat(t.Context(), local(port)+"/far"); err == nil && got.status == http.StatusOK {
				return fmt.Errorf("served by %q", got.header.Get("x-served-by"))
			}
			if out := s.penstock("status"); !strings.Contains(out, text) {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
	}
	tls := fmt.Sprintf("status.clusters[0].endpointPicker.service: cluster west: its picker at 127.0.0.1:%d cannot be asked", remote)
	reports(tls)
	s.errs.expect(t, "cannot be asked: it answers in cleartext")
	reports("set appProtocol: kubernetes.io/h2c on the service's port\n")

	s.write("import.yaml", write(cleartext, "10.0.0.0/8"))
	reports("cluster west: its picker named " + server + ", which is not sent to: declared are addresses in 10.0.0.0/8, at port " + serverPort)
	s.errs.expect(t, "which is not sent to")
	if out := s.penstock("status"); strings.Contains(out, "cannot be asked") {
		t.Errorf("a resolved problem is still reported:\n%s", out)
	}
	eventually(t, "the pick is recorded", func() error { // of picks within 20 ms one is recorded
		_, _ = chat(t.Context(), local(port)+"/far")
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/debug/picks?pool=default/far@west", admin))
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		page, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(page), `"relay_out_of_range"`) || !strings.Contains(string(page), server) {
			return fmt.Errorf("picks: %v %s", err, page)
		}
		return nil
	})

	s.write("import.yaml", write(cleartext, "127.0.0.0/8"))
	eventually(t, "it serves, and nothing is reported", func() error {
		if got, err := chat(t.Context(), local(port)+"/far"); err != nil || got.status != http.StatusOK {
			return fmt.Errorf("%v %+v", err, got)
		}
		if out := s.penstock("status"); strings.Contains(out, "cannot be asked") || strings.Contains(out, "which is not sent to") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	for _, text := range []string{"cannot be asked", "which is not sent to"} {
		if n := strings.Count(s.errs.String(), text); n != 1 {
			t.Errorf("%q was printed %d times", text, n)
		}
	}
}
