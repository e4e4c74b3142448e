package picker

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

func endOf(p *Picker, a extproc.Answer) {
	lease := p.leases.Find(a.Lease.Owner + "." + strconv.FormatUint(a.Lease.Number, 36))
	lease.Release()
	lease.Done()
}

// After a client's request has ended, its next request must get the free place, even if the report
// of the end is late. Otherwise a request is spilled or rejected while a server is idle.
func TestFull_PickWaitsForTheReportOfAnEnd(t *testing.T) {
	spills := []string{"envoy://b/"}
	spilling := Pool{Spills: true, Spill: spills}
	for name, c := range map[string]struct {
		pool    Pool
		request extproc.Request
		list    string // expected if the end is not reported
		status  int
	}{
		"no other place":              {status: 429},
		"spill targets":               {pool: spilling, request: extproc.Request{Spill: spills}, list: "envoy://b/"},
		"another cluster":             {request: extproc.Request{Imported: true, Gateway: "ns/gw"}, status: 429},
		"spilled before":              {pool: spilling, request: extproc.Request{Last: true}, status: 429},
		"a route without targets yet": {pool: spilling, list: "10.0.0.1:80"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := New(Config{})
			if err != nil {
				t.Fatal(err)
			}
			c.pool.ID, c.pool.Strategy = poolID("ns/pool"), "least-request"
			c.pool.Full, c.pool.Endpoints = schedule.Full{InFlight: 1}, specs("10.0.0.1:80")
			setPools(t, p, c.pool)
			c.request.Pool, c.request.Headers = "ns/pool", &extproc.Message{}
			first := p.Pick(t.Context(), &c.request)
			began := time.Now()
			time.AfterFunc(14*time.Millisecond, func() { endOf(p, first) })
			late := p.Pick(t.Context(), &c.request)
			if took := time.Since(began); !listsServer(late, "10.0.0.1:80") || took != 14*time.Millisecond {
				t.Errorf("%s: %v %d after %s, want the server that becomes free after 14 ms",
					name, late.Endpoints, late.Status, took)
			}
			began = time.Now()
			never := p.Pick(t.Context(), &c.request)
			took := time.Since(began)
			if never.Endpoints.String() != c.list || never.Status != c.status || took != 15*time.Millisecond {
				t.Errorf("%s, no request ends: %v %d after %s, want %q %d after 15 ms",
					name, never.Endpoints, never.Status, took, c.list, c.status)
			}
			began = time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			if p.Pick(ctx, &c.request); time.Since(began) != 5*time.Millisecond {
				t.Errorf("%s: a pick whose client leaves after 5 ms takes %s, want %s",
					name, time.Since(began), 5*time.Millisecond)
			}
		})
	}
}

func listsServer(a extproc.Answer, address string) bool {
	return len(a.Endpoints) > 0 && a.Endpoints[0] == address
}

func keyed(key uint64) *extproc.Request {
	r := longPrompt(10)
	r.Pool, r.Facts.Spread = "ns/pool", key
	return r
}

// Consecutive requests with one key must stay at the key's server, even if the reports of their
// ends are late. Otherwise other servers read the cached prompt again.
func TestCHWBL_PickWaitsForTheReportOfAnEnd(t *testing.T) {
	for name, full := range map[string]schedule.Full{"beyond the bound": {}, "beyond the limit": {InFlight: 2}} {
		synctest.Test(t, func(t *testing.T) {
			p, err := New(Config{})
			if err != nil {
				t.Fatal(err)
			}
			setPools(t, p, Pool{
				ID: poolID("ns/pool"), Strategy: "chwbl", Full: full,
				Endpoints: specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"),
			})
			first := p.Pick(t.Context(), keyed(1))
			home := first.Endpoints[0]
			second := p.Pick(t.Context(), keyed(1))
			if !listsServer(second, home) {
				t.Fatalf("%s: got %v, want %s listed: one request there is in flight", name, second.Endpoints, home)
			}
			began := time.Now()
			time.AfterFunc(14*time.Millisecond, func() { endOf(p, first) })
			late := p.Pick(t.Context(), keyed(1))
			if took := time.Since(began); !listsServer(late, home) || took != 14*time.Millisecond {
				t.Errorf("%s: %v after %s, want %s after 14 ms", name, late.Endpoints, took, home)
			}
			began = time.Now()
			busy := p.Pick(t.Context(), keyed(1))
			if took := time.Since(began); listsServer(busy, home) || busy.Status != 0 || took != 15*time.Millisecond {
				t.Errorf("%s, no request ends: %v %d after %s, want another server after 15 ms",
					name, busy.Endpoints, busy.Status, took)
			}
			endOf(p, busy)
			began = time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			if p.Pick(ctx, keyed(1)); time.Since(began) != 5*time.Millisecond {
				t.Errorf("%s: a pick whose client leaves after 5 ms takes %s, want %s",
					name, time.Since(began), 5*time.Millisecond)
			}
		})
	}
}

// A pick waits at most Config.EndWait for other requests to end, even if first the key's endpoint
// is full, and then the pool.
func TestCHWBL_FullPoolCostsOneWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		setPools(t, p, Pool{
			ID: poolID("ns/pool"), Strategy: "chwbl", Full: schedule.Full{InFlight: 1},
			Endpoints: specs("10.0.0.1:80", "10.0.0.2:80"),
		})
		p.Pick(t.Context(), keyed(1))
		pick := func() {
			began := time.Now()
			if a := p.Pick(t.Context(), keyed(1)); a.Status != 0 && a.Status != 429 ||
				time.Since(began) != 15*time.Millisecond {
				t.Errorf("got %v with status %d after %s, want a pick or 429 after 15ms",
					a.Endpoints, a.Status, time.Since(began))
			}
		}
		pick() // passes over the key's endpoint
		pick() // finds the pool full
	})
}
