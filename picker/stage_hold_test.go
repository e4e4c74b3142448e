package picker

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func oneAtATime(l flow.Limits) *FlowControl {
	return &FlowControl{Limits: l, Saturation: flow.Saturation{InFlight: 1}}
}

func waiting(p *Picker, pool string) (n int) {
	for _, b := range p.pool(pool).queue.Bands() {
		n += b.Requests
	}
	return n
}

func immediateHeaders(r *extprocv3.ProcessingResponse) http.Header {
	out := http.Header{}
	for _, h := range r.GetImmediateResponse().GetHeaders().GetSetHeaders() {
		out.Add(h.Header.Key, string(h.Header.RawValue))
	}
	return out
}

func TestFlowControl_RequestWaitsForSaturatedPool(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := runPicker(t, Config{Registerer: registry})
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Default: true, FlowControl: oneAtATime(flow.Limits{}),
			Endpoints: specs("10.0.0.1:80")})
	conn := dialPicker(t, address)
	first, end := call(t, conn)
	if list, _, _ := answered(exchange(t, first, headerMessage(nil))); list != "10.0.0.1:80" {
		t.Fatalf(`the first request went to %q, want "10.0.0.1:80"`, list)
	}
	second, _ := call(t, conn)
	r := exchange(t, second, headerMessage(nil))
	if asked := r.GetOverrideMessageTimeout().AsDuration(); asked != 65*time.Second || r.Response != nil {
		t.Fatalf("a request that waits: %v, want it to ask the gateway for 65 s", r)
	}
	if got := gathered(t, registry)["penstock_picker_flow_requests ns/pool 0"]; got != 1 {
		t.Errorf("%v requests wait by the metrics, want 1", got)
	}
	if e := p.Explain("ns/pool", nil).Flow; e == nil || e.Saturation != 1 || len(e.Waiting) != 1 ||
		e.Waiting[0].Requests != 1 {
		t.Errorf("explained as %+v, want one request that waits", e)
	}
	end()
	r, err := second.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if list, _, _ := answered(r); list != "10.0.0.1:80" {
		t.Errorf("when the first one has ended: got %v, want 10.0.0.1:80", r)
	}
	if picks := p.Picks(Picks{Last: 1}); len(picks) != 1 || picks[0].Waited <= 0 {
		t.Errorf("the record of the pick has no wait, want one: %+v", picks)
	}
	if got := gathered(t, registry)["penstock_picker_flow_wait_seconds admitted ns/pool 0"]; got != 1 {
		t.Errorf("%v waits are counted, want 1", got)
	}
}

func TestFlowControl_RejectionHasReasonAndTime(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	conn := dialPicker(t, address)
	one := oneAtATime(flow.Limits{Requests: 1, TTL: 300 * time.Millisecond})
	empty := oneAtATime(flow.Limits{EmptyTTL: 100 * time.Millisecond})
	setPools(t, p, Pool{ID: poolID("ns/pool"), FlowControl: one, Endpoints: specs("10.0.0.1:80")},
		Pool{ID: poolID("ns/empty"), FlowControl: empty})
	busy, _ := call(t, conn, "x-penstock-pool", "ns/pool")
	exchange(t, busy, headerMessage(nil))
	waits, _ := call(t, conn, "x-penstock-pool", "ns/pool")
	exchange(t, waits, headerMessage(nil))
	over, _ := call(t, conn, "x-penstock-pool", "ns/pool")
	expect := func(what string, r *extprocv3.ProcessingResponse, status int, reason, dropped, retry string) {
		t.Helper()
		h := immediateHeaders(r)
		if _, _, got := answered(r); got != status || h.Get("x-penstock-reason") != reason ||
			h.Get("x-llm-d-request-dropped-reason") != dropped || h.Get("retry-after") != retry {
			t.Errorf("%s: %v %v, want %d, %s, %s and to retry after %q", what, r.GetImmediateResponse().GetStatus(), h,
				status, reason, dropped, retry)
		}
	}
	expect("a request more than may wait", exchange(t, over, headerMessage(nil)), 429, "queue_full",
		"rejected-saturated", "1")
	r, err := waits.Recv()
	if err != nil {
		t.Fatal(err)
	}
	expect("one that has waited too long", r, 429, "queue_ttl", "rejected-ttl-expired", "1")
	for i, want := range []schedule.Excess{{Limit: "picker.flowControl.ttlSeconds", Unit: "s", Max: 0.3},
		{Limit: "picker.flowControl.maxRequests", Max: 1, Value: 1}} {
		record := p.Picks(Picks{Last: 2})[i]
		if len(record.Exceeded) == 0 {
			t.Fatalf("why it is %s: got %+v, want a limit", record.Result, record.Exceeded)
		}
		got := record.Exceeded[0]
		if i == 0 && got.Value >= got.Max {
			got.Value = 0 // the value is how long the request has waited
		}
		if got != want {
			t.Errorf("why it is %s: %+v, want %+v", record.Result, got, want)
		}
	}
	nowhere, _ := call(t, conn, "x-penstock-pool", "ns/empty")
	exchange(t, nowhere, headerMessage(nil))
	if r, err = nowhere.Recv(); err != nil {
		t.Fatal(err)
	}
	expect("one of a pool without endpoints", r, 503, "no_endpoints", "rejected-no-endpoints", "")
}

func TestFlowControl_ClientThatLeavesFreesItsPlace(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}), Endpoints: specs("10.0.0.1:80")})
	conn := dialPicker(t, address)
	busy, _ := call(t, conn, "x-penstock-pool", "ns/pool")
	exchange(t, busy, headerMessage(nil))
	stream, leave := call(t, conn, "x-penstock-pool", "ns/pool")
	exchange(t, stream, headerMessage(nil))
	if n := waiting(p, "ns/pool"); n != 1 {
		t.Fatalf("%d requests wait, want 1", n)
	}
	leave()
	poll.Until(t, "the client's place to be free", func() bool { return waiting(p, "ns/pool") == 0 })
}

func TestFlowControl_FairnessIDCountsOnlyIfTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		trust bool
		want  int
	}{"trusted": {true, 3}, "not trusted": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			p := runPicker(t, Config{})
			_, address := servePicker(t, p)
			setPools(t, p,
				Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}), TrustHeaders: c.trust,
					Endpoints: specs("10.0.0.1:80")})
			conn := dialPicker(t, address)
			for i, headers := range [][]string{{}, {}, {"x-llm-d-inference-fairness-id", "a"},
				{"x-gateway-inference-fairness-id", "b"},
				{"x-gateway-inference-fairness-id", "b", "x-llm-d-inference-fairness-id", "a"}} {
				stream, _ := call(t, conn, "x-penstock-pool", "ns/pool")
				if r := exchange(t, stream, headerMessage(nil, headers...)); i > 0 &&
					r.GetOverrideMessageTimeout() == nil {
					t.Fatalf("request %d: got %v, want it to wait", i, r)
				}
			}
			if bands := p.pool("ns/pool").queue.Bands(); len(bands) != 1 || bands[0].Flows != c.want ||
				bands[0].Requests != 4 {
				t.Errorf("%+v, want 4 requests of %d flows", bands, c.want)
			}
		})
	}
}

// If the ClusterSet believes a member, flow control distinguishes the callers that this member
// names. All requests of any other member count as one caller.
func TestFlowControl_MembersCallersCountIfTheClusterSetBelievesThem(t *testing.T) {
	for name, c := range map[string]struct {
		believed string
		want     int
	}{"believed": {"east", 2}, "another is believed": {"west", 1}} {
		t.Run(name, func(t *testing.T) {
			p := runPicker(t, Config{Callers: callers{member: "east"},
				Believes: func(member string) bool { return member == c.believed }})
			_, address := servePicker(t, p)
			setPools(t, p, Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}),
				Endpoints: specs("10.0.0.1:80"), Models: &Models{Objectives: map[string]int32{"live": 7}}})
			conn := dialPicker(t, address)
			for i, caller := range []string{"ns/alice", "ns/alice", "ns/bob"} {
				stream, _ := call(t, conn, "x-penstock-pool", "ns/pool")
				if r := exchange(t, stream, headerMessage(nil, authz.CallerHeader, caller,
					plainObjectiveHeader, "live")); i > 0 &&
					r.GetOverrideMessageTimeout() == nil {
					t.Fatalf("request %d: got %v, want it to wait", i, r)
				}
			}
			if bands := p.pool("ns/pool").queue.Bands(); len(bands) != 1 || bands[0].Flows != c.want ||
				bands[0].Priority != 0 {
				t.Errorf("%+v, want %d flows of priority 0", bands, c.want)
			}
		})
	}
}

// A member may only name well-formed callers, which never equal callers of this cluster.
func TestFlowControl_MembersStateWellFormedCallersAlone(t *testing.T) {
	for text, want := range map[string]string{
		"ns/alice@x.y": "east:ns/alice@x.y", "west:ns/a%20b": "east:west:ns/a%20b", "": "", "a,b": "", "a\xff": "",
		"a\nb": "", strings.Repeat("a", 512): "east:" + strings.Repeat("a", 512), strings.Repeat("a", 513): "",
	} {
		got := stated("east", []byte(text))
		if string(got) != want || len(got) > 0 && !ofMember(got) {
			t.Errorf("%q is caller %q, want %q", text, got, want)
		}
	}
	if ofMember([]byte("ns/a:b")) || ofMember(nil) {
		t.Error("callers of this cluster count as a member's")
	}
}

func TestFlowControl_RequestThatCanSpillDoesNotWait(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}), Spills: true, Spill: []string{"envoy://b/"},
			Endpoints: specs("10.0.0.1:80")})
	conn := dialPicker(t, address)
	for _, want := range []string{"10.0.0.1:80,envoy://b/", "envoy://b/"} {
		stream, _ := call(t, conn, "x-penstock-pool", "ns/pool", "x-penstock-spill", "envoy://b/")
		if list, _, _ := answered(exchange(t, stream, headerMessage(nil))); list != want {
			t.Errorf("%q, want %q", list, want)
		}
	}
}

func TestFlowControl_RequestThatAnotherClusterTakesDoesNotWait(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}), Endpoints: specs("10.0.0.1:80")})
	conn := dialPicker(t, address)
	for _, want := range []int{0, 429} {
		stream, _ := call(t, conn, "x-penstock-pool", "ns/pool")
		if _, _, status := answered(exchange(t, stream, headerMessage(nil, OthersHeader, "1"))); status != want {
			t.Errorf("got status %d, want %d", status, want)
		}
	}
	if bands := p.pool("ns/pool").queue.Bands(); len(bands) > 0 && bands[0].Requests > 0 {
		t.Errorf("got %+v, want nothing in the queue", bands)
	}
}

// Flow control also holds a request of another cluster if no further cluster can take it.
func TestFlowControl_RequestThatNoOtherClusterTakesWaits(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}), Endpoints: specs("10.0.0.1:80")})
	conn := dialPicker(t, address)
	busy, _ := call(t, conn, "x-penstock-pool", "ns/pool")
	exchange(t, busy, headerMessage(nil))
	for name, c := range map[string]struct {
		headers []string
		waits   bool
	}{
		"the first of three":              {[]string{OthersHeader, "2"}, false},
		"the second of three":             {[]string{OthersHeader, "2", AttemptHeader, "2"}, false},
		"the last of three":               {[]string{OthersHeader, "2", AttemptHeader, "3"}, true},
		"one that alone has the response": {[]string{OthersHeader, "0", AttemptHeader, "1"}, true},
		"no number":                       {[]string{OthersHeader, "x"}, true},
	} {
		stream, leave := call(t, conn, "x-penstock-pool", "ns/pool")
		r := exchange(t, stream, headerMessage(nil, c.headers...))
		if _, _, status := answered(r); (status == 429) == c.waits ||
			(r.GetOverrideMessageTimeout() != nil) != c.waits {
			t.Errorf("%s: got %v, want it to wait: %t, or 429", name, r, c.waits)
		}
		leave()
	}
}

// The wait that other clusters compare includes the wait in the pool's queue.
func TestFlowControl_WaitOfOtherClustersHasTheQueue(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	pool := Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}), Endpoints: specs("10.0.0.1:80")}
	setPools(t, p, pool)
	conn := dialPicker(t, address)
	least := func() float64 {
		w, _, ok := p.Waiting(objectid.Pool{Namespace: "ns", Name: "pool"})
		if !ok {
			t.Fatal("nothing is known of the pool")
		}
		return w.Least
	}
	const long = "400000" // in bytes: 100,000 tokens, which a server reads in 25 s
	var before float64
	for i := range 4 {
		stream, _ := call(t, conn, "x-penstock-pool", "ns/pool")
		if r := exchange(t, stream, headerMessage(nil, "content-length", long)); i > 0 &&
			r.GetOverrideMessageTimeout() == nil {
			t.Fatalf("request %d: got %v, want it to wait", i, r)
		}
		now := least()
		if i > 1 && now < before+20 {
			t.Errorf("a wait of %.1f s with %d requests in the queue, and %.1f s with one less; want at least 20 s "+
				"more", now, i, before)
		}
		before = now
	}
}

func TestFlowControl_TurnedOffSendsThoseThatWait(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	pool := Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}), Criticality: schedule.Sheddable,
		Endpoints: specs("10.0.0.1:80")}
	setPools(t, p, pool)
	conn := dialPicker(t, address)
	busy, _ := call(t, conn, "x-penstock-pool", "ns/pool")
	exchange(t, busy, headerMessage(nil))
	stream, _ := call(t, conn, "x-penstock-pool", "ns/pool")
	exchange(t, stream, headerMessage(nil))
	pool.FlowControl = nil
	setPools(t, p, pool)
	r, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if list, _, _ := answered(r); list != "10.0.0.1:80" {
		t.Errorf("%v, want the pick", r)
	}
}

// An admitted request takes room during the processor's call, although it has no lease yet.
func TestFlowControl_RequestAtProcessorTakesRoom(t *testing.T) {
	arrived, answer := make(chan struct{}, 9), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // lets the server notice that the client disconnects
		arrived <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	p := runPicker(t, Config{})
	processor := &Processor{Host: "p:1", Timeout: time.Minute,
		Addresses: []dial.Address{
			{AddrPort: netip.MustParseAddrPort(server.Listener.Addr().String()), Cleartext: true},
		}}
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), FlowControl: oneAtATime(flow.Limits{}), Endpoints: specs("10.0.0.1:80"),
			Processor: processor, Body: BodyBuffered})
	queue := p.pool("ns/pool").queue
	answers := make(chan extproc.Answer, 3)
	pick := func(ctx context.Context) { answers <- p.Pick(ctx, bodied(`{"prompt":"a"}`)) }
	ctx, leave := context.WithCancel(t.Context())
	go pick(ctx)
	<-arrived
	go pick(t.Context())
	poll.Until(t, "the second request to wait", func() bool {
		return queue.Bands() != nil && waiting(p, "ns/pool") == 1
	})
	if n := queue.Admit(time.Now().Add(10 * time.Millisecond)); n != 1 {
		t.Fatal("the room of a request that the processor has is given away again")
	}
	leave()
	if a := <-answers; a.Reason != ReasonCanceled {
		t.Errorf("the first client leaves: %+v, want Reason %v", a, ReasonCanceled)
	}
	<-arrived
	close(answer)
	a := <-answers
	if a.Endpoints.String() != "10.0.0.1:80" || queue.Unplaced() != 0 {
		t.Errorf("got %s, %d requests are not placed; want 10.0.0.1:80 and none", a.Endpoints, queue.Unplaced())
	}
	go pick(t.Context())
	poll.Until(t, "the third request to wait", func() bool { return waiting(p, "ns/pool") == 1 })
	if n := queue.Admit(time.Now().Add(10 * time.Millisecond)); n != 1 {
		t.Error("the request at the server takes no room")
	}
	a.Track.End()
	(<-answers).Track.End()
}

// The picker extends Envoy's timeout of a pick (2 s) while a request waits.
func TestFlowControl_EnvoyWaitsAsLongAsTheRequest(t *testing.T) {
	g := startGateway(t, route{Name: "none", Cluster: "closed", Mode: none},
		route{Name: "buffered", Cluster: "closed", Mode: buffered})
	control := &FlowControl{Saturation: flow.Saturation{InFlight: 1}}
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), FlowControl: control, Body: BodyBuffered, Endpoints: g.endpoints()[:1]})
	blocked, release := g.pods[0].hold(t)
	statuses := make(chan string, 3)
	send := func(path string) {
		response, err := http.Post(g.url+path, "application/json", strings.NewReader(`{"model":"m","prompt":"p"}`))
		if err != nil {
			statuses <- err.Error()
			return
		}
		_ = response.Body.Close()
		statuses <- path + response.Status
	}
	go send("/none/")
	<-blocked
	go send("/none/")
	go send("/buffered/")
	poll.Until(t, "two requests to wait", func() bool { return waiting(g.picker, "ns/pool") == 2 })
	// 2.5 s is longer than Envoy's message_timeout.
	poll.Never(t, "a request is answered", 2500*time.Millisecond,
		func() bool { return len(statuses) > 0 })
	release()
	var got []string
	for range 3 {
		got = append(got, <-statuses)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"/buffered/200 OK", "/none/200 OK", "/none/200 OK"}, got); diff != "" {
		t.Error(diff)
	}
	if served := len(g.pods[0].begun); served != 3 {
		t.Errorf("the pod got %d requests, want 3", served)
	}
}

// While requests wait, pages are read often, although no pick triggers scrapes. With one scrape a
// second, a free server would stay idle until the next scrape.
func TestFlowControl_PagesAreReadOftenWhileRequestsWait(t *testing.T) {
	var pages atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		pages.Add(1)
		_, _ = io.WriteString(w, "vllm:num_requests_waiting 100\n")
	}))
	t.Cleanup(server.Close)
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Default: true, FlowControl: &FlowControl{},
			Endpoints: []endpoint.Spec{{Addr: netip.MustParseAddrPort(server.Listener.Addr().String())}}})
	p.pool("ns/pool").snapshot.Refresh(time.Minute)
	stream, _ := call(t, dialPicker(t, address))
	if r := exchange(t, stream, headerMessage(nil)); r.GetOverrideMessageTimeout() == nil {
		t.Fatalf("got %v, want the request to wait: the server has 100 requests waiting", r)
	}
	before := pages.Load()
	poll.Until(t, "the page is read 40 times", func() bool { return pages.Load() >= before+40 })
}

func TestFlowControl_ReadsPagesWhateverTheStrategy(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "random", FlowControl: &FlowControl{},
			Endpoints: []endpoint.Spec{{Addr: specs("10.0.0.1:80")[0].Addr}}})
	if p.pool("ns/pool").Metrics.Off {
		t.Error("saturation is measured without pages")
	}
}
