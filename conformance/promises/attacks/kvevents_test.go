package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/parties"
)

// prompts is the number of prompts, of 1,024 tokens each, that an honest server has cached.
const prompts = 16

func promptTokens(n int) []uint32 {
	tokens := make([]uint32, 1024)
	for i := range tokens {
		tokens[i] = uint32(n*100_003 + i*31)
	}
	return tokens
}

// eventServers starts the model servers of a pool with KV events, at 127.0.0.1 and the following
// addresses. The first server is honest. It returns the servers and the pool's objects.
func (s *site) eventServers(count int, kvEvents string) ([]backend, string) {
	s.Helper()
	var list []backend
	for i := range count {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:0", i+1))
		if err != nil {
			s.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				_, _ = io.WriteString(w,
					"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0\n")
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("x-served-by", fmt.Sprint(i))
		}))
		_ = server.Listener.Close()
		server.Listener = listener
		server.Start()
		s.Cleanup(server.Close)
		list = append(list, at(server))
	}
	return list, poolObjects("events", "/v1/completions", []string{"gw"}, list...) +
		fmt.Sprintf(`apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: events}
spec:
  targetRef: {name: events}
  picker: {kvEvents: {%s}}
`, kvEvents)
}

func (s *site) shown() map[string]string {
	s.Helper()
	text, err := s.page("/debug/pool?pool=default/events")
	if err != nil {
		s.Fatal(err)
	}
	var e struct {
		Verdicts []struct{ Address, Prefixes string }
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		s.Fatal(err)
	}
	out := map[string]string{}
	for _, v := range e.Verdicts {
		out[v.Address] = v.Prefixes
	}
	return out
}

func (s *site) served(tokens []uint32) string {
	s.Helper()
	body, _ := json.Marshal(map[string]any{"model": "m", "prompt": tokens})
	resp, err := http.Post("http://"+local(s.gateway)+"/v1/completions", "application/json",
		strings.NewReader(string(body)))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		s.Errorf("a request for the attackers' pool: got %s, want 200", resp.Status)
	}
	return resp.Header.Get("x-served-by")
}

// publishPrompts publishes that the honest server has cached the prompts from to to-1. seq is the
// first message's sequence number.
func publishPrompts(p parties.KVPublisher, seq uint64, from, to int) error {
	for n := from; n < to; n++ {
		if err := p.Publish("kv-events", seq, stored(uint64(n)<<32|1, promptTokens(n))); err != nil {
			return err
		}
		seq++
	}
	return nil
}

func (s *site) stands(honest string, during time.Duration) {
	s.Helper()
	for began := time.Now(); time.Since(began) < during; {
		if got := s.shown()[honest]; got != "reported" {
			s.Fatalf(`%v after the attack began, the prefixes of the honest server are %q, want "reported"`,
				time.Since(began), got)
		}
	}
}

// withstood checks that the picker still has the honest server's events: it shows all prompts as
// reported, and requests with these prompts go to this server.
func (s *site) withstood(honest backend) {
	s.Helper()
	address := fmt.Sprintf("%s:%d", honest.address, honest.port)
	if got := s.shown()[address]; got != "reported" {
		s.Errorf(`the prefixes of the honest server are %q, want "reported"`, got)
	}
	for n := range prompts {
		if by := s.served(promptTokens(n)); by != "0" {
			s.Errorf(`prompt %d went to server %s, want "0"`, n, by)
		}
	}
}

// A pool has one honest model server, and for each attack a hostile server. All attack at once.
func TestKVEvents_HostilePublishersHarmNoOtherServer(t *testing.T) {
	s := prepare(t, nil)
	publisher := s.Port()
	attacks := eventAttacks("")
	servers, objects := s.eventServers(1+len(attacks), fmt.Sprintf("port: %d", publisher))
	honest := fmt.Sprintf("%s:%d", servers[0].address, servers[0].port)
	attacks = eventAttacks(honest)
	names := slices.Sorted(maps.Keys(attacks))
	publish := func(i int, serve func(parties.KVPublisher)) {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", i+1, publisher))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() { // ends with ctx
					serve(parties.KVPublisher{Conn: conn})
					_ = conn.Close()
				}()
			}
		}()
	}
	ready := make(chan parties.KVPublisher, 1)
	publish(0, func(p parties.KVPublisher) {
		if p.Greet() == nil && publishPrompts(p, 1, 0, prompts/2) == nil {
			ready <- p
			<-t.Context().Done()
		}
	})
	s.Write("events.yaml", objects)
	s.serve()
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	traffic := s.traffic()
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	for i, name := range names {
		publish(i+1, func(p parties.KVPublisher) { _ = attacks[name](t.Context(), p) })
	}
	s.Eventually("each broken publisher is shown", func() error {
		metrics, err := s.page("/metrics")
		for i, name := range names {
			if name == "a flood of blocks" || name == "a flood of small messages" || name == "topics of 1 MiB" ||
				name == "events of another server" {
				continue // the picker reads these well-formed events, at a limited rate for each server
			}
			series := fmt.Sprintf(`penstock_picker_kv_event_failures_total{endpoint="%s:%d",pool="default/events"}`,
				servers[i+1].address, servers[i+1].port)
			if !strings.Contains(metrics, series) {
				err = errors.Join(err, fmt.Errorf("%s: no series %s, want it", name, series))
			}
		}
		return err
	})
	if err := publishPrompts(<-ready, 1+prompts/2, prompts/2, prompts); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the honest server's events are read", func() error {
		if got := s.shown()[honest]; got != "reported" {
			return errors.New(got)
		}
		return nil
	})
	s.withstood(servers[0])
	traffic.end()
	if most := peak(); most > before+384 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f",
			before, most, before+384)
	}
	shown := s.shown()
	for i, name := range names {
		t.Logf("%s: %s", name, shown[fmt.Sprintf("%s:%d", servers[i+1].address, servers[i+1].port)])
	}
}

// In each attack, a server whose publisher dials opens as many connections as it can. A connection
// that stops within a large message must not occupy a place for large messages forever.
func TestKVEvents_HostileServerThatDialsHarmsNoOtherServer(t *testing.T) {
	s := prepare(t, nil)
	servers, objects := s.eventServers(2, "mode: Listen")
	honest := fmt.Sprintf("%s:%d", servers[0].address, servers[0].port)
	s.Write("events.yaml", objects)
	listener := local(s.Port())
	s.serve("--picker-kv-events", listener)
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	dial := func(ctx context.Context, from string) (parties.KVPublisher, error) {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "tcp", listener)
		return parties.KVPublisher{Conn: conn}, err
	}
	p, err := dial(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := errors.Join(p.Greet(), publishPrompts(p, 1, 0, prompts/2)); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the honest server's events are read", func() error {
		if got := s.shown()[honest]; got != "reported" {
			return errors.New(got)
		}
		return nil
	})
	traffic := s.traffic()
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	attack := func(name string, connections int) {
		for range connections {
			go func() { // ends with ctx
				for ctx.Err() == nil {
					if p, err := dial(ctx, "127.0.0.2"); err == nil {
						end := context.AfterFunc(ctx, func() { _ = p.Close() })
						_ = eventAttacks(honest)[name](ctx, p)
						end()
						_ = p.Close()
					}
					select {
					case <-ctx.Done():
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
		}
	}
	attack("messages of 15 MiB that stop", 20) // an address may have 32 connections
	s.stands(honest, time.Second)
	// A message of 1 MiB needs a place for large messages.
	large := stored(1<<48, make([]uint32, 160_000))
	if err := errors.Join(p.Publish("kv-events", 1+prompts/2, large),
		publishPrompts(p, 2+prompts/2, prompts/2, prompts)); err != nil {
		t.Fatal(err)
	}
	s.stands(honest, time.Second)
	s.withstood(servers[0])
	for _, name := range slices.Sorted(maps.Keys(eventAttacks(""))) {
		attack(name, 8)
	}
	s.stands(honest, time.Second)
	s.withstood(servers[0])
	traffic.end()
	if most := peak(); most > before+384 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f",
			before, most, before+384)
	}
	series := fmt.Sprintf(`penstock_picker_kv_event_failures_total{endpoint="%s:%d",pool="default/events"}`,
		servers[1].address, servers[1].port)
	s.Eventually("the attacker is counted", func() error {
		metrics, err := s.page("/metrics")
		if err == nil && !strings.Contains(metrics, series) {
			err = fmt.Errorf("no series %s, want it", series)
		}
		return err
	})
	t.Logf("the attacker: %s", s.shown()[fmt.Sprintf("%s:%d", servers[1].address, servers[1].port)])
}
