package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// exportingCluster is one cluster of an import: its picker, and a model server, which also stands for its gateway.
type exportingCluster struct {
	extprocv3.UnimplementedExternalProcessorServer
	name    string
	server  *httptest.Server
	pickers *grpc.Server
	port    int // of the picker

	mu            sync.Mutex
	declines      typev3.StatusCode // what the picker answers; 0: it names the server
	down          bool              // the picker names an address where nothing listens
	status        int               // of the server's answers; 0: 200
	delay         time.Duration     // before the server's answers
	marks         bool              // the server's answers have the mark of a hop
	asked, served int
	host          string // of the last request that the server got
	sender        string // penstock-peer-sender of some request that it got
	token         string // x-session-token of the last request
	size          int    // of its body
}

func newExportingCluster(t *testing.T, name string) *exportingCluster {
	t.Helper()
	c := &exportingCluster{name: name}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.pickers = grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(c.pickers, c)
	go func() { _ = c.pickers.Serve(l) }()
	t.Cleanup(c.pickers.Stop)
	c.port = l.Addr().(*net.TCPAddr).Port
	return c
}

// ServeHTTP is the model server.
func (c *exportingCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	delay := c.delay
	c.mu.Unlock()
	time.Sleep(delay) // as a server does that computes
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served, c.host, c.size = c.served+1, r.Host, len(body)
	c.sender += r.Header.Get("penstock-peer-sender")
	w.Header().Set("x-served-by", c.name)
	c.token = r.Header.Get("x-session-token")
	if r.Header.Get("x-session-id") == "" { // as a picker there that keeps sessions
		w.Header().Set("x-session-token", "at-"+c.name)
	}
	if c.marks {
		w.Header().Set("penstock-peer-refused", "1")
	}
	if c.status != 0 {
		w.WriteHeader(c.status)
	}
	_, _ = io.WriteString(w, `{"choices": []}`)
}

// Process is the picker.
func (c *exportingCluster) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	var body []byte
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		body = append(body, m.GetRequestBody().GetBody()...)
		if m.GetResponseHeaders() != nil {
			if err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}}); err != nil {
				return err
			}
			continue
		}
		if !m.GetRequestHeaders().GetEndOfStream() && !m.GetRequestBody().GetEndOfStream() {
			continue
		}
		c.mu.Lock()
		c.asked++
		declines, names := c.declines, c.server.Listener.Addr().String()
		if c.down {
			names = "127.0.0.1:1"
		}
		c.mu.Unlock()
		pick, _ := structpb.NewStruct(map[string]any{"envoy.lb": map[string]any{"x-gateway-destination-endpoint": names}})
		answer := &extprocv3.ProcessingResponse{DynamicMetadata: pick, Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
				{Header: &corev3.HeaderValue{Key: "x-gateway-destination-endpoint", RawValue: []byte(names)}},
			}}},
		}}}
		if declines != 0 {
			answer = &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocv3.ImmediateResponse{
				Status: &typev3.HttpStatus{Code: declines}, Body: []byte(c.name + " is full"),
			}}}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
		for end := declines != 0 || m.GetRequestBody() == nil; !end; {
			part := body[:min(len(body), 32<<10)]
			body = body[len(part):]
			end = len(body) == 0
			if err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{
				Response: &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
					StreamedResponse: &extprocv3.StreamedBodyResponse{Body: part, EndOfStream: end},
				}}},
			}}}); err != nil {
				return err
			}
		}
	}
}

// entry is the cluster's entry of an import.
func (c *exportingCluster) entry(mode string, weight int) string {
	_, port, _ := net.SplitHostPort(c.server.Listener.Addr().String())
	if mode == "ParentMode" {
		return fmt.Sprintf(`  - name: %s
    weight: %d
    routingMode: ParentMode
    parents: [{name: gw, namespace: default, service: [{addresses: [127.0.0.1], ports: [{number: %s, appProtocol: http}]}]}]
`, c.name, weight, port)
	}
	return fmt.Sprintf(`  - name: %s
    weight: %d
    routingMode: EndpointMode
    targetPorts: [{number: %s}, {number: 1}]
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}}
`, c.name, weight, port, c.port)
}

// set changes how the cluster behaves, and forgets what it has counted.
func (c *exportingCluster) set(change func(*exportingCluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declines, c.down, c.status, c.delay, c.marks, c.asked, c.served = 0, false, 0, 0, false, 0, 0
	change(c)
}

// counts are how often it was asked since set, for picks and for answers.
func (c *exportingCluster) counts() (asked, served int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, c.served
}

func TestInferencePoolImport_DeclinedRequestIsServedByAnotherCluster(t *testing.T) {
	t.Parallel()
	east, north, west := newExportingCluster(t, "east"), newExportingCluster(t, "north"), newExportingCluster(t, "west")
	all := []*exportingCluster{east, north, west}
	port := freePort(t)
	files := map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"far.yaml":     routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"import.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" +
			east.entry("EndpointMode", 2) + north.entry("EndpointMode", 1) + west.entry("ParentMode", 1),
	}
	s := up(t, files)
	answers(t, local(port)+"/far", http.StatusOK)

	body := strings.Replace(question, "repeat this", strings.Repeat("repeat this ", 20000), 1)
	// send returns the statuses by the cluster that answered, of 40 requests.
	send := func(t *testing.T) map[string]int {
		got := map[string]int{}
		for range 40 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, local(port)+"/far/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = "models.example.com"
			a, err := do(client(), req)
			if err != nil {
				t.Fatal(err)
			}
			by := a.header.Get("x-served-by")
			if by == "" {
				by = a.body
			}
			got[fmt.Sprintf("%d %s", a.status, by)]++
			if mark := a.header.Get("penstock-peer-refused"); mark != "" {
				t.Errorf("the client sees penstock-peer-refused: %s", mark)
			}
		}
		return got
	}
	for _, test := range []struct {
		name              string
		east, north, west func(*exportingCluster)
		want              string
	}{
		{name: "all serve by their weights", want: "200 east 20, 200 north 10, 200 west 10"},
		{name: "a picker declines", east: func(c *exportingCluster) { c.declines = 429 }, want: "200 north 20, 200 west 20"},
		{name: "another declines too", east: func(c *exportingCluster) { c.declines = 429 }, north: func(c *exportingCluster) { c.declines = 503 }, want: "200 west 40"},
		{name: "a picker names a server that is down", east: func(c *exportingCluster) { c.down = true }, want: "200 north 20, 200 west 20"},
		{name: "a server's own answer is final", north: func(c *exportingCluster) { c.status = 503 }, want: "200 east 20, 200 west 10, 503 north 10"},
		{name: "a gateway's own answer is final", west: func(c *exportingCluster) { c.status = 429 }, want: "200 east 20, 200 north 10, 429 west 10"},
		{name: "a server that marks its answer is not believed", north: func(c *exportingCluster) { c.status, c.marks = 503, true }, want: "200 east 20, 200 west 10, 503 north 10"},
		{name: "a gateway that marks its answer is not believed", west: func(c *exportingCluster) { c.status, c.marks = 503, true }, want: "200 east 20, 200 north 10, 503 west 10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i, change := range []func(*exportingCluster){test.east, test.north, test.west} {
				if change == nil {
					change = func(*exportingCluster) {}
				}
				all[i].set(change)
			}
			got := strings.Trim(strings.NewReplacer(":", " ", "map[", "", "]", "").Replace(fmt.Sprint(send(t))), " ")
			if got != strings.ReplaceAll(test.want, ",", "") {
				t.Errorf("answers: %s, want %s", got, test.want)
			}
			for _, c := range all {
				if asked, served := c.counts(); asked > 40 || served > 40 {
					t.Errorf("%s was asked for picks %d times and for answers %d times, for 40 requests", c.name, asked, served)
				}
				if c.served > 0 && (c.host != "models.example.com" || c.size != len(body)) {
					t.Errorf("%s got host %q and %d bytes, of %d", c.name, c.host, c.size, len(body))
				}
			}
		})
	}
	t.Run("all decline", func(t *testing.T) {
		west.server.Close()
		for range 20 {
			for _, c := range all {
				c.set(func(c *exportingCluster) { c.declines = 429 })
			}
			got, err := chat(t.Context(), local(port)+"/far")
			if err != nil {
				t.Fatal(err)
			}
			asked, _ := east.counts()
			other, _ := north.counts()
			if asked != 1 || other != 1 || got.status != http.StatusTooManyRequests && got.status != http.StatusServiceUnavailable {
				t.Fatalf("east's picker was asked %d times, north's %d times, for one request: %d %s", asked, other, got.status, got.body)
			}
		}
	})
	if text := s.penstock("explain", local(port)+"/far/v1/chat/completions"); !strings.Contains(text, "another exporting cluster, when one declines") {
		t.Errorf("explain: %s", text)
	}
}

func TestInferencePoolImport_ChangedClustersLoseNoRequest(t *testing.T) {
	t.Parallel()
	east, north, west := newExportingCluster(t, "east"), newExportingCluster(t, "north"), newExportingCluster(t, "west")
	imported := func(entries ...string) string {
		return "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + strings.Join(entries, "")
	}
	port := freePort(t)
	files := map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"far.yaml":     routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"import.yaml":  imported(east.entry("EndpointMode", 1)),
	}
	s := up(t, files)
	answers(t, local(port)+"/far", http.StatusOK)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var sent, change atomic.Int64
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				got, err := chat(t.Context(), local(port)+"/far")
				if sent.Add(1); err != nil || got.status != http.StatusOK {
					t.Errorf("change %d: %d %s %v %v", change.Load(), got.status, got.body, got.header, err)
					return
				}
			}
		})
	}
	served := func(c *exportingCluster) func() bool {
		return func() bool { _, n := c.counts(); return n > 0 || t.Failed() }
	}
	for i, now := range []struct {
		text  string
		serve []*exportingCluster
	}{
		{imported(east.entry("EndpointMode", 1), north.entry("EndpointMode", 3)), []*exportingCluster{east, north}},
		{imported(east.entry("EndpointMode", 3), north.entry("EndpointMode", 1), west.entry("ParentMode", 1)), []*exportingCluster{east, north, west}},
		{imported(north.entry("EndpointMode", 1), west.entry("ParentMode", 1)), []*exportingCluster{north, west}},
		{imported(west.entry("ParentMode", 1)), []*exportingCluster{west}},
		{imported(east.entry("ParentMode", 1), west.entry("EndpointMode", 1)), []*exportingCluster{east, west}},
		{imported(east.entry("EndpointMode", 1), west.entry("ParentMode", 1)), []*exportingCluster{east, west}},
		{imported(east.entry("EndpointMode", 1)), []*exportingCluster{east}},
		{imported(north.entry("EndpointMode", 1), west.entry("EndpointMode", 1)), []*exportingCluster{north, west}},
	} {
		change.Store(int64(i))
		s.write("import.yaml", now.text)
		for round := range 2 { // those of the second are by the new wiring alone
			for _, c := range []*exportingCluster{east, north, west} {
				c.set(func(*exportingCluster) {})
			}
			for _, c := range now.serve {
				poll.Until(t, fmt.Sprintf("change %d, round %d: %s serves", i, round, c.name), served(c))
			}
		}
	}
	stop()
	clients.Wait()
	t.Logf("%d requests", sent.Load())
}

func TestInferencePoolImport_SpillsOnceAllClustersDecline(t *testing.T) {
	t.Parallel()
	east, west := newExportingCluster(t, "east"), newExportingCluster(t, "west")
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "here-1"}))
	files["far.yaml"] = routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
	files["import.yaml"] = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + east.entry("EndpointMode", 1) + west.entry("EndpointMode", 1)
	files["policy.yaml"] = "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: far}\nspec:\n  targetRef: {kind: InferencePoolImport, name: far}\n  spill: [{name: chat}]\n"
	up(t, files)
	for what, declines := range map[string][]*exportingCluster{"east": {west}, "west": {east}, "here-1": {east, west}} {
		for _, c := range []*exportingCluster{east, west} {
			c.set(func(*exportingCluster) {})
		}
		for _, c := range declines {
			c.set(func(c *exportingCluster) { c.declines = 429 })
		}
		answers(t, local(port)+"/far", http.StatusOK)
		for range 10 {
			got, err := chat(t.Context(), local(port)+"/far")
			if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != what {
				t.Errorf("%d from %s, want %s: %s %v", got.status, got.header.Get("x-served-by"), what, got.body, err)
			}
		}
	}
}

// A picker that answers no call is passed by: by another cluster at first, and once none is left, by the failure mode.
func TestInferencePoolImport_FailsOpenOnceNoClusterPicks(t *testing.T) {
	t.Parallel()
	east, west := newExportingCluster(t, "east"), newExportingCluster(t, "west")
	open := func(c *exportingCluster) string { // with pods that are known without a pick
		_, port, _ := net.SplitHostPort(c.server.Listener.Addr().String())
		return strings.Replace(c.entry("EndpointMode", 1), "    podCIDRs: [127.0.0.0/8]\n", "    failureMode: FailOpen\n    endpoints: [{address: 127.0.0.1, ports: ["+port+"]}]\n", 1)
	}
	port := freePort(t)
	up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"far.yaml":     routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"import.yaml":  "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + open(east) + open(west),
	})
	answers(t, local(port)+"/far", http.StatusOK)
	served := func(want ...string) {
		t.Helper()
		got := map[string]bool{}
		for range 10 {
			a, err := chat(t.Context(), local(port)+"/far")
			if err != nil || a.status != http.StatusOK {
				t.Errorf("%d %s %v %v", a.status, a.body, a.header, err)
			}
			got[a.header.Get("x-served-by")] = true
		}
		if len(got) != len(want) || !got[want[0]] {
			t.Errorf("%v serve, want %v", got, want)
		}
	}
	served("east", "west")
	east.pickers.Stop()
	served("west")
	west.pickers.Stop()
	answers(t, local(port)+"/far", http.StatusOK) // until Envoy has noticed, a picker that reads bodies as a stream cannot be passed by
	served("east", "west")
}

func TestSelection_PriorityServesInOrder(t *testing.T) {
	t.Parallel()
	east, north, west := newExportingCluster(t, "east"), newExportingCluster(t, "north"), newExportingCluster(t, "west")
	all := []*exportingCluster{east, north, west}
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "here-1"}))
	files["far.yaml"] = routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
	files["import.yaml"] = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" +
		east.entry("EndpointMode", 1) + north.entry("EndpointMode", 1) + west.entry("EndpointMode", 1)
	policy := "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: far}\nspec:\n  targetRef: {kind: InferencePoolImport, name: far}\n  spill: [{name: chat}]\n  selection: {policy: Priority, order: [%s]}\n"
	files["policy.yaml"] = fmt.Sprintf(policy, "west, east")
	s := up(t, files)
	answers(t, local(port)+"/far", http.StatusOK)
	// expect sends requests until one is served as wanted, which takes a change of files, and then those after it must be.
	expect := func(want string, declining ...*exportingCluster) {
		t.Helper()
		for _, c := range all {
			c.set(func(*exportingCluster) {})
		}
		for _, c := range declining {
			c.set(func(c *exportingCluster) { c.declines = 429 })
		}
		by := func() string {
			got, err := chat(t.Context(), local(port)+"/far")
			if err != nil || got.status != http.StatusOK {
				t.Errorf("%d %s %v", got.status, got.body, err)
			}
			return got.header.Get("x-served-by")
		}
		poll.Until(t, want+" serves", func() bool { return by() == want })
		for range 10 {
			if got := by(); got != want {
				t.Errorf("%s serves, not %s", got, want)
			}
		}
		for _, c := range all {
			c.set(func(*exportingCluster) {})
		}
	}
	expect("west")
	expect("east", west)
	expect("north", west, east)
	expect("here-1", west, east, north)
	expect("west")
	s.write("policy.yaml", fmt.Sprintf(policy, "nowhere, north"))
	expect("north")
	expect("east", north)
	if text := s.penstock("status"); !strings.Contains(text, `spec.selection.order[0]: cluster "nowhere" does not export InferencePoolImport default/far now`) {
		t.Errorf("status: %s", text)
	}
}

// A cluster whose readiness flaps leaves at once, and is first again once it stays ready.
func TestFailback_ClusterThatFlapsDoesNotMoveRequests(t *testing.T) {
	t.Parallel()
	east, west := newExportingCluster(t, "east"), newExportingCluster(t, "west")
	imports := func(west string) string {
		return "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + east.entry("EndpointMode", 1) + west
	}
	ready := imports(west.entry("EndpointMode", 1))
	down := imports(west.entry("EndpointMode", 1) + "    conditions: [{type: Ready, status: 'False', reason: Draining, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]\n")
	port := freePort(t)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "import.yaml": ready,
		"far.yaml":    routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"policy.yaml": "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: far}\nspec:\n  targetRef: {kind: InferencePoolImport, name: far}\n  selection: {policy: Priority, order: [west, east]}\n",
	})
	answers(t, local(port)+"/far", http.StatusOK)
	by := func() string {
		got, err := chat(t.Context(), local(port)+"/far")
		if err != nil || got.status != http.StatusOK {
			t.Errorf("%d %s %v", got.status, got.body, err)
		}
		return got.header.Get("x-served-by")
	}
	const last = "cluster west comes last until it has been ready for 3s"
	comesLast := func() bool { return strings.Contains(s.penstock("status"), last) }
	poll.Until(t, "west serves", func() bool { return by() == "west" })
	for range 3 {
		s.write("import.yaml", down)
		poll.Until(t, "east serves", func() bool { return by() == "east" })
		s.write("import.yaml", ready)
		poll.Until(t, "west is ready", comesLast)
		for range 10 {
			if got := by(); got != "east" && comesLast() {
				t.Errorf("%s serves, although west has only been ready for a moment", got)
			}
		}
	}
	east.set(func(c *exportingCluster) { c.declines = 429 })
	if got := by(); got != "west" {
		t.Errorf("%s serves what east declines", got)
	}
	east.set(func(*exportingCluster) {})
	poll.Until(t, "west is first again", func() bool { return by() == "west" })
	if comesLast() {
		t.Errorf("west is first, and the status has %q", last)
	}
}
