package picker

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func setPools(t testing.TB, p *Picker, pools ...Pool) {
	t.Helper()
	if err := p.SetPools(pools); err != nil {
		t.Fatal(err)
	}
}

func TestExtProc_EnvoyFollowsPickInEveryMode(t *testing.T) {
	modes := map[string]string{"none": none, "resp": noneResp, "buffered": buffered, "duplex": duplex,
		"duplex2": duplex2}
	var routes []route
	for name, mode := range modes {
		routes = append(routes, route{Name: name, Cluster: "closed", Mode: mode, Allow: true})
	}
	g := startGateway(t, routes...)
	for _, body := range []Body{BodyNone, BodyBuffered} {
		setPools(t, g.picker,
			Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Endpoints: g.endpoints(), Body: body})
		for mode := range modes {
			for _, size := range []int{0, 10, 100 << 10, 3 << 20} {
				what := fmt.Sprintf("%s, picker's body %q, %d bytes", mode, body, size)
				sent := bytes.Repeat([]byte("x"), size)
				seen := map[string]int{}
				for range 4 {
					response, text := g.post(t, "/"+mode+"/", sent)
					if response.StatusCode != 200 {
						t.Fatalf("%s: got %s %s, want 200", what, response.Status, text)
					}
					seen[response.Header.Get("x-pod")]++
				}
				if seen["pod-0"] != 2 || seen["pod-1"] != 2 {
					t.Errorf("%s: got %v, want 2 requests at each pod", what, seen)
				}
				for _, p := range g.pods {
					header, got := p.received()
					if !bytes.Equal(got, sent) {
						t.Errorf("%s: the pod got %d bytes, want %d unchanged", what, len(got), size)
					}
					if h := header.Get("x-gateway-destination-endpoint"); h != p.addr().String() {
						t.Errorf("%s: header %q, want %s", what, h, p.addr())
					}
				}
			}
		}
	}
}

func TestExtProc_BodyOf32MiBArrivesUnchanged(t *testing.T) {
	g := startGateway(t,
		route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true},
		route{Name: "duplex", Cluster: "closed", Mode: duplex, Allow: true})
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: g.endpoints()[:1], Body: BodyBuffered})
	sent := make([]byte, DefaultBodyLimit)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(sent)
	for _, mode := range []string{"buffered", "duplex"} {
		response, text := g.post(t, "/"+mode+"/", sent)
		_, got := g.pods[0].received()
		if response.StatusCode != 200 || sha256.Sum256(got) != sha256.Sum256(sent) {
			t.Errorf("%s: got %s %s, %d bytes arrived; want 200 and all %d, unchanged",
				mode, response.Status, text, len(got), len(sent))
		}
	}
}

func TestExtProc_RequestWithTrailersIsPickedFor(t *testing.T) {
	g := startGateway(t, route{Name: "duplex", Cluster: "closed", Mode: duplex, Allow: true})
	for _, body := range []Body{BodyNone, BodyBuffered} {
		setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Endpoints: g.endpoints()[:1], Body: body})
		sent := strings.Repeat("y", 200<<10)
		// The struct hides the body's length, because only a chunked body can have trailers.
		reader := struct{ io.Reader }{strings.NewReader(sent)}
		request, err := http.NewRequest(http.MethodPost, g.url+"/duplex/", reader)
		if err != nil {
			t.Fatal(err)
		}
		request.Trailer = http.Header{"X-Checksum": {"1"}}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if _, got := g.pods[0].received(); response.StatusCode != 200 || string(got) != sent {
			t.Errorf("picker's body %q: got %s, %d of %d bytes; want 200 and all",
				body, response.Status, len(got), len(sent))
		}
	}
}

// A gateway may have a pool that the picker lacks. Envoy's cluster then chooses the server, as
// without a picker.
func TestEndpointPicker_UnknownPoolFallsBackToCluster(t *testing.T) {
	g := startGateway(t,
		route{Name: "open", Cluster: "open", Mode: none, Allow: true, Pool: "ns/unknown"},
		route{Name: "closed", Cluster: "closed", Mode: buffered, Allow: true, Pool: "ns/unknown"})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Endpoints: g.endpoints()})
	for path, want := range map[string]int{"/open/": 200, "/closed/": 503} {
		if response, text := g.post(t, path, []byte(`{"model":"m"}`)); response.StatusCode != want {
			t.Errorf("%s: got %s %s, want %d", path, response.Status, text, want)
		}
	}
}

func TestEndpointPicker_ImmediateResponseNamesReason(t *testing.T) {
	g := startGateway(t,
		route{Name: "none", Cluster: "closed", Mode: none, Allow: true},
		route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true},
		route{Name: "duplex", Cluster: "closed", Mode: duplex, Allow: true},
		route{Name: "hold", Cluster: "closed", Mode: none, Allow: true, Pool: "ns/small"})
	blocked, release := g.pods[0].hold(t)
	draining := g.endpoints()
	draining[0].Draining, draining[1].Draining = true, true
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Endpoints: draining, Body: BodyBuffered},
		Pool{ID: poolID("ns/small"), Endpoints: g.endpoints()[:1], Full: schedule.Full{InFlight: 1}})
	expect := func(path string, status int, reason string) {
		t.Helper()
		response, text := g.post(t, path, []byte(`{"model":"m"}`))
		if response.StatusCode != status || response.Header.Get("x-penstock-reason") != reason ||
			!strings.Contains(text, `"code":"`+reason+`"`) ||
			response.Header.Get("content-type") != "application/json" {
			t.Errorf("%s: got %s %v %s, want %d with %s in JSON",
				path, response.Status, response.Header, text, status, reason)
		}
	}
	for _, mode := range []string{"none", "buffered", "duplex"} {
		expect("/"+mode+"/", 503, ReasonNoEndpoints)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := http.Get(g.url + "/hold/"); err == nil {
			response.Body.Close()
		}
	}()
	<-blocked
	expect("/hold/", 429, ReasonFull)
	release()
	<-done
}

func TestSubsetHint_OnlyItsEndpointsArePicked(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: none, Allow: true})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Strategy: "random", Fallbacks: 3, Endpoints: g.endpoints()})
	ask := func(hint string) (int, string) {
		t.Helper()
		request, _ := http.NewRequest(http.MethodGet, g.url+"/a/", nil)
		request.Header.Set("x-test-subset", hint)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		header, _ := g.pods[1].received()
		return response.StatusCode, header.Get("x-gateway-destination-endpoint")
	}
	only := g.pods[1].addr().String()
	for range 8 {
		if status, got := ask("192.0.2.1:80, " + only); status != 200 || got != only {
			t.Fatalf("got %d, picked %q; want 200 and %q, which is allowed", status, got, only)
		}
	}
	if status, _ := ask("192.0.2.1:80"); status != 503 {
		t.Errorf("nothing eligible: %d, want 503", status)
	}
}

func TestEndpointPicker_RetriesFollowThePicksList(t *testing.T) {
	g := startGateway(t,
		route{Name: "a", Cluster: "closed", Mode: none, Allow: true},
		route{Name: "user", Cluster: "closed", Mode: none, Allow: true, Retries: 3})
	var first, second atomic.Int64
	g.pods[0].answer(func() int { first.Add(1); return 503 })
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Fallbacks: 2, Endpoints: g.endpoints()})
	for range 2 { // each endpoint is first once
		if response, text := g.post(t, "/a/", nil); response.StatusCode != 200 ||
			response.Header.Get("x-pod") != "pod-1" {
			t.Fatalf("got %s %s, want 200 from pod-1", response.Status, text)
		}
	}
	g.pods[1].answer(func() int { second.Add(1); return 503 })
	first.Store(0)
	if response, _ := g.post(t, "/a/", nil); response.StatusCode != 503 || response.Header.Get("x-pod") == "" {
		t.Errorf("got %s %v, want the pod's own 503", response.Status, response.Header)
	}
	// The list repeats, up to leastTries attempts.
	if first.Load()+second.Load() != leastTries || first.Load() < 2 || second.Load() < 2 {
		t.Errorf("attempts: %d and %d, want %d in all, 2 of each at least", first.Load(), second.Load(), leastTries)
	}

	// With one pod and the user's three retries, all attempts go to this pod.
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Endpoints: g.endpoints()[:1]})
	first.Store(0)
	if response, _ := g.post(t, "/user/", nil); response.StatusCode != 503 || response.Header.Get("x-pod") != "pod-0" {
		t.Errorf("got %s %v, want 503 from pod-0", response.Status, response.Header)
	}
	if first.Load() != 4 {
		t.Errorf("%d attempts, want 1 and 3 retries", first.Load())
	}
	first.Store(0)
	if response, _ := g.post(t, "/a/", nil); response.StatusCode != 503 || response.Header.Get("x-pod") != "pod-0" {
		t.Errorf("got %s %v, want 503 from pod-0", response.Status, response.Header)
	}
	if first.Load() != 1 {
		t.Errorf("%d attempts at the only pod without a user's retries, want 1", first.Load())
	}
}

func TestSpill_FullEmptyOrUnreachablePoolSpills(t *testing.T) {
	const hop = "envoy://hop-b/"
	var routes []route
	for _, cluster := range []string{"open-spill", "closed-spill"} {
		routes = append(routes,
			route{Name: cluster, Cluster: cluster, Filter: "picker-spill", Mode: buffered, Allow: true, Spill: hop})
	}
	g := startGateway(t, routes...)
	unreachable := []endpoint.Spec{{Addr: unusedAddr(t)}}
	for _, path := range []string{"/open-spill/", "/closed-spill/"} {
		for _, tt := range []struct {
			name, want string
			pool       Pool
		}{
			{"with room", "pod-0", Pool{Endpoints: g.endpoints()[:1]}},
			{"empty", "other", Pool{}},
			{"full", "other", Pool{Endpoints: g.endpoints()[:1], Full: schedule.Full{InFlight: 1}}},
			{"unreachable", "other", Pool{Endpoints: unreachable}},
		} {
			tt.pool.ID, tt.pool.Spills, tt.pool.Spill = poolID("ns/pool"), true, []string{hop}
			setPools(t, g.picker, tt.pool)
			if tt.name == "full" {
				lease := g.picker.leases.Open(&g.picker.pool("ns/pool").snapshot.Endpoints[0], endpoint.Holder{},
					endpoint.Work{}, 0, time.Now())
				defer lease.Release()
			}
			if response, text := g.post(t, path, []byte("{}")); response.StatusCode != 200 ||
				response.Header.Get("x-pod") != tt.want {
				t.Errorf("%s, %s: %s from %q %s, want %q", path, tt.name, response.Status, response.Header.Get("x-pod"),
					text, tt.want)
			}
		}
	}
}

func unusedAddr(t testing.TB) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return netip.MustParseAddrPort(listener.Addr().String())
}

func TestAccessLog_EndsRequestAndNamesServingEndpoint(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: none, Allow: true})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Fallbacks: 1, Endpoints: g.endpoints()})
	first, second := g.pods[0], g.pods[1] // sorted by address, as round robin begins
	if first.addr().Compare(second.addr()) > 0 {
		first, second = second, first
	}
	first.answer(func() int { return 503 })
	blocked, release := second.hold(t)
	tried, served := g.picker.loadOf("ns/pool", first.addr().String()),
		g.picker.loadOf("ns/pool", second.addr().String())
	done := make(chan error, 1)
	go func() {
		response, err := http.Get(g.url + "/a/")
		if err == nil {
			response.Body.Close()
		}
		done <- err
	}()
	<-blocked
	if n := inFlight(g.picker, first.addr().String()) + inFlight(g.picker, second.addr().String()); n != 1 {
		t.Errorf("%d requests in flight, want 1", n)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the access log", func() bool { n, _, _ := served.Totals(); return n == 1 })
	if n := inFlight(g.picker, first.addr().String()) + inFlight(g.picker, second.addr().String()); n != 0 {
		t.Errorf("%d requests in flight after the end, want 0", n)
	}
	if _, failed, firstByte := served.Totals(); failed != 0 || firstByte <= 0 {
		t.Errorf("the serving endpoint: %d failed, first byte after %v, want 0 and more than 0", failed, firstByte)
	}
	if n, failed, _ := tried.Totals(); n != 0 || failed != 1 {
		t.Errorf("the endpoint that answered 503 first: %d served, %d failed, want 0 and 1", n, failed)
	}
}

// A prompt counts as unread until the first token, although the server sends the headers earlier.
func TestAccessLog_PromptCountsAsUnreadUntilFirstToken(t *testing.T) {
	g := startGateway(t, route{Name: "b", Cluster: "closed", Mode: buffered, Allow: true})
	token, end := make(chan struct{}), make(chan struct{})
	g.pods[0].Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		flusher := http.NewResponseController(w)
		_ = flusher.Flush()
		<-token
		fmt.Fprint(w, "data: {}\n\n")
		_ = flusher.Flush()
		<-end
	})
	t.Cleanup(sync.OnceFunc(func() { close(end) }))
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Body: BodyBuffered, Metrics: endpoint.Metrics{Off: true},
			Endpoints: g.endpoints()[:1]})
	state := func() endpoint.State { return g.picker.pool("ns/pool").snapshot.Endpoints[0].State() }
	go func() {
		body := `{"stream":true,"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 1000) +
			`"}]}`
		if response, err := http.Post(g.url+"/b/v1/chat/completions", "application/json",
			strings.NewReader(body)); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}()
	poll.Until(t, "a report that the prompt waits",
		func() bool { s := state(); return s.Unread > 1000 && s.Confirmed == s.Unread })
	close(token)
	poll.Until(t, "a report of the first token", func() bool {
		s := state()
		return s.Unread == 0 && s.Confirmed == 0 && s.InFlight == 1
	})
}

func TestEndpointPicker_DeadPickerLeavesFailOpenPoolServing(t *testing.T) {
	g := startGateway(t, route{Name: "open", Cluster: "open", Mode: buffered, Allow: true},
		route{Name: "closed", Cluster: "closed", Mode: buffered, Allow: true})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Endpoints: g.endpoints()})
	g.server.Stop()
	if response, _ := g.post(t, "/open/", []byte("{}")); response.StatusCode != 200 {
		t.Errorf("fail open: got %s, want 200", response.Status)
	}
	if response, _ := g.post(t, "/closed/", []byte("{}")); response.StatusCode != 503 {
		t.Errorf("fail close: got %s, want 503", response.Status)
	}
}

func TestEndpointPicker_ChangingPoolsLosesNoRequest(t *testing.T) {
	g := startGateway(t, route{Name: "n", Cluster: "closed", Mode: none, Allow: true},
		route{Name: "b", Cluster: "closed", Mode: buffered, Allow: true})
	pools := func(i int) Pool {
		return Pool{ID: poolID("ns/pool"), Strategy: schedule.Names()[i%len(schedule.Names())], Fallbacks: i % 2,
			Endpoints: g.endpoints()[i%2:], Body: []Body{BodyNone, BodyBuffered}[i/2%2]}
	}
	setPools(t, g.picker, pools(0))
	stop, changed := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				changed <- nil
				return
			default:
			}
			if err := g.picker.SetPools([]Pool{pools(i)}); err != nil {
				changed <- err
				return
			}
		}
	}()
	var group sync.WaitGroup
	body := bytes.Repeat([]byte("b"), 20<<10)
	for worker := range 8 {
		group.Go(func() {
			for i := range 40 {
				path := []string{"/n/", "/b/"}[(worker+i)%2]
				response, err := http.Post(g.url+path, "application/json", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				text, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if response.StatusCode != 200 || !strings.HasSuffix(string(text),
					fmt.Sprintf("got %d bytes", len(body))) {
					t.Errorf("got %s %s, want 200 and %d bytes", response.Status, text, len(body))
				}
			}
		})
	}
	group.Wait()
	close(stop)
	if err := <-changed; err != nil {
		t.Error(err)
	}
	poll.Until(t, "all requests are reported", func() bool { return g.picker.leases.Len() == 0 })
	for _, p := range g.pods {
		if n := inFlight(g.picker, p.addr().String()); n != 0 {
			t.Errorf("%s has %d requests in flight, want 0", p.name, n)
		}
	}
}
