package picker

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

func tokenEndpoint(token []byte, now time.Time, ttl time.Duration) netip.AddrPort {
	at, _ := readSessionToken(token, now, ttl)
	return at
}

func (g *gateway) ask(t testing.TB, path string, pairs ...string) (pod, token string) {
	t.Helper()
	response := g.send(t, http.MethodGet, path, "", pairs...)
	if response.StatusCode != 200 {
		t.Fatalf("%s %v: got %s, want 200", path, pairs, response.Status)
	}
	return response.Header.Get("x-pod"), response.Header.Get("x-session-token")
}

func TestSession_ThroughEnvoy(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: noneResp, Allow: true})
	pool := Pool{ID: poolID("ns/pool"), Strategy: "session", Endpoints: g.endpoints(), SessionCookie: "sid",
		Fallbacks: 1}
	setPools(t, g.picker, pool)
	now := time.Now()
	for i, p := range g.pods {
		for range 3 {
			pod, token := g.ask(t, "/a/", "x-session-token", sessionToken(p.addr().String(), now), "x-session-id",
				"any")
			if pod != p.name || tokenEndpoint([]byte(token), time.Now(), DefaultSessionTTL) != p.addr() {
				t.Errorf("the token of %s: served by %s, token %q; want itself and a token of it", p.name, pod, token)
			}
		}
		if i == 0 { // llm-d's clients may pad the token
			if pod, _ := g.ask(t, "/a/", "x-session-token",
				base64.URLEncoding.EncodeToString([]byte(fmt.Sprint(p.addr(), " ", now.Unix())))); pod != p.name {
				t.Errorf("a padded token of %s: served by %s, want itself", p.name, pod)
			}
		}
	}
	// A request without an ID gets a token in the response, and the token works.
	first, token := g.ask(t, "/a/")
	for range 5 {
		if pod, next := g.ask(t, "/a/", "x-session-token", token); pod != first || next == "" {
			t.Errorf("the session began at %s and went to %s with token %q, want the same server and a token",
				first, pod, next)
		}
	}
	seen := map[string]int{}
	for i := range 20 {
		id := fmt.Sprintf("user-%d", i)
		pod, _ := g.ask(t, "/a/", "x-session-id", id)
		seen[pod]++
		if other, _ := g.ask(t, "/a/", "cookie", "x=1; sid="+id+"; y=2"); other != pod {
			t.Errorf("%s by header at %s, by cookie at %s; want the same", id, pod, other)
		}
		if e := g.picker.Explain("ns/pool", map[string]string{
			"x-session-id": id,
		}); e.Endpoints[:len(g.podNamed(pod).addr().String())] != g.podNamed(pod).addr().String() {
			t.Errorf("%s is at %s, explained as %s; want it first", id, pod, e.Endpoints)
		}
	}
	if len(seen) != 2 {
		t.Errorf("all sessions begin at one endpoint: %v, want 2 of them", seen)
	}
	// After a retry, the session is at the endpoint that served.
	id, from := "moves", ""
	from, _ = g.ask(t, "/a/", "x-session-id", id)
	g.podNamed(from).answer(func() int { return 503 })
	to, token := g.ask(t, "/a/", "x-session-id", id)
	if to == from || tokenEndpoint([]byte(token), time.Now(), DefaultSessionTTL) != g.podNamed(to).addr() {
		t.Errorf("retried at %s, token %q; want a server other than %s, and a token of it", to, token, from)
	}
	g.podNamed(from).answer(func() int { return 200 })
	if pod, _ := g.ask(t, "/a/", "x-session-id", id); pod != to {
		t.Errorf("the session is back at %s, want %s", pod, to)
	}
	// A session whose endpoint drains begins again.
	i := 0
	if to == "pod-1" {
		i = 1
	}
	pool.Endpoints = g.endpoints()
	pool.Endpoints[i].Draining = true
	setPools(t, g.picker, pool)
	if pod, _ := g.ask(t, "/a/", "x-session-id", id, "x-session-token", token); pod == to {
		t.Error("a session stays at a draining endpoint")
	}
}

func TestSession_OfRouteStaysAtItsServer(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: none, Allow: true})
	pool := Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Endpoints: g.endpoints(), Fallbacks: 1}
	setPools(t, g.picker, pool)
	served := func(id string) string {
		pod, token := g.ask(t, "/a/", SessionHeader, id)
		if token != "" {
			t.Errorf("a response has the token %q, want none", token)
		}
		return pod
	}
	at := map[string]string{}
	for _, id := range []string{"one", "two"} {
		at[id] = served(id)
	}
	if at["one"] == at["two"] {
		t.Errorf("sessions do not begin by turns: %v, want two servers", at)
	}
	for range 5 {
		for id, before := range at {
			if now := served(id); now != before {
				t.Errorf("session %s moved from %s to %s, want it to stay", id, before, now)
			}
		}
	}
	pool.Endpoints = g.endpoints()
	for i, p := range g.pods {
		pool.Endpoints[i].Draining = p.name == at["one"]
	}
	setPools(t, g.picker, pool)
	if now := served("one"); now == at["one"] {
		t.Error("a session stays at a draining endpoint")
	}
}

func (g *gateway) podNamed(name string) *pod {
	for _, p := range g.pods {
		if p.name == name {
			return p
		}
	}
	return g.pods[0]
}

func TestSession_TwoPickersAgree(t *testing.T) {
	var list []endpoint.Spec
	for i := range 20 {
		list = append(list, specs(fmt.Sprintf("10.0.0.%d:8000", i+1))...)
	}
	a, b := runPicker(t, Config{}), runPicker(t, Config{})
	setPools(t, a, Pool{ID: poolID("ns/p"), Strategy: "session", Endpoints: list})
	setPools(t, b, Pool{ID: poolID("ns/p"), Strategy: "session", Endpoints: list})
	for i := range 200 {
		headers := map[string]string{"x-session-id": fmt.Sprint("user-", i)}
		if x, y := a.Explain("ns/p", headers).Endpoints, b.Explain("ns/p", headers).Endpoints; x != y || x == "" {
			t.Fatalf("session %d: %s and %s, want the same endpoints in both processes", i, x, y)
		}
	}
}

func TestSession_InvalidTokensAreIgnored(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	at := "10.0.0.1:8000"
	encoded := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for token, ok := range map[string]bool{
		sessionToken(at, now):                                     true,
		sessionToken(at, now.Add(-DefaultSessionTTL)):             true,
		sessionToken(at, now.Add(-DefaultSessionTTL-time.Second)): false,
		// Made by a picker whose clock is ahead.
		sessionToken(at, now.Add(time.Minute)): true,
		sessionToken(at, now.Add(time.Hour)):   false,
		sessionToken("[fd00::1]:8000", now):    true,
		sessionToken("host:8000", now):         false,
		encoded(at):                            false,
		encoded(at + " "):                      false,
		encoded(at + " 99999999999999999999"):  false,
		encoded(at + " 9223372036854775807"):   false,
		"":                                     false,
		"%%%":                                  false,
		encoded(string(make([]byte, 200))):     false,
		base64.StdEncoding.EncodeToString([]byte("default/pod-1")): false,
	} {
		if got := tokenEndpoint([]byte(token), now, DefaultSessionTTL); got.IsValid() != ok {
			t.Errorf("%q: got %v, want an endpoint: %t", token, got, ok)
		}
	}
	for header, want := range map[string]string{"": "", "sid": "", "sid=a": "a", "x=1;sid=\"b\"; y": "b",
		"xsid=1; sid=2": "2", "; =;sid=": ""} {
		if got := cookie([]byte(header), "sid"); string(got) != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
}

// Clients can send any text in these headers. No text may cause a panic, and only tokens that a
// picker made are accepted.
func FuzzSession_HeadersOfClients(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	f.Add([]byte(sessionToken("10.0.0.1:8000", now)), []byte("a=1; sid=2"), []byte("12.5"))
	f.Add([]byte("=="), []byte("sid"), []byte("1e400"))
	f.Fuzz(func(t *testing.T, token, cookies, number []byte) {
		if at := tokenEndpoint(token, now, DefaultSessionTTL); at.IsValid() {
			if again := tokenEndpoint([]byte(sessionToken(at.String(), now)), now, DefaultSessionTTL); again != at {
				t.Fatalf("%v is read as %v, want the same", at, again)
			}
		}
		_ = cookie(cookies, "sid")
		if n := milliseconds(number, 0); !(n >= 0 && n < 1e6) {
			t.Fatalf("%q is %g, want 0 to 1e6", number, n)
		}
	})
}

func TestSession_RecordShowsWhatBecameOfIt(t *testing.T) {
	p := runPicker(t, Config{})
	pool := Pool{ID: poolID("ns/pool"), Strategy: "session", SessionCookie: "sid", Endpoints: specs(first, second)}
	setPools(t, p, pool)
	_, address := servePicker(t, p)
	conn := dialPicker(t, address)
	picked := func(headers ...string) string {
		t.Helper()
		stream, _ := call(t, conn, "x-penstock-pool", "ns/pool")
		exchange(t, stream, headerMessage(nil, headers...))
		return p.Picks(Picks{Last: 1})[0].Session
	}
	now := time.Now()
	const fewest, ring = "it begins at the endpoint with the fewest requests in flight",
		"it begins at the first endpoint from its ID on"
	token := sessionToken(first, now)
	for _, tt := range []struct {
		want    string
		headers []string
	}{
		{"none: " + fewest, nil},
		{"kept at its endpoint, by header x-session-token", []string{"x-session-token", token, "x-session-id", "a"}},
		{"kept at its endpoint, by header x-session-id", []string{"x-session-id", "a"}},
		{"kept at its endpoint, by its cookie; its token is unreadable",
			[]string{"cookie", "sid=a", "x-session-token", "?"}},
		{"new or expired, by header x-session-id: " + ring, []string{"x-session-id", "b"}},
		{"its token is expired: " + fewest, []string{"x-session-token", sessionToken(first, now.Add(-time.Hour))}},
		{"its token is unreadable: " + fewest, []string{"x-session-token", "?"}},
	} {
		if got := picked(tt.headers...); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.headers, got, tt.want)
		}
	}
	pool.Endpoints[0].Draining = true
	setPools(t, p, pool)
	if got, want := picked("x-session-token", token),
		"its endpoint, by header x-session-token, takes no requests: it begins again at the endpoint with the fewest "+
			"requests in flight"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	pool.Strategy = "random"
	setPools(t, p, pool)
	if got := picked("x-session-token", token); got != "" {
		t.Errorf("of another strategy: got %q, want none", got)
	}
}
