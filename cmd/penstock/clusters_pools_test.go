package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/modelserver"
)

// relayedYAML is an InferencePoolImport with a remote picker and pool, but no pods.
func relayedYAML(name, server string, picker int, pool string) string {
	_, port, _ := net.SplitHostPort(server)
	return fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: %s}
status:
  clusters:
  - name: west
    routingMode: EndpointMode
    targetPortNumber: %s
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {pool: %s, service: {addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}}
`, name, port, pool, picker)
}

const exportAnnotation = `inference.networking.x-k8s.io/export: ClusterSet`

func exportedPoolNamed(name string) string {
	return strings.Replace(poolYAML(name), "metadata: {name: "+name+"}",
		"metadata: {name: "+name+", annotations: {"+exportAnnotation+"}}", 1)
}

func toImport(name string) string {
	return "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: " + name + "}"
}

// Two pools share one picker port. Each request reaches its own pool, also if the importing
// cluster's picker relays (/far).
func TestClusterSet_TwoPoolsBehindOnePickerAreNotMixedUp(t *testing.T) {
	t.Parallel()
	port, picker := freePort(t), freePort(t)
	chatServer, codeServer := serverNamed(t, "east-chat"),
		serverNamed(t, "east-code")
	eastFiles := chatFiles(freePort(t), chatServer)
	eastFiles["set.yaml"], eastFiles["pool.yaml"] = clusterSetYAML("east"), exportedPoolNamed("chat")
	eastFiles["code.yaml"] = exportedPoolNamed("code") + "---\n" + serversYAML("code", codeServer)
	eastFiles["own.yaml"] = poolYAML("own") + "---\n" + serversYAML("own", serverNamed(t, "east-own"))
	east := up(t, eastFiles, "--members-listen", "127.0.0.1:0", "--picker", fmt.Sprintf("127.0.0.1:%d", picker))
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", east.show()),
		"chat.yaml": routeYAML("chat", "/chat", toImport("chat")),
		"code.yaml": routeYAML("code", "/code", toImport("code")),
		"far.yaml": relayedYAML("far", codeServer, picker, "default/code") + "---\n" +
			routeYAML("far", "/far", toImport("far")),
	}, "--members-listen", "127.0.0.1:0")
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	for path, want := range map[string]string{"/chat": "east-chat", "/code": "east-code", "/far": "east-code"} {
		eventually(t, path+" is served", func() error {
			if got, err := chat(t.Context(), local(port)+path); err != nil || got.status != http.StatusOK {
				return fmt.Errorf("got %d %s %v, want 200; status here:\n%s\nin the other cluster:\n%s", got.status,
					got.body, err, here.penstock("status"), east.penstock("status"))
			}
			return nil
		})
		for range 10 {
			if got, err := chat(t.Context(), local(port)+path); err != nil || got.header.Get("x-served-by") != want {
				t.Errorf("%s: %d from %q, want %s: %v", path, got.status, got.header.Get("x-served-by"), want, err)
			}
		}
	}
	for pool, want := range map[string]codes.Code{
		"default/own": codes.PermissionDenied, "default/code": codes.OK, "default/none": codes.PermissionDenied,
	} {
		if err := askAsMember(t, picker, pool); status.Code(err) != want {
			t.Errorf("a member asks for %s: %v, want %s", pool, err, want)
		}
	}
}

func askAsMember(t *testing.T, picker int, pool string) error {
	t.Helper()
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", picker),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(
		metadata.AppendToOutgoingContext(t.Context(), "x-penstock-pool", pool, "x-penstock-import", "true"))
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(
		&extprocv3.ProcessingRequest{
			Request: &extprocv3.ProcessingRequest_RequestHeaders{
				RequestHeaders: &extprocv3.HttpHeaders{EndOfStream: true},
			},
		})
	_, err = stream.Recv()
	return err
}

// A request is in flight at the exporter's picker until its response ends, also if the importing
// cluster's picker relays.
func TestInferencePoolImport_RequestCountsThereUntilItsEnd(t *testing.T) {
	for what, pods := range map[string]string{"relayed": "", "direct": "    endpoints: [{address: 127.0.0.1}]\n"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			countsUntilItsEnd(t, pods)
		})
	}
}

func countsUntilItsEnd(t *testing.T, pods string) {
	t.Helper()
	port, picker, admin := freePort(t), freePort(t), freePort(t)
	server := modelServer(t, modelserver.Config{Name: "east-1", InterTokenLatency: 300 * time.Millisecond})
	up(t, chatFiles(freePort(t), server), "--picker", fmt.Sprintf("127.0.0.1:%d", picker), "--http",
		fmt.Sprintf("127.0.0.1:%d", admin))
	up(t,
		map[string]string{"gateway.yaml": gatewayYAML("gw", port),
			"far.yaml": strings.Replace(relayedYAML("far", server, picker, "default/chat"), "    podCIDRs",
				pods+"    podCIDRs", 1) + "---\n" + routeYAML("far", "/", toImport("far"))})
	answers(t, local(port), http.StatusOK)
	counted := func() float64 { return metric(t, admin, `penstock_picker_in_flight_requests{pool="default/chat"}`) }
	eventually(t, "nothing is in flight", func() error {
		if n := counted(); n != 0 {
			return fmt.Errorf("%v in flight, want 0", n)
		}
		return nil
	})
	resp, err := client().Post(local(port)+"/v1/chat/completions", "application/json",
		strings.NewReader(
			`{"model":"llama","stream":true,"max_tokens":12,"messages":[{"role":"user","content":"one two three four five six seven eight"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for tokens := 0; tokens < 4 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: {") {
			if tokens++; counted() != 1 {
				t.Fatalf("after %d tokens %v requests count, want 1", tokens, counted())
			}
		}
	}
	for lines.Scan() {
	}
	eventually(t, "the request counts no more", func() error {
		if n := counted(); n != 0 {
			return fmt.Errorf("%v in flight, want 0", n)
		}
		return nil
	})
}

// While the exporter is down, its pool's failureMode applies in the importing cluster.
func TestClusterSet_ExportedPoolKeepsItsFailureMode(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(freePort(t), serverNamed(t, "east-open"))
	files["set.yaml"], files["pool.yaml"] = clusterSetYAML("east"), exportedPoolNamed("chat")
	files["closed.yaml"] = exportedPoolNamed("closed") + "---\n" +
		serversYAML("closed", serverNamed(t, "east-closed")) + `---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: closed}
spec: {targetRef: {name: closed}, picker: {failureMode: FailClose}}
`
	east := up(t, files, "--members-listen", "127.0.0.1:0")
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", east.show()),
		"open.yaml":   routeYAML("open", "/open", toImport("chat")),
		"closed.yaml": routeYAML("closed", "/closed", toImport("closed")),
	}, "--members-listen", "127.0.0.1:0")
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	answers(t, local(port)+"/open", http.StatusOK)
	answers(t, local(port)+"/closed", http.StatusOK)
	east.stop()
	answers(t, local(port)+"/closed", http.StatusServiceUnavailable)
	answers(t, local(port)+"/open", http.StatusOK)
}

// Another controller's import has an entry for cluster east. The entry stays, and east reports a
// conflict.
func TestClusterSet_EntryOfAnotherIsAConflict(t *testing.T) {
	t.Parallel()
	port, picker := freePort(t), freePort(t)
	server := serverNamed(t, "east-1")
	files := chatFiles(freePort(t), server)
	files["set.yaml"], files["pool.yaml"] = clusterSetYAML("east"), exportedPoolNamed("chat")
	east := up(t, files, "--members-listen", "127.0.0.1:0", "--picker", fmt.Sprintf("127.0.0.1:%d", picker))
	entry := strings.Replace(relayedYAML("chat", server, picker, "default/chat"), "name: west", "name: east", 1)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", east.show()),
		"route.yaml": routeYAML("far", "/", toImport("chat")), "import.yaml": entry,
	}, "--members-listen", "127.0.0.1:0")
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	shows := func(what, want string) {
		t.Helper()
		eventually(t, what, func() error {
			if text := east.penstock("status"); !regexp.MustCompile(want).MatchString(text) {
				return fmt.Errorf("got\n%s\nwant %q; here:\n%s", text, want, here.penstock("status"))
			}
			return nil
		})
		answers(t, local(port), http.StatusOK)
	}
	const exported = `default/chat +InferencePoolImport chat +\S+ +- +- +`
	shows("a conflict", exported+"False")
	// The condition is also False while the member is not connected.
	eventually(t, "the member's report has arrived", func() error {
		if text := east.penstock("clusters", "list"); !strings.Contains(text,
			"Conflict: status.clusters of InferencePoolImport default/chat") {
			return fmt.Errorf("clusters list: got\n%s\nwant the Conflict", text)
		}
		return nil
	})
	if text := here.penstock("clusters", "list"); !strings.Contains(text,
		"status.clusters of InferencePoolImport default/chat has an entry east of another") {
		t.Errorf("clusters list: got\n%s\nwant the entry east of another", text)
	}
	here.write("import.yaml", strings.Replace(entry, "name: east", "name: mars", 1))
	shows("the entry is gone", exported+"True")
	here.write("import.yaml", entry)
	shows("a conflict again", exported+"False")
}

func healthServer(t *testing.T) (server *health.Server, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = health.NewServer()
	s := grpc.NewServer()
	healthv1.RegisterHealthServer(s, server)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return server, l.Addr().(*net.TCPAddr).Port
}

// The pool's picker is unreachable, then NOT_SERVING. The import's status shows it, and requests
// succeed because the pool fails open.
func TestClusterSet_PickerThatIsDownIsReported(t *testing.T) {
	t.Parallel()
	server := serverNamed(t, "east-1")
	port, external := freePort(t), freePort(t)
	picker, healthPort := healthServer(t)
	away := up(t, chatFiles(freePort(t), server), "--picker", fmt.Sprintf("127.0.0.1:%d", external), "--default-pool",
		"default/chat")
	files := chatFiles(freePort(t), server)
	files["set.yaml"] = clusterSetYAML("east")
	files["pool.yaml"] = strings.TrimSuffix(exportedPoolNamed("chat"), "\n") + fmt.Sprintf(`
  endpointPickerRef: {name: epp, port: {number: %d}, failureMode: FailOpen}
---
apiVersion: v1
kind: Service
metadata: {name: epp}
spec:
  externalIPs: [127.0.0.1]
  ports: [{name: ext-proc, port: %d, appProtocol: kubernetes.io/h2c}, {name: health, port: %d}]
`, external, external, healthPort)
	east := up(t, files, "--members-listen", "127.0.0.1:0")
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", east.show()),
		"route.yaml": routeYAML("far", "/", toImport("chat")),
	}, "--members-listen", "127.0.0.1:0")
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	answers(t, local(port), http.StatusOK)
	reported := func(what, why string) {
		t.Helper()
		eventually(t, what, func() error {
			text := here.penstock("status")
			down := strings.Contains(text,
				"cluster east: its condition Ready is Unknown, reason PickerDown: its picker fails: "+why)
			if down != (why != "") {
				return fmt.Errorf("status: got %s, want PickerDown for %q", text, why)
			}
			return nil
		})
		answers(t, local(port), http.StatusOK)
	}
	reported("the picker answers", "")
	away.stop()
	reported("the picker is down", "connection refused")
	away.start()
	reported("the picker is back", "")
	picker.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	reported("the picker does not serve", fmt.Sprintf("its health port %d reports NOT_SERVING", healthPort))
	picker.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	reported("the picker serves", "")
}

func metric(t *testing.T, port int, series string) (value float64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, local(port)+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := do(client(), req)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(got.body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			_, _ = fmt.Sscan(rest, &value)
		}
	}
	return value
}
