package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// pair is two control planes and an Envoy. All requests to this Envoy must succeed.
type pair struct {
	*run
	t    *testing.T
	stop func()
}

// startPair runs a pair until the test ends, and then reports lost requests. If envoy is false, the
// test must start an Envoy.
func startPair(t *testing.T, envoy bool, set ...func(*options)) *pair {
	t.Helper()
	t.Parallel()
	o := short(t)
	o.Rate, o.Streams = 80, 8
	for _, f := range set {
		f(&o)
	}
	r, err := newRun(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{run: r, t: t, stop: func() {}}
	t.Cleanup(func() {
		p.stop()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if len(r.failures) > 0 {
			var text strings.Builder
			explain(&text, o, result{Failures: r.failures, Log: r.log})
			t.Errorf("%d of %d requests failed, want none\n%s", len(r.failures), r.clients.sent.Load(), text.String())
		}
	})
	if err := r.write(p.rng()); err != nil {
		t.Fatal(err)
	}
	p.must(r.servers(t.Context()))
	if envoy {
		p.must(r.attach())
		p.serve()
	}
	return p
}

func (p *pair) rng() *rand.Rand { return rand.New(rand.NewPCG(p.Seed, 0)) }

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) serve() {
	p.t.Helper()
	p.expect()
	p.must(p.announce(p.t.Context()))
	ctx, stop := context.WithCancel(context.Background())
	var sent sync.WaitGroup
	sent.Go(func() { p.clients.run(ctx) })
	p.stop = sync.OnceFunc(func() {
		stop()
		sent.Wait()
	})
}

func (p *pair) change(kind string, step uint64) {
	p.t.Helper()
	did, err := p.world.next(p.Seed, step, []string{kind})
	p.must(err)
	p.note("%s", did)
	p.must(p.quiet(p.t.Context()))
	p.expect()
	p.must(p.write(p.rng()))
	p.must(p.announce(p.t.Context()))
}

func (p *pair) flows(requests int64) {
	p.t.Helper()
	want := p.clients.sent.Load() + requests
	poll.NoError(p.t, "requests flow", limit, func() error {
		if got := p.clients.sent.Load(); got < want {
			return fmt.Errorf("%d requests, want %d", got, want)
		}
		return nil
	})
}

type proxy struct {
	Node   string `json:"node"`
	InSync bool   `json:"inSync"`
}

func (p *plane) get(path string) (io.ReadCloser, error) {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", p.status, path))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(errors.New(resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}

func (p *plane) proxies() (list []proxy, err error) {
	body, err := p.get("/proxies")
	if err != nil {
		return nil, err
	}
	return list, errors.Join(json.NewDecoder(body).Decode(&list), body.Close())
}

func (p *plane) serves() error {
	list, err := p.proxies()
	if err != nil {
		return err
	}
	if len(list) != 1 || !list[0].InSync {
		return fmt.Errorf("got %+v, want one in sync", list)
	}
	return nil
}

func (p *plane) resent() ([]string, error) { return p.metric("penstock_xds_resources_total") }

func (p *plane) metric(name string) (lines []string, err error) {
	body, err := p.get("/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	text := bufio.NewScanner(body)
	for text.Scan() {
		if strings.HasPrefix(text.Text(), name) && !strings.HasSuffix(text.Text(), " 0") {
			lines = append(lines, text.Text())
		}
	}
	return lines, text.Err()
}

// listeners returns Envoy's counters of events that may cut streams.
func (p *pair) listeners() map[string]int64 {
	p.t.Helper()
	resp, err := http.Get(
		fmt.Sprintf(
			"http://127.0.0.1:%d/stats?filter=listener_manager.listener_(added|modified|removed|in_place_updated)",
			p.edges[0].admin))
	p.must(err)
	defer func() { _ = resp.Body.Close() }()
	out := map[string]int64{}
	text := bufio.NewScanner(resp.Body)
	for text.Scan() {
		name, value, _ := strings.Cut(text.Text(), ": ")
		var n int64
		_, err := fmt.Sscan(value, &n)
		p.must(err)
		out[name] = n
	}
	return out
}

func TestDeltaADS_RestartResendsNothingAndCutsNoStream(t *testing.T) {
	p := startPair(t, true)
	p.flows(200) // Penstock learns the endpoints of external pickers from requests
	before := p.listeners()
	a, b := p.planes[0], p.planes[1]
	for _, turn := range []struct {
		again, other *plane
		end          syscall.Signal
	}{{a, b, syscall.SIGTERM}, {b, a, syscall.SIGKILL}} {
		p.note("%s to %s", turn.end, turn.again.name)
		turn.again.Signal(turn.end)
		<-turn.again.Ended()
		p.must(turn.again.start(p.Dir))
		p.must(turn.again.ready(t.Context()))
		// Envoy can now only use the new process.
		p.note("%s is back; the other one was killed", turn.again.name)
		turn.other.Signal(syscall.SIGKILL)
		<-turn.other.Ended()
		poll.NoError(t, "Envoy is served by the new process", limit, turn.again.serves)
		p.flows(20)
		if lines, err := turn.again.resent(); err != nil || len(lines) > 0 {
			t.Errorf("%s resent what Envoy has: %v %v, want none", turn.again.name, lines, err)
		}
		p.must(turn.other.start(p.Dir))
		p.must(turn.other.ready(t.Context()))
	}
	if after := p.listeners(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("listeners changed: %v and then %v, want the same", before, after)
	}
}

// An upgrade may change any resource of Envoy. This upgrade changes every listener, which is the
// worst case: streams must end within the drain time.
func TestUpgrade_ChangedListenersLoseNothing(t *testing.T) {
	p := startPair(t, true)
	for _, again := range p.planes {
		p.must(again.Stop(10 * time.Second))
		again.extra = []string{"--access-log", p.Dir + "/upgraded.log"}
		p.must(again.start(p.Dir))
		p.must(again.ready(t.Context()))
		p.flows(20)
	}
	p.change("edit-route", 1)
	p.flows(40)
	p.stop()
	p.must(p.nothingStale(t.Context()))
}

func TestDeltaADS_RemovalDuringOutageArrivesOnReconnect(t *testing.T) {
	p := startPair(t, true)
	p.stop() // without a picker, a pool with FailClose answers 503
	for _, plane := range p.planes {
		p.must(plane.Stop(10 * time.Second))
	}
	for step, kind := range []string{"move", "move", "rename-pool", "certificate-ref", "server-remove"} {
		did, err := p.world.next(p.Seed, uint64(step), []string{kind})
		p.must(err)
		p.note("%s", did)
	}
	p.must(p.write(p.rng()))
	for _, plane := range p.planes {
		p.must(plane.start(p.Dir))
	}
	p.must(p.nothingStale(t.Context()))
}

// The folder first does not exist, and is then empty, like a volume that is mounted late.
func TestDeltaADS_UnsyncedControlPlaneRemovesNothing(t *testing.T) {
	p := startPair(t, true)
	p.flows(100)
	p.stop() // without a picker, a pool with FailClose answers 503
	a := p.planes[0]
	for _, plane := range p.planes {
		p.must(plane.Stop(10 * time.Second))
	}
	before, err := dump(t.Context(), p.edges[0].admin)
	p.must(err)
	away := p.folder.path + ".away"
	p.must(os.Rename(p.folder.path, away))
	p.must(a.start(p.Dir))
	<-a.Ended() // a ends with an error
	p.must(os.Mkdir(p.folder.path, 0o755))
	p.must(a.start(p.Dir))
	p.must(a.ready(t.Context()))
	poll.NoError(t, "Envoy is connected", limit, func() error {
		list, err := a.proxies()
		if err == nil && len(list) != 1 {
			err = fmt.Errorf("got %+v, want one", list)
		}
		return err
	})
	after, err := dump(t.Context(), p.edges[0].admin)
	p.must(err)
	if err := after.differs(before); err != nil {
		t.Errorf("without any configuration: %v", err)
	}
	files, err := os.ReadDir(away)
	p.must(err)
	for _, f := range files {
		p.must(os.Rename(filepath.Join(away, f.Name()), filepath.Join(p.folder.path, f.Name())))
	}
	p.must(p.planes[1].start(p.Dir))
	p.must(p.nothingStale(t.Context()))
}

func TestDeltaADS_FrozenControlPlaneIsReplaced(t *testing.T) {
	p := startPair(t, true)
	frozen := p.planes[0]
	if frozen.serves() != nil {
		frozen = p.planes[1]
	}
	p.must(frozen.serves())
	p.flows(200) // Penstock learns the endpoints of external pickers from requests
	frozen.Signal(syscall.SIGSTOP)
	p.flows(20)
	p.change("listener-add", 1) // returns when Envoy serves the new host
	p.flows(20)
	frozen.Signal(syscall.SIGCONT)
	p.change("listener-remove", 2)
	p.flows(20)
}

// slow is a request with an unfinished body.
type slow struct {
	conn net.Conn
	rest string
}

func (p *pair) slow(x *route) slow {
	p.t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", x.port))
	p.must(err)
	body := strings.Repeat("x", smallBody)
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", x.host,
		len(body), body[:smallBody/2])
	p.must(err)
	return slow{conn, body[smallBody/2:]}
}

func (s slow) end() (status string, err error) {
	defer func() { _ = s.conn.Close() }()
	if err := s.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(s.conn, s.rest); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(s.conn), nil)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Status, errors.Join(err, resp.Body.Close())
}

// A pick may wait for the body. Envoy does not retry such an ext_proc call once it has a partial
// answer.
func TestExtProc_PickMovesToOtherProcessWhenOneIsKilled(t *testing.T) {
	p := startPair(t, true)
	ours := p.world.pools["ours"] // the backend of r0
	ours.policy, ours.body, ours.failClose = true, "Buffered", true
	h2c := *ours
	h2c.h2c = true
	p.world.pools["h2c"], p.world.routes["r2"].backends = &h2c, []backend{{"pool", "h2c", 1}}
	p.change("listener-add", 1) // returns when Envoy serves the new host, and has all changes
	var begun []slow
	for range 16 { // enough requests for both processes
		begun = append(begun, p.slow(p.world.routes["r0"]), p.slow(p.world.routes["r2"]))
	}
	p.flows(40)
	killed := p.planes[0]
	p.note("SIGKILL to %s", killed.name)
	killed.Signal(syscall.SIGKILL)
	<-killed.Ended()
	for i, s := range begun {
		if status, err := s.end(); err != nil || status != "200 OK" {
			t.Errorf(`request %d: %s %v, want "200 OK"`, i, status, err)
		}
	}
	p.must(killed.start(p.Dir))
	p.must(killed.ready(t.Context()))
}

func TestBootstrap_EnvoyStartedDuringOutageServesLater(t *testing.T) {
	p := startPair(t, false)
	for _, plane := range p.planes {
		p.must(plane.Stop(10 * time.Second))
	}
	p.must(p.attach())
	p.must(wait(t.Context(), time.Second))
	for _, plane := range p.planes {
		p.must(plane.start(p.Dir))
	}
	p.expect()
	p.must(p.announce(t.Context()))
	p.serve()
	p.flows(20)
}
