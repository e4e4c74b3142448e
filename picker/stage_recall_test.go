package picker

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

func respond(previous string) *extproc.Request {
	r := longPrompt(600)
	r.Facts.Kind, r.Facts.Previous = request.Responses, request.ResponseOf(previous)
	return r
}

// answeredAt ends a request at a server that stores its response.
func answeredAt(p *Picker, a extproc.Answer, served, id string, client uint64) {
	p.Log(accesslog.Entry{Lease: a.Lease.String(), Pool: "ns/pool", Gateway: "ns/gw", Served: served, Status: 200,
		Response: request.ResponseOf(id), Client: client})
}

var followUps int

// followUp records a new stored response at a server, and then picks for a request that names the
// response.
func followUp(t *testing.T, p *Picker, at string) extproc.Answer {
	t.Helper()
	followUps++
	id := fmt.Sprint("resp_", followUps)
	a := p.Pick(t.Context(), respond(""))
	if !a.Keeps {
		t.Error("Envoy is not asked for the ID")
	}
	answeredAt(p, a, at, id, 1)
	return p.Pick(t.Context(), respond(id))
}

func TestResponseAffinity_FollowUpGoesToItsServer(t *testing.T) {
	for name, pool := range map[string]Pool{
		"load":        {},
		"round-robin": {Strategy: "round-robin"},
		"session":     {Strategy: "session"},
		"fallbacks":   {Fallbacks: 2},
	} {
		p := runPicker(t, Config{})
		pool.ID, pool.Responses, pool.Endpoints = poolID("ns/pool"), true, specs(first, second)
		setPools(t, p, pool)
		for i := range 10 {
			at := []string{first, second}[i%2]
			if a := followUp(t, p, at); a.Endpoints.String() != at {
				t.Errorf("%s: %s, want %s alone", name, a.Endpoints, at)
			}
		}
		if got := p.Picks(Picks{Last: 1})[0].Follows; got != followsKept.String() {
			t.Errorf("%s: a reader is shown %q, want %q", name, got, followsKept)
		}
	}
}

// If the server with the stored response accepts no requests, another server gets the request. If
// the server is only full, no other server or pool does. Pools without Responses are not affected.
func TestResponseAffinity_ServerThatTakesNoRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Pool)
		spill  []string
		want   string
		status int
	}{
		"draining": {change: func(c *Pool) { c.Endpoints[1].Draining = true }, want: first},
		"gone":     {change: func(c *Pool) { c.Endpoints = specs(first) }, want: first},
		"all gone": {change: func(c *Pool) { c.Endpoints = specs("10.0.0.9:80") }, want: "10.0.0.9:80"},
		"full":     {change: func(c *Pool) { c.Full = schedule.Full{InFlight: 1} }, status: 429},
		"full, spills": {change: func(c *Pool) {
			c.Full, c.Spills, c.Spill = schedule.Full{InFlight: 1}, true, []string{"envoy://hops/other"}
		}, spill: []string{"envoy://hops/other"}, want: second},
	} {
		p := runPicker(t, Config{})
		pool := Pool{ID: poolID("ns/pool"), Responses: true, Strategy: "least-request", Endpoints: specs(first, second)}
		setPools(t, p, pool)
		// The request of this pick stays in flight, and fills the server in the cases with a limit.
		if a := followUp(t, p, second); a.Endpoints.String() != second {
			t.Fatalf("%s: %s at first, want %s", name, a.Endpoints, second)
		}
		pool.Endpoints = specs(first, second)
		c.change(&pool)
		setPools(t, p, pool)
		r := respond(fmt.Sprint("resp_", followUps))
		r.Spill = c.spill
		if a := p.Pick(t.Context(), r); a.Endpoints.String() != c.want || a.Status != c.status {
			t.Errorf("%s: %q %d, want %q %d", name, a.Endpoints, a.Status, c.want, c.status)
		}
	}
}

// A stored response of one pool has no effect in another pool. Responses of failed requests or of
// unknown servers are not recorded.
func TestResponseAffinity_OtherPoolsAndPlacesDecideNothing(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Responses: true, Endpoints: specs(first, second)},
		Pool{ID: poolID("ns/other"), Responses: true, Endpoints: specs(first, second)},
		Pool{ID: poolID("ns/off"), Endpoints: specs(first)})
	answeredAt(p, p.Pick(t.Context(), respond("")), second, "resp_a", 1)
	answeredAt(p, p.Pick(t.Context(), respond("")), "192.0.2.1:80", "resp_b", 1)
	answeredAt(p, p.Pick(t.Context(), respond("")), "envoy://hops/elsewhere", "resp_c", 1)
	lease := p.Pick(t.Context(), respond("")).Lease.String()
	failed := accesslog.Entry{Lease: lease, Gateway: "ns/gw", Served: second, Status: 404}
	failed.Response = request.ResponseOf("resp_d")
	p.Log(failed)
	for id, want := range map[string]string{"resp_a": second, "resp_b": "", "resp_c": "", "resp_d": ""} {
		if got := p.pool("ns/pool").responses.find(request.ResponseOf(id), time.Now()); got != want {
			t.Errorf("%s is at %q, want %q", id, got, want)
		}
	}
	r := respond("resp_a")
	r.Pool = "ns/other"
	if p.Pick(t.Context(), r); p.Picks(Picks{Last: 1})[0].Follows != followsUnknown.String() {
		t.Errorf("a response of another pool: got %q, want %q", p.Picks(Picks{Last: 1})[0].Follows, followsUnknown)
	}
	r = respond("resp_a")
	if r.Pool = "ns/off"; p.Pick(t.Context(), r).Keeps || p.Picks(Picks{Last: 1})[0].Follows != "" {
		t.Error("a pool without the field asks for IDs, or goes by them")
	}
	for what, r := range map[string]*extproc.Request{"another API": longPrompt(600), "store: false": respond("")} {
		r.Facts.Unstored = what == "store: false"
		if p.Pick(t.Context(), r).Keeps {
			t.Errorf("%s: Envoy is asked for an ID", what)
		}
	}
}

func TestResponseAffinity_KnownResponseDoesNotMove(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Responses: true, Endpoints: specs(first, second)})
	answeredAt(p, p.Pick(t.Context(), respond("")), second, "resp_victim", 1)
	answeredAt(p, p.Pick(t.Context(), respond("")), first, "resp_victim", 2)
	p.LearnSession(Session{Pool: poolID("ns/pool"), Response: request.ResponseOf("resp_victim"), Served: first})
	if a := p.Pick(t.Context(), respond("resp_victim")); a.Endpoints.String() != second {
		t.Errorf("%s, want %s", a.Endpoints, second)
	}
}

func TestResponseAffinity_OneClientKeepsThoseOfOthers(t *testing.T) {
	s, now := &responses{}, time.Now()
	id := func(client, i int) request.ResponseID { return request.ResponseOf(fmt.Sprint(client, " ", i)) }
	for i := range 100 {
		s.add(id(1, i), first, 1, now, now)
	}
	for i := range 3 * maxResponses {
		s.add(id(2, i), second, 2, now, now)
	}
	if s.find(id(1, 0), now) != first || s.find(id(1, 99), now) != first {
		t.Error("another client's responses are forgotten")
	}
	if s.find(id(2, 3*maxResponses-1), now) != second || s.find(id(2, 0), now) != "" {
		t.Error("of one client's the last are not known, or the first still are")
	}
	n := len(s.known)
	if n > maxResponses || s.order.Len() != n || s.clients[2].Len()+s.clients[1].Len() != n {
		t.Errorf("%d responses, want %d at most", len(s.known), maxResponses)
	}
	later := now.Add(responseTTL + time.Second)
	if s.find(id(1, 0), later) != "" {
		t.Error("a response is known after its time")
	}
	for i := range len(s.known) {
		s.add(id(3, i), first, 3, later, later)
	}
	if len(s.clients) != 1 {
		t.Errorf("%d clients, want 1: those without a response are dropped", len(s.clients))
	}
}

// A client may name a response before the access log reports it, so the pick waits for the report.
// The wait is short, because the response may be unknown.
func TestResponseAffinity_FollowUpWaitsForTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		setPools(t, p, Pool{ID: poolID("ns/pool"), Responses: true, Endpoints: specs(first, second)})
		began, a := time.Now(), p.Pick(t.Context(), respond(""))
		time.AfterFunc(30*time.Millisecond, func() { answeredAt(p, a, second, "resp_1", 1) })
		a = p.Pick(t.Context(), respond("resp_1"))
		if took := time.Since(began); a.Endpoints.String() != second || took != 30*time.Millisecond {
			t.Errorf("%s after %s, want %s after 30 ms", a.Endpoints, took, second)
		}
		began = time.Now()
		a = p.Pick(t.Context(), respond("resp_2"))
		if took := time.Since(began); len(a.Endpoints) == 0 || took != responseWait {
			t.Errorf("%q after %s, want a server after %s", a.Endpoints, took, responseWait)
		}
		p.pool("ns/pool").responses.waiting = maxResponseWaits
		began = time.Now()
		if p.Pick(t.Context(), respond("resp_3")); time.Since(began) != 0 {
			t.Errorf("one more than may wait: %s, want 0", time.Since(began))
		}
	})
}

// Other processes, and a process that starts, send the request to the same server. Processes do not
// publish the response IDs themselves.
func TestResponseAffinity_IsSharedWithOtherProcesses(t *testing.T) {
	pool := Pool{ID: poolID("ns/pool"), Responses: true, Endpoints: specs(first, second)}
	sent := &published{}
	one, other := runPicker(t, Config{Sharing: sent}), runPicker(t, Config{})
	setPools(t, one, pool)
	setPools(t, other, pool)
	answeredAt(one, one.Pick(t.Context(), respond("")), second, "resp_1", 7)
	if len(sent.sessions) != 1 {
		t.Fatalf("%d facts are published, want 1", len(sent.sessions))
	}
	other.LearnSession(sent.sessions[0])
	if a := other.Pick(t.Context(), respond("resp_1")); a.Endpoints.String() != second {
		t.Errorf("the other process picks %s, want %s", a.Endpoints, second)
	}
	var all []Session
	other.Sessions(func(s Session) bool { all = append(all, s); return true })
	if len(all) != 1 || all[0].Served != second || all[0].Client != 7 || strings.Contains(fmt.Sprint(all), "resp_1") {
		t.Errorf("a process that starts gets %+v, want one response at %s by client 7, without its ID", all, second)
	}
}

func TestResponseAffinity_FollowUpGoesToItsCluster(t *testing.T) {
	c := &chooser{clusters: map[objectid.Target]*Clusters{}}
	p := runPicker(t, Config{Chooser: c})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Responses: true, Clusters: clustersOf(3)})
	a := p.Pick(t.Context(), respond(""))
	if !a.Keeps {
		t.Error("Envoy is not asked for the ID")
	}
	answeredAt(p, a, "envoy://hops/c02", "resp_1", 1)
	// The answer names no other cluster, so the picker of this cluster must hold the request while
	// its pool is full.
	alone := extproc.Header{Name: OthersHeader, Value: "0"}
	a = p.Pick(t.Context(), respond("resp_1"))
	if a.Endpoints.String() != "envoy://hops/c02" || a.Headers[len(a.Headers)-1] != alone {
		t.Errorf("%s %v, want the cluster of the response alone", a.Endpoints, a.Headers)
	}
	if got := p.Picks(Picks{Last: 1})[0].Follows; got != followsKept.String() {
		t.Errorf("a reader is shown %q, want %q", got, followsKept)
	}
}

type published struct{ sessions []Session }

func (*published) Sent(Sent)                                     {}
func (p *published) Session(s Session)                           { p.sessions = append(p.sessions, s) }
func (*published) Page(netip.AddrPort, uint64, endpoint.Reading) {}
