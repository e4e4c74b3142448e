package picker

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// changingPicker is another cluster's picker that changes requests as the protocol allows.
type changingPicker struct {
	extprocv3.UnimplementedExternalProcessorServer
	list    string
	headers []string            // names and values of headers to set, in turn
	remove  []string            // headers to remove
	body    func(string) string // returns the changed body; nil keeps the body
	pause   time.Duration       // between the endpoint and the body
	open    atomic.Int32        // open calls
	ended   sync.WaitGroup      // all calls
}

func (p *changingPicker) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	p.ended.Add(1)
	defer p.ended.Done()
	p.open.Add(1)
	defer p.open.Add(-1)
	var body strings.Builder
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		body.Write(m.GetRequestBody().GetBody())
		if !m.GetRequestHeaders().GetEndOfStream() && !m.GetRequestBody().GetEndOfStream() {
			continue
		}
		set := []*corev3.HeaderValueOption{
			{Header: &corev3.HeaderValue{Key: "x-gateway-destination-endpoint", RawValue: []byte(p.list)}},
		}
		for i := 0; i < len(p.headers); i += 2 {
			set = append(set, &corev3.HeaderValueOption{
				AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
				Header:       &corev3.HeaderValue{Key: p.headers[i], RawValue: []byte(p.headers[i+1])},
			})
		}
		if err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
			RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
				HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: set, RemoveHeaders: p.remove},
			}},
		}}); err != nil {
			return err
		}
		time.Sleep(p.pause)
		text := body.String()
		if p.body != nil {
			text = p.body(text)
		}
		for text != "" {
			chunk := text[:min(len(text), 60_000)]
			text = text[len(chunk):]
			returned := &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
				StreamedResponse: &extprocv3.StreamedBodyResponse{Body: []byte(chunk), EndOfStream: text == ""},
			}}
			if err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
				RequestBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: returned}},
			}}); err != nil {
				return err
			}
		}
	}
}

func (p *changingPicker) serve(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(server, p)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return netip.MustParseAddrPort(listener.Addr().String())
}

func TestRelay_ChangesOfTheRemotePickerArrive(t *testing.T) {
	g := startGateway(t, route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true, Pool: "import/c"})
	remote := &changingPicker{list: g.pods[1].addr().String(),
		remove: []string{"x-secret", ":path", "host", "x-envoy-expected-rq-timeout-ms"},
		headers: []string{"x-req-tokens-key", "k1", "x-prefiller-host-port", "10.1.0.9:8000", ":authority",
			"evil.example", ":path", "/evil", "host", "evil.example", "x-envoy-upstream-alt-stat-name", "evil",
			"x-penstock-pool", "evil", "content-length", "3", "connection", "close", "transfer-encoding", "chunked",
			"x-split", "a\r\nx-evil: b"},
		body: func(s string) string {
			return strings.Replace(s, `"model":"public"`, `"token_ids":[1,2,3],"model":"internal"`, 1)
		}}
	setPools(t, g.picker, relayed(remote.serve(t)))
	for _, pad := range []int{0, 3 << 20} {
		body := `{"model":"public","pad":"` + strings.Repeat("p", pad) + `"}`
		response := g.send(t, "POST", "/buffered/v1", body, "x-secret", "s", "x-kept", "k")
		_ = response.Body.Close()
		if response.StatusCode != 200 || response.Header.Get("x-pod") != "pod-1" {
			t.Fatalf("got %s %v, want 200 from pod-1", response.Status, response.Header)
		}
		header, got := g.pods[1].received() // net/http reads content-length bytes
		if want := remote.body(body); string(got) != want {
			t.Errorf("%d bytes arrived, want %d", len(got), len(want))
		}
		if header.Get("x-req-tokens-key") != "k1" || header.Get("x-prefiller-host-port") != "10.1.0.9:8000" ||
			header.Get("x-secret") != "" || header.Get("x-kept") != "k" {
			t.Errorf("headers: got %v, want the key, the prefiller and x-kept, without x-secret", header)
		}
		if strings.Contains(fmt.Sprint(header, response.Header), "evil") {
			t.Errorf("got %v %v, want no header of the remote picker's that is not changeable", header, response.Header)
		}
		if path := <-g.pods[1].begun; path != "/buffered/v1" {
			t.Errorf(`the path is %s, want "/buffered/v1"`, path)
		}
	}
}

// After a remote picker has returned a body, even in a single chunk, the relay waits for its later
// bodies, even if they are late.
func TestRelay_LateBodyOfAPickerThatReturnsBodiesArrives(t *testing.T) {
	g := startGateway(t, route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true, Pool: "import/c"})
	remote := &changingPicker{list: g.pods[1].addr().String()}
	setPools(t, g.picker, relayed(remote.serve(t)))
	for i, want := range []string{`{}`, `{"changed":true}`} {
		if i == 1 {
			remote.ended.Wait()
			remote.pause, remote.body = 600*time.Millisecond, func(string) string { return want }
		}
		if response, text := g.post(t, "/buffered/v1", []byte(`{}`)); response.StatusCode != 200 {
			t.Fatalf("got %s %s, want 200", response.Status, text)
		}
		if _, got := g.pods[1].received(); string(got) != want {
			t.Errorf("request %d: got body %s, want %s", i+1, got, want)
		}
	}
}

func TestRelay_ChangesOfTheRemotePickerAreBounded(t *testing.T) {
	g := startGateway(t, route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true, Pool: "import/c"})
	remote := &changingPicker{list: g.pods[1].addr().String()}
	setPools(t, g.picker, relayed(remote.serve(t)))
	for what, change := range map[string]func(){
		"a body that grows by 5 MiB": func() {
			remote.body = func(s string) string { return s + strings.Repeat(" ", 5<<20) }
		},
		"100 headers": func() {
			for i := range 100 {
				remote.headers = append(remote.headers, fmt.Sprintf("x-%d", i), "v")
			}
		},
		"64 KiB of headers": func() { remote.headers = []string{"x-large", strings.Repeat("v", 64<<10)} },
	} {
		remote.ended.Wait() // the previous call lasts until the access log ends its request
		remote.body, remote.headers = nil, nil
		if response, text := g.post(t, "/buffered/v1", []byte(`{}`)); response.StatusCode != 200 {
			t.Fatalf("before: got %s %s, want 200", response.Status, text)
		}
		remote.ended.Wait()
		change()
		if response, text := g.post(t, "/buffered/v1", []byte(`{}`)); response.StatusCode != 503 {
			t.Errorf("%s: got %s %s, want 503", what, response.Status, text)
		}
	}
}

// The picker keeps its call to the remote picker open until the access log reports the request's
// end: the remote picker counts the request until the call ends.
func TestRelay_RemotePickerCountsRequestUntilItsEnd(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	remote := &changingPicker{list: "10.1.0.5:8000"}
	setPools(t, p, relayed(remote.serve(t)))
	stream, cancel := call(t, dialPicker(t, address), "x-penstock-pool", "import/c")
	r := exchange(t, stream, headerMessage(nil))
	metadata := r.GetDynamicMetadata().GetFields()["penstock"].GetStructValue().GetFields()
	lease := metadata["lease"].GetStringValue()
	if lease == "" || metadata["pool"].GetStringValue() != "import/c" {
		t.Fatalf("got %v, want a lease and pool import/c", r)
	}
	cancel() // the gateway ends its call after the pick
	// The reports must keep the call open for longer than leaseTimeout.
	poll.Never(t, "the remote picker's call ends while the request goes on", leaseTimeout+time.Second, func() bool {
		p.Log(accesslog.Entry{Lease: lease, Pool: "import/c", Served: "10.1.0.5:8000", Open: true})
		return remote.open.Load() != 1
	})
	p.Log(accesslog.Entry{Lease: lease, Pool: "import/c", Served: "10.1.0.5:8000", Status: 200})
	poll.Until(t, "the remote picker's call ends with the request", func() bool { return remote.open.Load() == 0 })
	poll.Until(t, "the request is not counted", func() bool {
		return p.leases.Len() == 0 && p.others.nowhere.InFlight() == 0
	})

	// This request gets no reports, as if its Envoy had ended.
	stream, cancel = call(t, dialPicker(t, address), "x-penstock-pool", "import/c")
	exchange(t, stream, headerMessage(nil))
	cancel()
	poll.Until(t, "the call of a request without reports ends", func() bool { return remote.open.Load() == 0 })
}

// If an import has a picker in Envoy's configuration, but gateways in this process's, Envoy must
// call another process.
func TestRelay_PoolThatStillHasGatewaysHereIsPickedForElsewhere(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Gateways: true})
	_, address := servePicker(t, p)
	ask := func(method, path string) (*extprocv3.ProcessingResponse, error) {
		stream, _ := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool")
		if err := stream.Send(headerMessage(nil, ":method", method, ":path", path)); err != nil {
			t.Fatal(err)
		}
		return stream.Recv()
	}
	if r, err := ask("POST", "/v1/chat/completions"); status.Code(err) != codes.Unavailable {
		t.Errorf("a request for a completion: %v, %v; want Unavailable, after which Envoy asks another process", r, err)
	}
	r, err := ask("GET", "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	if list, _, code := answered(r); list != "" || code != 0 {
		t.Errorf("a request for the list of models: %v, want that it passes on", r)
	}
}
