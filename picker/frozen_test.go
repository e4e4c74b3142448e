package picker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
)

const third = "10.0.0.3:80"

func streamOf500() *extproc.Request {
	r := longPrompt(500)
	r.Facts.Stream = true
	return r
}

// answers makes a pick for a stream, and reports that the pick's endpoint number by sent headers
// after took. It returns the pick's HeadersLimit and first endpoint.
func answers(t *testing.T, p *Picker, by int, took time.Duration) (limit time.Duration, picked string) {
	t.Helper()
	a := p.Pick(t.Context(), streamOf500())
	if len(a.Endpoints) < 2 {
		t.Fatalf("got %+v, want at least 2 endpoints", a)
	}
	picked = a.Endpoints[0]
	e := accesslog.Entry{Lease: a.Lease.String(), Gateway: "ns/gw", Pool: "ns/pool", Open: true,
		Served: a.Endpoints[by], Status: 200, Body: true,
		Headers: took, FirstByte: took + 100*time.Millisecond}
	p.Log(e)
	e.Open = false
	p.Log(e)
	a.Track.End()
	return a.HeadersLimit, picked
}

func frozenPool(t *testing.T, c Pool) (*Picker, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	p, err := New(Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	c.ID, c.Endpoints = poolID("ns/pool"), specs(first, second, third)
	setPools(t, p, c)
	for i := range 3 {
		for range 110 {
			e := &p.pools.now.Load().byName["ns/pool"].snapshot.Endpoints[i]
			lease := p.leases.Open(e, endpoint.Holder{}, endpoint.Work{Stream: true}, 0, time.Now())
			lease.SetTag(endpoint.Tag{Tokens: 500})
			lease.Answered(5*time.Millisecond, 100*time.Millisecond)
			lease.Release()
			lease.Done()
		}
	}
	return p, registry
}

func TestFrozen_LimitNeedsAServerThatMayAnswerInstead(t *testing.T) {
	unstreamed, fixed, imported := streamOf500(), streamOf500(), streamOf500()
	unstreamed.Facts.Stream, fixed.Fixed, imported.Imported = false, true, true
	other := streamOf500()
	other.Pool = ""
	for name, tt := range map[string]struct {
		pool    Pool
		request *extproc.Request
		want    time.Duration
	}{
		"a stream":                        {Pool{Fallbacks: 1}, streamOf500(), time.Second},
		"no stream":                       {Pool{Fallbacks: 1}, unstreamed, 0},
		"a policy turns it off":           {Pool{Fallbacks: 1, NoHeadersLimit: true}, streamOf500(), 0},
		"a policy forbids other servers":  {Pool{}, streamOf500(), 0},
		"the route bounds attempts":       {Pool{Fallbacks: 1}, fixed, 0},
		"another cluster's gateway":       {Pool{Fallbacks: 1}, imported, 0},
		"a gateway that others configure": {Pool{Fallbacks: 1, Default: true}, other, 0},
	} {
		p, _ := frozenPool(t, tt.pool)
		if got := p.Pick(t.Context(), tt.request).HeadersLimit; got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// The limit is 20 s if the pick's next server needs 3 s to read its prompts, or is suspect. Prompts
// that a server has read faster than assumed do not make it busy.
func TestFrozen_LimitIsLongBeforeABusyServer(t *testing.T) {
	open := func(p *Picker, tokens int) (leases []*endpoint.Lease) {
		for i := range 3 {
			e := &p.pools.now.Load().byName["ns/pool"].snapshot.Endpoints[i]
			leases = append(leases, p.leases.Open(e, endpoint.Holder{},
				endpoint.Work{Stream: true, Tokens: tokens, Rate: 4000}, 0, time.Now()))
		}
		return leases
	}
	for name, tt := range map[string]struct {
		want   time.Duration
		change func(*Picker)
	}{
		"busy": {endpoint.MaxHeadersLimit, func(p *Picker) { open(p, 16000) }},
		"many read prompts": {time.Second, func(p *Picker) {
			open(p, 100)
			for range 160 {
				for _, lease := range open(p, 100) {
					lease.Release()
					lease.Done()
				}
			}
		}},
		"suspect": {endpoint.MaxHeadersLimit, func(p *Picker) {
			for _, at := range []string{first, second, third} {
				for range 3 {
					p.loadOf("ns/pool", at).RecordFailed("a test", time.Now())
				}
			}
		}},
	} {
		p, _ := frozenPool(t, Pool{Fallbacks: 1})
		before := p.Pick(t.Context(), streamOf500()).HeadersLimit
		tt.change(p)
		after := p.Pick(t.Context(), streamOf500()).HeadersLimit
		if before != time.Second || after != tt.want {
			t.Errorf("%s: %v, and %v before, want %v and %v",
				name, after, before, tt.want, time.Second)
		}
	}
}

// If another server than the picked one sends the headers, the picked server has one failure, which
// counts before the request ends.
func TestFrozen_ServerIsSuspect(t *testing.T) {
	p, registry := frozenPool(t, Pool{Fallbacks: 1})
	_, before, _ := p.loadOf("ns/pool", first).Totals()
	failed := 0
	for range 40 {
		a := p.Pick(t.Context(), streamOf500())
		if a.Endpoints[0] != first {
			p.Log(accesslog.Entry{Lease: a.Lease.String(), Gateway: "ns/gw", Served: a.Endpoints[0], Status: 200})
			continue
		}
		failed++
		e := accesslog.Entry{Lease: a.Lease.String(), Gateway: "ns/gw", Pool: "ns/pool", Open: true,
			Served: a.Endpoints[1], Status: 200, Headers: time.Second}
		p.Log(e)
		e.Open = false
		p.Log(e)
	}
	p.pools.now.Load().byName["ns/pool"].storm.exceeded(p.loadOf("ns/pool", second), 3, endpoint.At(time.Now()))
	if p.pools.now.Load().byName["ns/pool"].storm.raging(endpoint.At(time.Now())) {
		t.Error("a suspect server and a slow one are no slow pool")
	}
	if _, now, _ := p.loadOf("ns/pool", first).Totals(); failed != 3 || now != before+3 {
		t.Errorf("it got %d streams, of which %d count as failed; want 3 of each", failed, now-before)
	}
	if n := gathered(t, registry)["penstock_picker_headers_timeouts_total ns/pool"]; n != 3 {
		t.Errorf("the metric is %v, want 3", n)
	}
}

// After two of three servers have exceeded their HeadersLimit, the limit of all is 20 s for the
// next 30 s.
func TestFrozen_SlowPoolHasTheLongestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := frozenPool(t, Pool{Fallbacks: 1})
		slow := map[string]bool{}
		for len(slow) < 2 {
			limit, at := answers(t, p, 0, 1100*time.Millisecond)
			if limit == endpoint.MaxHeadersLimit {
				t.Fatalf("got the longest limit after %v, want it after both servers are slow", slow)
			}
			slow[at] = true
		}
		for range 3 {
			if limit, _ := answers(t, p, 0, 5*time.Millisecond); limit != endpoint.MaxHeadersLimit {
				t.Errorf("a limit of %v, want %v", limit, endpoint.MaxHeadersLimit)
			}
		}
		time.Sleep(stormTime)
		if limit, _ := answers(t, p, 0, 5*time.Millisecond); limit == endpoint.MaxHeadersLimit {
			t.Error("the longest limit 30 s later")
		}
		// Single slow responses, each in a separate window, are no storm.
		for range 6 {
			time.Sleep(2 * stormWindow)
			if limit, _ := answers(t, p, 0, time.Minute); limit == 0 {
				t.Error("no limit after one slow server")
			}
		}
	})
}
