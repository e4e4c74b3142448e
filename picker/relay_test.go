package picker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// remotePicker is an external picker that reads the whole body before it answers. It names the
// endpoints in the header and, if headers is false, also in the metadata.
type remotePicker struct {
	extprocv3.UnimplementedExternalProcessorServer

	mu      sync.Mutex
	list    string        // endpoints to name; "" answers 429
	reason  string        // body of the 429
	headers bool          // answer in the header only
	takes   time.Duration // time to answer; if not 0, the picker first extends the timeout by this time
	paths   []string
	bodies  []string
	served  []string

	calls atomic.Int64
}

func (p *remotePicker) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	var body strings.Builder
	var path string
	p.calls.Add(1)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var end bool
		switch r := m.Request.(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			if m.ProtocolConfig.GetRequestBodyMode() != filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
				return errors.New("this picker supports FULL_DUPLEX_STREAMED only")
			}
			for _, h := range r.RequestHeaders.Headers.Headers {
				if h.Key == ":path" {
					path = string(h.RawValue)
				}
			}
			end = r.RequestHeaders.EndOfStream
		case *extprocv3.ProcessingRequest_RequestBody:
			body.Write(r.RequestBody.Body)
			end = r.RequestBody.EndOfStream
		case *extprocv3.ProcessingRequest_ResponseHeaders:
			p.mu.Lock()
			lb := m.MetadataContext.FilterMetadata["envoy.lb"]
			p.served = append(p.served, lb.Fields["x-gateway-destination-endpoint-served"].GetStringValue())
			p.mu.Unlock()
		}
		if !end {
			continue
		}
		p.mu.Lock()
		p.paths, p.bodies = append(p.paths, path), append(p.bodies, body.String())
		p.mu.Unlock()
		if p.takes > 0 {
			if err := stream.Send(&extprocv3.ProcessingResponse{
				OverrideMessageTimeout: durationpb.New(10 * time.Second),
			}); err != nil {
				return err
			}
			time.Sleep(p.takes)
		}
		for _, r := range p.answer(body.Len() > 0) {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
	}
}

func (p *remotePicker) name(names string, inHeaderOnly bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list, p.headers = names, inHeaderOnly
}

func (p *remotePicker) reject(body string) {
	p.name("", false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = body
}

func (p *remotePicker) answer(withBody bool) []*extprocv3.ProcessingResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == "" {
		return []*extprocv3.ProcessingResponse{{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
			ImmediateResponse: &extprocv3.ImmediateResponse{
				Status: &typev3.HttpStatus{Code: 429}, Body: []byte(cmp.Or(p.reason, "busy over there")),
			}}}}
	}
	set := []*corev3.HeaderValueOption{
		{Header: &corev3.HeaderValue{Key: "x-gateway-destination-endpoint", RawValue: []byte(p.list)}},
	}
	pick := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
			HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: set},
		}},
	}}
	if !p.headers {
		inner, _ := structpb.NewStruct(map[string]any{
			"envoy.lb": map[string]any{"x-gateway-destination-endpoint": p.list},
		})
		pick.DynamicMetadata = inner
	}
	out := []*extprocv3.ProcessingResponse{pick}
	if withBody {
		out = append(out, &extprocv3.ProcessingResponse{
			Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}},
		})
	}
	return out
}

func (p *remotePicker) serve(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(1 << 20))
	extprocv3.RegisterExternalProcessorServer(server, p)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return netip.MustParseAddrPort(listener.Addr().String())
}

type learner struct {
	mu    sync.Mutex
	addrs []netip.AddrPort
	err   error
	away  bool // this process configures no Envoy
}

func (l *learner) Isolated() bool { return l.away }

func (l *learner) Learn(_ context.Context, _ objectid.Target, addrs []netip.AddrPort) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addrs = append(l.addrs, addrs...)
	return l.err
}

func (l *learner) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func at(addrs ...netip.AddrPort) (out []dial.Address) {
	for _, a := range addrs {
		out = append(out, dial.Address{AddrPort: a, Cleartext: true})
	}
	return out
}

func relayed(pickers ...netip.AddrPort) Pool {
	return Pool{ID: poolID("import/c"), Spill: []string{"envoy://b/"},
		Relay: &Relay{
			Pickers: at(pickers...), Within: [][]netip.Prefix{
				{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("127.0.0.0/8")},
			},
		}}
}

// A remote picker that queues the request extends its timeout.
func TestRelay_RemotePickerMayAskForTime(t *testing.T) {
	// 2 s is longer than the relay's default.
	remote := &remotePicker{takes: 2 * time.Second}
	p := runPicker(t, Config{Learner: &learner{}})
	_, address := servePicker(t, p)
	setPools(t, p, relayed(remote.serve(t)))
	remote.name("10.1.0.5:8000", false)
	stream, _ := call(t, dialPicker(t, address), "x-penstock-pool", "import/c")
	r := exchange(t, stream, headerMessage(nil))
	if asked := r.GetOverrideMessageTimeout().AsDuration(); asked < 10*time.Second || asked > 15*time.Second {
		t.Errorf("the gateway is asked for %v, want what the remote picker asks for and a little more", asked)
	}
	r, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if list, _, status := answered(r); list != "10.1.0.5:8000" {
		t.Errorf("%q %d, want the remote picker's answer", list, status)
	}
}

func TestRelay_AddressOutsideRangesIsNotPicked(t *testing.T) {
	// 192.0.2.1 is outside the declared ranges.
	const three = "10.1.0.5:8000,192.0.2.1:8000,10.1.0.6:8000"
	registry := prometheus.NewRegistry()
	remote, known := &remotePicker{}, &learner{}
	p := runPicker(t, Config{Registerer: registry, Learner: known})
	_, address := servePicker(t, p)
	setPools(t, p, relayed(unusedAddr(t), remote.serve(t))) // the first address has no picker
	conn := dialPicker(t, address)
	ask := func(spill string) (string, string, int) {
		t.Helper()
		pairs := []string{"x-penstock-pool", "import/c"}
		if spill != "" {
			pairs = append(pairs, "x-penstock-spill", spill)
		}
		stream, cancel := call(t, conn, pairs...)
		defer cancel()
		return answered(exchange(t, stream, headerMessage(nil, ":path", "/v1/models")))
	}
	for _, inHeaderOnly := range []bool{false, true} {
		remote.name(three, inHeaderOnly)
		if list, retries, _ := ask(""); list != "10.1.0.5:8000,10.1.0.6:8000" || retries != "1" {
			t.Errorf(`%q %s, want "10.1.0.5:8000,10.1.0.6:8000" and "1"`, list, retries)
		}
	}
	remote.name(three, false)
	if list, _, _ := ask("envoy://b/"); list != "10.1.0.5:8000,10.1.0.6:8000,envoy://b/" {
		t.Errorf(`%q, want "10.1.0.5:8000,10.1.0.6:8000,envoy://b/"`, list)
	}
	if known.addrs[0] != netip.MustParseAddrPort("10.1.0.5:8000") || remote.paths[0] != "/v1/models" {
		t.Errorf("learned %v, asked for %v; want 10.1.0.5:8000 and /v1/models", known.addrs, remote.paths)
	}
	// Each of the three answers so far has one address outside the declared ranges.
	if n := gathered(t, registry)["penstock_picker_relay_out_of_range_addresses_total import/c"]; n != 3 {
		t.Errorf("%v addresses were counted as outside the ranges, want 3", n)
	}
	remote.name("192.0.2.1:8000", false)
	if list, _, status := ask(""); list != "" || status != 503 {
		t.Errorf("an address outside the declared CIDRs: got %q %d, want none and 503", list, status)
	}
	remote.name("", false)
	if _, _, status := ask(""); status != 429 {
		t.Errorf("the remote picker's 429 came as %d, want 429", status)
	}
	if list, _, _ := ask("envoy://b/"); list != "envoy://b/" {
		t.Errorf(`full in the other cluster: %q, want "envoy://b/"`, list)
	}
	remote.name("10.1.0.5:8000", false)
	known.fail(errors.New("not delivered"))
	if _, _, status := ask(""); status != 503 {
		t.Errorf("an endpoint that Envoy does not have: got %d, want 503", status)
	}
}

// A process that configures no Envoy cannot deliver a remote picker's endpoint to Envoy. It must
// end the call before any response, so that the gateway calls another picker.
func TestRelay_IsolatedProcessLeavesPickToAnother(t *testing.T) {
	p := runPicker(t, Config{Learner: &learner{away: true}})
	_, address := servePicker(t, p)
	remote := &remotePicker{}
	remote.name("10.1.0.5:8000", false)
	setPools(t, p, relayed(remote.serve(t)))
	stream, cancel := call(t, dialPicker(t, address), "x-penstock-pool", "import/c")
	defer cancel()
	if err := stream.Send(headerMessage(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	if len(remote.paths) > 0 {
		t.Error("the remote picker was asked in vain")
	}
}

// While the remote picker answers, the import changes from listed to unlisted endpoints, which
// Envoys then lose. So the picker must deliver the answer's endpoint to the Envoys.
func TestRelay_EndpointsThatAreDeclaredNoMoreAreLearned(t *testing.T) {
	learned := &learner{}
	p := runPicker(t, Config{Learner: learned})
	_, address := servePicker(t, p)
	remote := &remotePicker{}
	remote.name("10.1.0.5:8000", false)
	declared := relayed(remote.serve(t))
	next := *declared.Relay
	declared.Relay.Listed = true
	setPools(t, p, declared)
	remote.mu.Lock() // keeps the picker from answering
	stream, cancel := call(t, dialPicker(t, address), "x-penstock-pool", "import/c")
	defer cancel()
	if err := stream.Send(headerMessage(nil)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the remote picker is asked", func() bool { return remote.calls.Load() > 0 })
	declared.Relay = &next
	setPools(t, p, declared)
	remote.mu.Unlock()
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if len(learned.addrs) != 1 {
		t.Errorf("learned %v, want the endpoint that the picker named", learned.addrs)
	}
}

func TestRelay_RequestReachesRemotePodWithItsBody(t *testing.T) {
	g := startGateway(t,
		route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true, Pool: "import/c"},
		route{Name: "none", Cluster: "closed", Mode: none, Allow: true, Pool: "import/c"},
		route{Name: "resp", Cluster: "closed", Mode: noneResp, Allow: true, Pool: "import/c"})
	remote := &remotePicker{}
	remote.name(g.pods[1].addr().String(), false)
	setPools(t, g.picker, relayed(remote.serve(t)))
	body := `{"model":"m","pad":"` + strings.Repeat("p", 3<<20) + `"}`
	for _, mode := range []string{"buffered", "none", "resp"} {
		response, text := g.post(t, "/"+mode+"/v1", []byte(body))
		if response.StatusCode != 200 || response.Header.Get("x-pod") != "pod-1" {
			t.Errorf("%s: got %s %v %s, want 200 from pod-1", mode, response.Status, response.Header, text)
		}
		if _, got := g.pods[1].received(); string(got) != body {
			t.Errorf("%s: %d bytes arrived, want all %d", mode, len(got), len(body))
		}
	}
	poll.Until(t, "the remote picker gets the served endpoint", func() bool {
		remote.mu.Lock()
		defer remote.mu.Unlock()
		return len(remote.served) == 1 && remote.served[0] == g.pods[1].addr().String()
	})
	if remote.bodies[0] != body || remote.bodies[1] != "" {
		t.Errorf("the remote picker read %d and %d bytes, want the body and none",
			len(remote.bodies[0]), len(remote.bodies[1]))
	}
	remote.name("", false)
	if response, text := g.post(t, "/buffered/", []byte("{}")); response.StatusCode != 429 ||
		text != "busy over there" {
		t.Errorf(`got %s %s, want 429 and "busy over there"`, response.Status, text)
	}
}

func TestRelay_MovedRemotePickerLosesNoRequest(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	var addrs []netip.AddrPort
	for range 2 {
		remote := &remotePicker{}
		remote.name("10.1.0.5:8000", false)
		addrs = append(addrs, remote.serve(t))
	}
	setPools(t, p, relayed(addrs[0]))
	conn := dialPicker(t, address)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				stream, cancel := call(t, conn, "x-penstock-pool", "import/c")
				if list, _, status := answered(exchange(t, stream, headerMessage(nil))); list != "10.1.0.5:8000" {
					t.Errorf(`%q %d, want "10.1.0.5:8000"`, list, status)
				}
				cancel()
			}
		})
	}
	for i := range 50 {
		setPools(t, p, relayed(addrs[i%2]))
	}
	group.Wait()
}

func (s *stalled) serve(t *testing.T) netip.AddrPort {
	t.Helper()
	server := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(server, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return netip.MustParseAddrPort(listener.Addr().String())
}

type stalled struct {
	extprocv3.UnimplementedExternalProcessorServer
	calls atomic.Int32
}

func (s *stalled) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	s.calls.Add(1)
	<-stream.Context().Done()
	return nil
}

// A remote picker that stalls delays only one request. Envoy waits for a pick for two seconds.
func TestRelay_StalledPickerCostsOneRequestItsTime(t *testing.T) {
	remote := &remotePicker{}
	remote.name("10.1.0.5:8000", false)
	answering := remote.serve(t)
	for _, c := range []struct {
		name   string
		others []netip.AddrPort
		spill  string
		list   string
		status int
	}{
		{"the next address answers", []netip.AddrPort{answering}, "", "10.1.0.5:8000", 0},
		{"there is no other one", nil, "", "", 503},
		{"the pool spills", nil, "envoy://b/", "envoy://b/", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := runPicker(t, Config{})
			_, address := servePicker(t, p)
			down := &stalled{}
			setPools(t, p, relayed(append([]netip.AddrPort{down.serve(t)}, c.others...)...))
			conn := dialPicker(t, address)
			pairs := []string{"x-penstock-pool", "import/c"}
			if c.spill != "" {
				pairs = append(pairs, "x-penstock-spill", c.spill)
			}
			for range 50 {
				stream, cancel := call(t, conn, pairs...)
				list, _, status := answered(exchange(t, stream, headerMessage(nil)))
				cancel()
				if list != c.list || status != c.status {
					t.Fatalf("%q %d, want %q %d", list, status, c.list, c.status)
				}
			}
			// The first call waits for the stalled picker. On a slow machine, the test lasts longer
			// than an ejection, so some trials also wait.
			if n := down.calls.Load(); n > 5 {
				t.Errorf("%d of 50 picks waited for the stalled picker, want at most 5", n)
			}
		})
	}
}

func TestRelay_ListsAndImmediateResponsesOfTheRemotePickerAreBounded(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	remote := &remotePicker{}
	setPools(t, p, relayed(remote.serve(t)))
	conn := dialPicker(t, address)
	ask := func() (string, int) {
		t.Helper()
		stream, cancel := call(t, conn, "x-penstock-pool", "import/c")
		defer cancel()
		list, _, status := answered(exchange(t, stream, headerMessage(nil)))
		return list, status
	}
	remote.name(strings.TrimSuffix(strings.Repeat("10.1.0.5:8000,", 10000), ","), false)
	if list, _ := ask(); strings.Count(list, ",") != 15 {
		t.Errorf("%d endpoints, want 16", strings.Count(list, ",")+1)
	}
	remote.name(strings.Repeat("x", 1<<19), false)
	if list, status := ask(); list != "" || status != 503 {
		t.Errorf("an endless address: got %q %d, want none and 503", list, status)
	}
	remote.name("10.1.0.5:8000,"+strings.Repeat("x", 2<<20), false)
	if list, status := ask(); list != "" || status != 503 {
		t.Errorf("a message above the limit: got %q %d, want none and 503", list, status)
	}
	remote.reject(strings.Repeat("busy", 100<<10))
	if _, status := ask(); status != 503 {
		t.Errorf("an immediate response of 400 KiB: %d, want 503", status)
	}
	remote.reject("busy")
	if _, status := ask(); status != 429 {
		t.Errorf("a short immediate response: %d, want 429", status)
	}
}
