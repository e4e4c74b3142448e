package picker

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// The picker probes only servers that it knows, or that are in a declared range.
func TestFailed_ServersOfExternalPickersAreLimited(t *testing.T) {
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	within := [][]netip.Prefix{{netip.MustParsePrefix("10.1.0.0/16")}}
	for name, c := range map[string]struct {
		relay *Relay
		asked bool
	}{
		"our own picker":   {},
		"a declared range": {relay: &Relay{Within: within}, asked: true},
		"another port":     {relay: &Relay{Within: within, Ports: []uint16{81}}},
		"no range":         {relay: &Relay{}},
		"listed":           {relay: &Relay{Listed: true}},
	} {
		relayed := &pool{Pool: Pool{Relay: c.relay}}
		if got := p.elsewhere(relayed, netip.MustParseAddrPort("10.1.2.3:80")); got != c.asked {
			t.Errorf("%s: got %v, want %v", name, got, c.asked)
		}
		relayed.Servers = []Server{{Addr: netip.MustParseAddrPort("10.1.2.3:80")}}
		if got := p.elsewhere(relayed, netip.MustParseAddrPort("10.1.2.3:80")); got != (c.relay != nil) {
			t.Errorf("%s, known: got %v, want %v", name, got, c.relay != nil)
		}
		if c.relay != nil && p.elsewhere(relayed, netip.MustParseAddrPort("10.2.0.1:80")) {
			t.Errorf("%s: an unknown server outside of the range is asked", name)
		}
	}
}

type allowing map[string]bool

func (a allowing) Allowed(gateway string, _ objectid.Target) (bool, <-chan struct{}) {
	return a[gateway], nil
}
func (allowing) Lagging() bool { return false }

// A dead server becomes suspect after a call from a Gateway that may use its pool. Other calls
// about it cause no probe, and get no result.
func TestFailed_DeadServerIsSuspectAndOthersAreNotAsked(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	server := netip.MustParseAddrPort(s.Listener.Addr().String())
	p, err := New(Config{Access: allowing{"ns/gw": true}})
	if err != nil {
		t.Fatal(err)
	}
	setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs(server.String())},
		Pool{ID: poolID("ns/other"), Endpoints: specs("10.0.0.9:80")})
	for _, c := range []struct{ gateway, pool string }{
		{"ns/another", "ns/pool"}, {"ns/gw", "ns/other"}, {"ns/gw", "ns/none"}, {"ns/gw", "-"},
	} {
		if p.Dead(t.Context(), c.gateway, c.pool, server) || calls != 0 {
			t.Errorf("%v: the server is dead, or %d calls; want neither", c, calls)
		}
	}
	if !p.Dead(t.Context(), "ns/gw", "ns/pool", server) || calls != 1 {
		t.Errorf("the dead server was not found, or with %d calls; want 1", calls)
	}
	if state := p.pool("ns/pool").snapshot.Endpoints[0].State(); !state.Failing {
		t.Error("the dead server is not suspect")
	}
}

// A stream with status 200 that is cut or ends in a server's error counts as the server's failure:
// it shows no speed or progress, and three make the server suspect. A client's errors do not count.
func TestFailed_StreamsThatEndInAnErrorAreFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*accesslog.Entry)
		want   bool
	}{
		"completed":        {func(*accesslog.Entry) {}, false},
		"an error":         {func(e *accesslog.Entry) { e.Error = 500 }, true},
		"a client's error": {func(e *accesslog.Entry) { e.Error = 400 }, false},
		"cut":              {func(e *accesslog.Entry) { e.Cut = true }, true},
		"cut at once": {func(e *accesslog.Entry) { e.Cut, e.Body, e.Bytes, e.FirstByte = true, false, 0, 0 },
			true},
	} {
		p, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs(first)})
		e := &p.pool("ns/pool").snapshot.Endpoints[0]
		for range 5 {
			work := endpoint.Work{Generates: true, Stream: true, Measure: true, Tokens: 1000, Rate: 1000}
			lease := p.leases.Open(e, endpoint.Holder{Pool: "ns/pool"}, work, 0, time.Now())
			entry := accesslog.Entry{Lease: lease.ID(), Pool: "ns/pool", Served: first, Status: 200, Body: true,
				Bytes: 90,
				Sent:  time.Millisecond, Headers: 2 * time.Millisecond, FirstByte: time.Second, LastByte: time.Second}
			tt.change(&entry)
			p.Log(entry)
			lease.Done()
		}
		state := e.State()
		if learned := state.Rate > 0; state.Failing != tt.want || learned != (name == "completed") {
			t.Errorf("%s: failing %t, rate %v; want failing %t, and a rate only when completed",
				name, state.Failing, state.Rate, tt.want)
		}
	}
}
