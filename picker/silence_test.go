package picker

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/picker/upstream"
	"github.com/penstock-project/penstock/picker/upstream/upstreamtest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// A server is silent if its requests have no body byte while they are in flight, when the client
// cancels them, or when they reach the route's timeout. Responses of other servers do not count.
func TestSilent_ReportsShowIt(t *testing.T) {
	report := accesslog.Entry{Pool: "ns/pool", Open: true, Served: first, Sent: time.Millisecond}
	for name, tt := range map[string]struct {
		change func(*accesslog.Entry)
		want   bool
	}{
		"headers only":         {func(e *accesslog.Entry) { e.Status = 200 }, true},
		"no headers":           {func(*accesslog.Entry) {}, true},
		"clients that give up": {func(e *accesslog.Entry) { e.Open, e.Canceled = false, true }, true},
		"the route's time limit": {func(e *accesslog.Entry) {
			e.Open, e.Status, e.Body, e.Bytes = false, 504, true, 24
		}, true},
		"a stream that goes on": {func(e *accesslog.Entry) {
			e.Status, e.Body, e.Bytes, e.FirstByte = 200, true, 10, time.Second
		}, false},
		"errors": {func(e *accesslog.Entry) { e.Status, e.Body, e.Bytes = 400, true, 10 }, false},
		"answers": {func(e *accesslog.Entry) {
			e.Open, e.Status, e.Body, e.Bytes, e.FirstByte = false, 200, true, 10, time.Second
		}, false},
		"another server": {func(e *accesslog.Entry) { e.Served = second }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, err := New(Config{})
				if err != nil {
					t.Fatal(err)
				}
				setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs(first, second)})
				e := &p.pool("ns/pool").snapshot.Endpoints[0]
				work := endpoint.Work{Generates: true, Stream: true, First: 100 * time.Millisecond}
				var lease *endpoint.Lease
				for range 4 {
					if lease == nil || !report.Open {
						lease = p.leases.Open(e, endpoint.Holder{Pool: "ns/pool"}, work, 0, time.Now())
					}
					time.Sleep(2 * time.Second)
					entry := report
					entry.Lease = lease.ID()
					tt.change(&entry)
					if p.Log(entry); !entry.Open {
						lease = nil
					}
				}
				silent, _ := p.registry.Silent(time.Now())
				if got := slices.Contains(silent, e.Load()); got != tt.want {
					t.Errorf("silent %t, want %t", got, tt.want)
				}
				// Envoy itself sends the status 504: the server has sent no headers.
				silence := e.Load().Silence()
				if want := name == "headers only"; silence != nil && silence.Headers != want {
					t.Errorf("headers only: %t, want %t", silence.Headers, want)
				}
			})
		})
	}
}

// The picker probes a silent server in the server's own protocol, one probe at a time, until the
// server sends a token. Until then, every admin page shows why the server is suspect.
func TestSilent_IsProbedUntilItAnswers(t *testing.T) {
	insecure := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // of a test
	for name, tt := range map[string]struct {
		start func(http.Handler) *httptest.Server
		by    upstream.Protocol
	}{
		"HTTP/1.1": {httptest.NewServer, upstream.Protocol{}},
		"TLS":      {httptest.NewTLSServer, upstream.Protocol{TLS: insecure, Key: "insecure"}},
		"h2c": {func(h http.Handler) *httptest.Server {
			s, _ := upstreamtest.H2C(t, h)
			return s
		}, upstream.Protocol{HTTP2: true}},
	} {
		t.Run(name, func(t *testing.T) { probedUntilItAnswers(t, tt.start, tt.by) })
	}
}

func probedUntilItAnswers(t *testing.T, start func(http.Handler) *httptest.Server, by upstream.Protocol) {
	var open, most, all atomic.Int64
	var works atomic.Bool
	var asked atomic.Value
	server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/completions" {
			_, _ = io.WriteString(w, `{"data":[{"id":"the-model"}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		asked.Store(string(body))
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		all.Add(1)
		for !works.Load() {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
		_, _ = io.WriteString(w, `{"choices":[{"text":"1"}]}`)
	}))
	t.Cleanup(server.Close)
	p := runPicker(t, Config{})
	address := server.Listener.Addr().String()
	setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs(address), Metrics: endpoint.Metrics{Protocol: by}})
	load := p.pool("ns/pool").snapshot.Endpoints[0].Load()
	load.Suspect(time.Now())
	if s := p.Suspects(); len(s) != 1 || s[0].Server != address || s[0].Pool != poolID("ns/pool") ||
		s[0].Kind != schedule.Silent {
		t.Errorf("suspects: got %+v, want %s, silent", s, address)
	}
	poll.Until(t, "it is probed", func() bool { return open.Load() == 1 })
	works.Store(true)
	poll.Until(t, "it serves", func() bool { return load.Silence() == nil })
	if most.Load() != 1 || all.Load() != 1 || !strings.Contains(fmt.Sprint(asked.Load()), `"the-model"`) {
		t.Errorf("%d probes, %d at a time, the last one %s; want one, for the-model",
			all.Load(), most.Load(), asked.Load())
	}
}

// A server gets one probe at a time, at growing intervals. All servers together get at most
// maxProbes at a time.
func TestSilent_ProbesAreBounded(t *testing.T) {
	a, now := &probing{servers: map[*endpoint.Load]*probed{}}, time.Now()
	server := new(endpoint.Load)
	var pauses []time.Duration
	for range 7 {
		before := now
		for ; len(a.due([]*endpoint.Load{server}, now)) == 0; now = now.Add(time.Second) {
		}
		pauses = append(pauses, now.Sub(before))
		if len(a.due([]*endpoint.Load{server}, now)) != 0 {
			t.Fatal("two probes at a time")
		}
		a.ended(server, false, now)
	}
	if got := fmt.Sprint(pauses); got != "[0s 1s 2s 4s 8s 16s 30s]" {
		t.Errorf(`pauses %s, want "[0s 1s 2s 4s 8s 16s 30s]"`, got)
	}
	a.due(nil, now) // the server is no longer silent
	if len(a.due([]*endpoint.Load{server}, now)) != 1 {
		t.Error("a server that is silent again is not probed at once")
	}
	a.ended(server, true, now)
	many := make([]*endpoint.Load, 2*maxProbes)
	for i := range many {
		many[i] = new(endpoint.Load)
	}
	if n := len(a.due(many, now)) + len(a.due(many, now)); n != maxProbes {
		t.Errorf("%d probes of all servers at a time, want %d", n, maxProbes)
	}
}

// For a gateway that Penstock does not configure, a call that ends without a body byte shows that
// the server is silent, and a first byte that it works, if the gateway sends response bodies.
func TestSilent_CallsOfOtherGatewaysShowIt(t *testing.T) {
	for _, tt := range []struct{ shown, begun, want bool }{
		{true, false, true}, {true, true, false}, {false, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := New(Config{})
			if err != nil {
				t.Fatal(err)
			}
			setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs(first)})
			e := &p.pool("ns/pool").snapshot.Endpoints[0]
			work := endpoint.Work{Generates: true, Stream: true, First: 100 * time.Millisecond}
			for range 3 {
				track := newTracker()
				track.picker, track.pool, track.sent = p, p.pool("ns/pool"), time.Now()
				track.untilEnd, track.shown = true, tt.shown
				track.lease = p.leases.Open(e, endpoint.Holder{Pool: "ns/pool"}, work, 0, time.Now())
				time.Sleep(2 * time.Second)
				if track.Response(extproc.Response{Served: first, Status: 200}); tt.begun {
					track.Begun()
				}
				track.End()
			}
			silent, _ := p.registry.Silent(time.Now())
			if got := slices.Contains(silent, e.Load()); got != tt.want {
				t.Errorf("%+v: silent %t, want %t", tt, got, tt.want)
			}
		})
	}
}
