package features

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// referencePicker reads a request to its end, then picks. It serves no health checks. With
// acknowledges, it answers like the inference extension's lwepp v1.6.0: at once for each piece of
// the body, before the headers, without sending the piece back. Otherwise it follows the protocol.
type referencePicker struct {
	extprocv3.UnimplementedExternalProcessorServer
	pick         string
	acknowledges bool

	mu     sync.Mutex
	paths  []string // paths of the requests with a pick
	served []string // endpoints that served, by response headers
}

func (p *referencePicker) record(list *[]string, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, text)
}

func (p *referencePicker) recorded() (paths, served []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.paths), slices.Clone(p.served)
}

func (p *referencePicker) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	var read []byte
	var path string
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		var replies []*extprocv3.ProcessingResponse
		switch r := m.Request.(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			for _, h := range r.RequestHeaders.Headers.Headers {
				if h.Key == ":path" {
					path = string(h.RawValue)
				}
			}
			if r.RequestHeaders.EndOfStream {
				p.record(&p.paths, path)
				replies = append(replies, names(p.pick))
			}
		case *extprocv3.ProcessingRequest_RequestBody:
			read = append(read, r.RequestBody.Body...)
			if r.RequestBody.EndOfStream {
				p.record(&p.paths, path)
				replies = append(replies, names(p.pick))
			}
			switch {
			case p.acknowledges:
				replies = append(replies,
					&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
						RequestBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{}},
					}})
			case r.RequestBody.EndOfStream:
				replies = append(replies, sendBack(read, true))
			}
		case *extprocv3.ProcessingRequest_ResponseHeaders:
			if lb := m.MetadataContext.GetFilterMetadata()["envoy.lb"]; lb != nil {
				p.record(&p.served, path+" "+lb.Fields["x-gateway-destination-endpoint-served"].GetStringValue())
			}
			replies = append(replies,
				&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
					ResponseHeaders: &extprocv3.HeadersResponse{},
				}})
		}
		for _, reply := range replies {
			if s.Send(reply) != nil {
				return nil
			}
		}
	}
}

func external(t *testing.T, acknowledges bool) (s *site, p *referencePicker, stop func()) {
	s = newSite(t)
	s.server("pod-1")
	s.server("pod-2")
	p = &referencePicker{pick: s.address("pod-2"), acknowledges: acknowledges}
	s.ports["epp"], stop = serving(t, "127.0.0.1:0", p)
	return s, p, stop
}

func (s *site) allServedBy(path, by string, requests int) {
	s.Helper()
	s.answers(path, http.StatusOK)
	for range requests {
		if got := s.answered(path, question); got.by() != by || !strings.Contains(got.body, "repeat this") {
			s.Fatalf(`from %q: %s, want %q and a text with "repeat this"`, got.by(), got.body, by)
		}
	}
}

// The external picker is another Penstock, which picks only pod-2.
func TestExternalPicker_DecidesAndFailureModeApplies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod-1")
	s.server("pod-2")
	s.exporter("externalpicker.yaml", with("own", "picked"))
	s.ports["epp"] = s.ports["exporter.picker"]
	s.up("externalpicker.yaml", with("two", "external", "slice"))
	s.allServedBy("/", "pod-2", 20)

	// If the picker is unreachable, requests get 503 with FailClose, and any endpoint with
	// FailOpen.
	s.closed("epp")
	s.write("externalpicker.yaml", with("two", "external", "slice"))
	s.answers("/", http.StatusServiceUnavailable)
	s.write("externalpicker.yaml", with("two", "external", "slice"), swap("FailClose", "FailOpen"))
	s.answers("/", http.StatusOK)
}

// Pickers work in both body modes, although no object states the mode. status reports a picker that
// does not send bodies back.
func TestExternalPicker_OfBothBodyModesWorks(t *testing.T) {
	t.Parallel()
	s, _, stop := external(t, true)
	s.up("externalpicker.yaml", with("two", "external", "selector"), swap("failureMode: FailClose, ", ""))
	s.allServedBy("/", "pod-2", 10)
	const report = "does not send them back"
	if out := s.status(); !strings.Contains(out, report) {
		t.Errorf("status: got\n%s\nwant that the pool %q", out, report)
	}
	stop() // the pod of a newer release replaces the picker
	serving(t, s.address("epp"), &referencePicker{pick: s.address("pod-1")})
	s.Eventually("the status does not report it any more", func() error {
		out := s.status()
		return because(!strings.Contains(out, report), out)
	})
	s.allServedBy("/", "pod-1", 10)
}

// The picker must pick for each request, although it waits for bodies. The pool fails closed: a
// request without a pick would get 503.
func TestExternalPicker_PicksForStreamsUploadsAndUpgrades(t *testing.T) {
	t.Parallel()
	for name, acknowledges := range map[string]bool{"full duplex": false, "acknowledges": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := external(t, acknowledges)
			s.up("externalpicker.yaml", with("two", "external", "selector"))
			s.answers("/", http.StatusOK)
			for _, header := range []http.Header{
				{"Content-Type": {"multipart/form-data; boundary=b"}},
				{"Content-Type": {"application/grpc"}},
				{"Upgrade": {"websocket"}, "Connection": {"upgrade"}},
			} {
				s.picksFor(p, header)
			}
		})
	}
}

// picksFor sends a request with these headers. The picker must pick for it, and receive the headers
// of its response.
func (s *site) picksFor(p *referencePicker, header http.Header) {
	s.Helper()
	path := "/v1/models?" + url.QueryEscape(fmt.Sprint(header))
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base()+path, strings.NewReader("body"))
	if err != nil {
		s.Fatal(err)
	}
	req.Header = header
	if header.Get("Upgrade") != "" {
		req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatalf("%v: %v", header, err)
	}
	_ = resp.Body.Close()
	if by := resp.Header.Get("x-served-by"); by != "pod-2" {
		s.Errorf("%v: %d from %q, want pod-2's answer", header, resp.StatusCode, by)
	}
	s.Eventually("the picker gets the headers of the response", func() error {
		paths, served := p.recorded()
		found := slices.Contains(paths, path) && slices.Contains(served, path+" "+s.address("pod-2"))
		return because(found, header, ": it picked for ", paths, " and has the responses ", served)
	})
}

// A starting process probes pickers before it configures Envoy's calls to them. No request fails.
func TestExternalPicker_RestartKeepsTheBodyMode(t *testing.T) {
	t.Parallel()
	s, _, _ := external(t, true)
	s.write("externalpicker.yaml", with("two", "external", "selector"))
	s.flags = []string{"--picker", "127.0.0.1:0"}
	s.serve()
	s.attach(s.ads())
	s.answers("/", http.StatusOK)
	requests := s.traffic("/")
	for range 3 {
		s.stop()
		s.serve()
		s.logged(`msg="proxy connected"`)
		requests.flows(20)
	}
	requests.end(0)
}

// A call to an external picker lasts as long as its request, to report the endpoint that served. If
// Envoy removed the picker's cluster, it would reset the call.
func TestExternalPicker_RemovedKeepsRequestsInFlight(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod-1", "--time-to-first-token", "7s") // longer than Envoy keeps an unused cluster
	s.exporter("externalpicker.yaml", with("own", "one"))
	s.ports["epp"] = s.ports["exporter.picker"]
	s.up("externalpicker.yaml", with("one", "external", "selector"))
	first := s.begin("/")
	s.Eventually("the server has the request", func() error {
		page, err := s.get("http://" + s.address("pod-1") + "/metrics")
		return because(strings.Contains(page.body, "num_requests_running{model_name=\"llama\"} 1"), page.body, err)
	})
	s.write("externalpicker.yaml", with("one", "own", "selector"))
	if got := <-first; got.err != nil || got.status != http.StatusOK || got.by() != "pod-1" {
		t.Errorf(`%d from %q: %s %v, want %d and "pod-1"`, got.status, got.by(), got.body, got.err, http.StatusOK)
	}
}

// The picker of a pool that fails open ends. Requests are served at once, although Envoy's health
// check has not failed yet.
func TestExternalPicker_LostOneIsPassedByAtOnce(t *testing.T) {
	t.Parallel()
	const few = 100 // number of requests that may fail
	s := newSite(t)
	here := s.cluster("pod-1")
	s.ports["epp"] = s.ports["pod-1.picker"]
	s.up("externalpicker.yaml", with("one", "external", "selector"), swap("FailClose", "FailOpen"))
	s.answers("/", http.StatusOK)
	s.logged("external picker answered its probe") // Penstock is connected to the picker

	requests := s.traffic("/")
	requests.flows(20)
	here.pickers.Stop()
	s.logged("lost=true")
	s.answers("/", http.StatusOK)
	requests.flows(2 * few)
	if out := s.status(); !strings.Contains(out, fmt.Sprintf("the endpoint picker at port %d fails: connection refused",
		s.ports["epp"])) {
		t.Errorf("status: got\n%s\nwant that the picker at port %d fails", out, s.ports["epp"])
	}
	requests.end(few)
	s.write("externalpicker.yaml", with("one", "selector"))
	s.Eventually("no finding about a picker that no pool has", func() error {
		out := s.status()
		return because(!strings.Contains(out, "the endpoint picker at port"), out)
	})
}

// otherNames sets a picker's header and metadata names. The PoolPolicies in the YAML have them,
// too.
var otherNames = []string{
	"--destination-endpoint-hint-key", "x-pod", "--destination-endpoint-hint-metadata-namespace", "picks",
	"--destination-endpoint-subset-metadata-namespace", "subsets",
}

// The picker picks only pod-2 and fails closed, so Envoy answers 503 if it does not find the pick.
func TestExternalPicker_IsAskedByItsOwnNames(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"pod-1", "pod-2", "spare-1"} {
		s.server(name)
	}
	s.alone("epp", "externalpicker.yaml", with("external", "picked"), append(otherNames, "--conformance")...)
	parts := []string{"two", "external", "slice", "import", "import-names"}
	s.up("externalpicker.yaml", with(append(parts, "names")...))
	served := func(path string) {
		t.Helper()
		got := s.answers(path, http.StatusOK)
		if at := got.header.Get("x-conformance-test-served-endpoint"); got.by() != "pod-2" || path != "/relayed" &&
			at != s.address("pod-2") {
			t.Errorf(`%s: from %q, and the picker received that %q served, want "pod-2" for both`, path, got.by(), at)
		}
	}
	for _, path := range []string{"", "/relayed", "/declared"} {
		served(path)
	}
	// Envoy sends no multipart body to a picker, so Penstock's picker calls the external one.
	s.Eventually("a multipart body is picked for", func() error {
		got, err := s.ask("/", `{"model": "llama", "messages": []}`, "content-type", "multipart/form-data; boundary=x")
		return because(err == nil && got.status != http.StatusServiceUnavailable && got.by() == "pod-2", got, err)
	})
	// Envoy reaches a pool that spills through an internal listener. Its picker must get the same
	// names.
	s.write("externalpicker.yaml", with(append(parts, "spills")...))
	s.Eventually("the pool spills", func() error {
		out := s.explain(s.url("/"))
		return because(strings.Contains(out, "spare"), out)
	})
	for range 5 {
		served("")
	}
	// Without the policy, Envoy finds no pick.
	s.write("externalpicker.yaml", with("two", "external", "slice", "import"))
	s.answers("/", http.StatusServiceUnavailable)
}
