package picker

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

const (
	first  = "10.0.0.1:80"
	second = "10.0.0.2:80"
)

func pickFirst(t *testing.T, c Config) (p *Picker, lease string) {
	t.Helper()
	p = runPicker(t, c)
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Fallbacks: 1, Full: schedule.Full{InFlight: 9},
			Endpoints: specs(first, second)})
	stream, _ := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool")
	r := exchange(t, stream, headerMessage(nil))
	return p, r.GetDynamicMetadata().GetFields()["penstock"].GetStructValue().GetFields()["lease"].GetStringValue()
}

func counts(p *Picker) [2]int64 { return [2]int64{inFlight(p, first), inFlight(p, second)} }

// Envoy tries the first endpoint, then the second one, and then a hop. The request counts only at
// the serving endpoint, and at neither while the hop serves: the pick behind the hop counts it.
func TestRetry_ChargesTheEndpointThatServes(t *testing.T) {
	p, lease := pickFirst(t, Config{})
	for _, c := range []struct {
		served string
		want   [2]int64
	}{
		{"", [2]int64{1, 0}}, // no endpoint is connected yet
		{first, [2]int64{1, 0}},
		{second, [2]int64{0, 1}},
		{"envoy://hop/", [2]int64{0, 0}},
		{second, [2]int64{0, 1}},
	} {
		p.Log(accesslog.Entry{Lease: lease, Open: true, Served: c.served})
		if got := counts(p); got != c.want {
			t.Errorf("served by %q: %v in flight, want %v", c.served, got, c.want)
		}
	}
	p.Log(accesslog.Entry{Lease: lease, Served: second, Status: 200})
	if got := counts(p); got != [2]int64{} || p.leases.Len() != 0 || p.others.nowhere.InFlight() != 0 {
		t.Errorf("after the end: %v in flight, %d leases; want none", got, p.leases.Len())
	}
	for text, want := range map[string][2]uint64{first: {0, 1}, second: {1, 0}} {
		if served, failed, _ := p.loadOf("ns/pool", text).Totals(); [2]uint64{served, failed} != want {
			t.Errorf("%s: %d served, %d failed, want %v", text, served, failed, want)
		}
	}
}

// Envoy reports a request to this process, but another process opened its lease. This process
// forwards the entry or, if the other process has ended, counts the request itself.
func TestLease_OfPeerIsForwardedAndOfLostPeerCounted(t *testing.T) {
	alive := true
	var forwarded []accesslog.Entry
	p, own := pickFirst(t, Config{
		Reports: forwarding{forward: func(e accesslog.Entry) { forwarded = append(forwarded, e) }},
		Peers:   onePeer{&alive},
	})
	open, end := accesslog.Entry{Lease: "peer.1", Pool: "ns/pool", Open: true, Served: second},
		accesslog.Entry{Lease: "peer.1", Pool: "ns/pool", Served: second, Status: 200}
	expect := func(what string, e accesslog.Entry, passed bool, want [2]int64) {
		t.Helper()
		forwarded = nil
		p.Log(e)
		if got := counts(p); got != want || passed != (len(forwarded) == 1) {
			t.Errorf("%s: %v in flight, want %v; forwarded %v", what, got, want, forwarded)
		}
	}
	expect("a peer's request goes on", open, true, [2]int64{1, 0})
	expect("a peer's request ends", end, true, [2]int64{1, 0})
	alive = false
	expect("a lost peer's request goes on", open, false, [2]int64{1, 1})
	expect("it goes on still", open, false, [2]int64{1, 1})
	expect("it ends", end, false, [2]int64{1, 0})
	expect("it ends a second time", end, true, [2]int64{1, 0})
	expect("a lost peer's request to an unknown endpoint",
		accesslog.Entry{Lease: "peer.2", Pool: "ns/pool", Open: true, Served: "10.9.9.9:1"}, false, [2]int64{1, 0})
	expect("no lease", accesslog.Entry{Lease: "nonsense", Pool: "ns/pool", Open: true, Served: second}, false,
		[2]int64{1, 0})
	expect("a lost peer's request goes on again", open, false, [2]int64{1, 1})
	alive = true
	expect("the peer is back", open, true, [2]int64{1, 0})
	expect("an own request goes on", accesslog.Entry{Lease: own, Open: true}, false, [2]int64{1, 0})
	p.LogOwn(accesslog.Entry{Lease: "peer.3", Pool: "ns/pool", Open: true, Served: second})
	if diff := cmp.Diff([2]int64{1, 0}, counts(p)); diff != "" {
		t.Error("a forwarded entry of another picker counts: ", diff)
	}
}

type onePeer struct{ alive *bool }

func (o onePeer) Alive(owner string) bool { return *o.alive && owner == "peer" }
func (onePeer) Order() (int, bool)        { return 1, false }
func (onePeer) Settle(context.Context)    {}

func TestAccessLog_CanceledRequestsLeaveServerUnsuspected(t *testing.T) {
	p, lease := pickFirst(t, Config{})
	for range 5 {
		p.Log(accesslog.Entry{Lease: lease, Served: first, Canceled: true})
		holder := endpoint.Holder{Pool: "ns/pool"}
		lease = p.leases.Open(&p.pool("ns/pool").snapshot.Endpoints[0], holder, endpoint.Work{}, 0, time.Now()).ID()
	}
	if s := p.pool("ns/pool").snapshot.Endpoints[0].State(); s.Failing {
		t.Error("five canceled requests make the server suspect")
	}
	for range 5 {
		p.Log(accesslog.Entry{Lease: lease, Served: first})
		lease = p.leases.Open(&p.pool("ns/pool").snapshot.Endpoints[0], endpoint.Holder{Pool: "ns/pool"},
			endpoint.Work{}, 0, time.Now()).ID()
	}
	if s := p.pool("ns/pool").snapshot.Endpoints[0].State(); !s.Failing {
		t.Error("five requests that the server did not answer leave it unsuspected")
	}
}

// A prompt counts as unread until the access log reports the first token, or the request's end.
func TestAccessLog_FirstTokenEndsBacklog(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs(first)})
	unread := func() int64 { return p.pool("ns/pool").snapshot.Endpoints[0].State().Unread }
	pick := func() string {
		stream, _ := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool")
		r := exchange(t, stream, headerMessage(nil))
		return r.GetDynamicMetadata().GetFields()["penstock"].GetStructValue().GetFields()["lease"].GetStringValue()
	}
	a, b := pick(), pick()
	one := unread() / 2
	for _, c := range []struct {
		what  string
		entry accesslog.Entry
		want  int64
	}{
		{"headers alone", accesslog.Entry{Lease: a, Open: true, Served: first, Status: 200, Headers: time.Second},
			2 * one},
		{"an error", accesslog.Entry{Lease: a, Open: true, Served: first, Status: 500, Body: true}, 2 * one},
		{
			"the first token",
			accesslog.Entry{Lease: a, Open: true, Served: first, Status: 200, Body: true, Headers: time.Second,
				FirstByte: time.Second}, one,
		},
		{
			"the end",
			accesslog.Entry{Lease: a, Served: first, Status: 200, Body: true, Headers: time.Second,
				FirstByte: time.Second}, one,
		},
		{"the end of a request without an answer", accesslog.Entry{Lease: b}, 0},
	} {
		if p.Log(c.entry); unread() != c.want || one == 0 {
			t.Errorf("%s: %d tokens unread, want %d", c.what, unread(), c.want)
		}
	}
}

// Only the first body byte of a stream shows the server's prefill rate: headers may precede the
// reading of the prompt, and a response that is not streamed arrives at its end.
func TestFirstToken_RateIsThatOfTheBodyOfAStream(t *testing.T) {
	const tokens = 4000
	headers, token := 5*time.Millisecond, 20*time.Millisecond+time.Second
	for name, tt := range map[string]struct {
		entry  accesslog.Entry
		stream bool
		want   float64
	}{
		"a stream": {accesslog.Entry{Headers: headers, FirstByte: token}, true, tokens},
		"its end": {accesslog.Entry{Headers: headers, FirstByte: token, LastByte: 2 * token, Took: 2 * token}, true,
			tokens},
		"a stream of a proxy that reports no body": {accesslog.Entry{Headers: headers}, true, 0},
		"no stream, although asked for": {
			accesslog.Entry{Headers: token, FirstByte: token, Whole: true}, true, 0,
		},
		"no stream": {accesslog.Entry{Headers: token, FirstByte: token}, false, 0},
	} {
		p := runPicker(t, Config{})
		setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs(first)})
		e := &p.pool("ns/pool").snapshot.Endpoints[0]
		work := endpoint.Work{Tokens: tokens, Rate: tokens, Stream: tt.stream, Measure: tt.stream}
		for range 10 {
			lease := p.leases.Open(e, endpoint.Holder{Pool: "ns/pool"}, work, 0, time.Now())
			tt.entry.Lease, tt.entry.Open, tt.entry.Served, tt.entry.Status, tt.entry.Body = lease.ID(),
				tt.entry.Took == 0, first, 200, true
			p.Log(tt.entry)
			p.Log(accesslog.Entry{Lease: lease.ID(), Served: first, Status: 200, Canceled: true})
			lease.Done()
		}
		if rate := e.State().Rate; rate < 0.999*tt.want || rate > 1.001*tt.want {
			t.Errorf("%s: %.0f tokens a second, want %.0f", name, rate, tt.want)
		}
	}
}
