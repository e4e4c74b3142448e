package features

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

func (s *site) udpServer(name string) {
	s.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	s.ports[name] = conn.LocalAddr().(*net.UDPAddr).Port
	var serving sync.WaitGroup
	serving.Go(func() {
		buffer := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo([]byte(name+" "+string(buffer[:n])), from)
		}
	})
	s.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
}

func udpSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	for _, name := range []string{"a-1", "a-2", "b-1"} {
		s.udpServer(name)
	}
	return s
}

type flow struct{ net.Conn }

func (s *site) flow() flow {
	s.Helper()
	conn, err := net.Dial("udp4", s.address("gateway"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	return flow{conn}
}

// ask sends a datagram, and returns the name of the server that answers within the given time.
func (f flow) ask(text string, within time.Duration) (server string, err error) {
	if _, err := f.Write([]byte(text)); err != nil {
		return "", err
	}
	if err := f.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	buffer := make([]byte, 1<<16)
	n, err := f.Read(buffer)
	if err != nil {
		return "", err
	}
	server, got, _ := strings.Cut(string(buffer[:n]), " ")
	if got != text {
		err = fmt.Errorf("%s answers %d bytes to %d, want the same", server, len(got), len(text))
	}
	return server, err
}

// reaches waits until the named server answers a new flow; "": any server.
func (s *site) reaches(by string) {
	s.Helper()
	s.Eventually("a server answers: "+by, func() error {
		f := s.flow()
		defer f.Close()
		got, err := f.ask("x", time.Second)
		if err == nil {
			err = because(by == "" || got == by, "answered by ", got)
		}
		return err
	})
}

func (s *site) shares(flows int) map[string]int {
	s.Helper()
	counts := map[string]int{}
	for range flows {
		f := s.flow()
		got, err := f.ask("x", process.Limit)
		if err != nil {
			s.Fatal(err)
		}
		counts[got]++
		_ = f.Close()
	}
	return counts
}

// steadyFlows are clients that send a datagram as soon as the previous one is answered.
type steadyFlows struct {
	stop    context.CancelFunc
	all     sync.WaitGroup
	sent    atomic.Int64
	mu      sync.Mutex
	servers map[string]int // number of answers, by server
	lost    []error
}

func (s *site) steady(flows int) *steadyFlows {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	out := &steadyFlows{stop: stop, servers: map[string]int{}}
	for range flows {
		f := s.flow()
		out.all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				got, err := f.ask(strconv.Itoa(i), process.Limit/2)
				out.sent.Add(1)
				out.mu.Lock()
				if out.servers[got]++; err != nil {
					out.lost = append(out.lost, err)
				}
				out.mu.Unlock()
				time.Sleep(time.Millisecond) // a client's rate
			}
		})
	}
	s.Cleanup(func() { stop(); out.all.Wait() })
	return out
}

// moved waits until only the given servers answer the flows.
func (f *steadyFlows) moved(s *site, to ...string) {
	s.Helper()
	begun := false
	var before int64
	s.Eventually("only these servers answer: "+strings.Join(to, " "), func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !begun {
			begun, before, f.servers = true, f.sent.Load(), map[string]int{}
		}
		if n := f.sent.Load() - before; n < 100 {
			return fmt.Errorf("%d datagrams are sent, want 100", n)
		}
		begun = false
		for server := range f.servers {
			if !strings.Contains(strings.Join(to, " ")+" ", server+" ") {
				return fmt.Errorf("got answers of %v, want only %v", f.servers, to)
			}
		}
		return errors.Join(f.lost...)
	})
}

func (s *site) listenerChanges() string {
	s.Helper()
	var out []string
	for line := range strings.Lines(s.envoyMetrics()) {
		if strings.HasPrefix(line, "envoy_listener_manager_listener_modified") ||
			strings.HasPrefix(line, "envoy_listener_manager_listener_create_success") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	if len(out) != 2 {
		s.Fatalf("statistics of listeners: got %q, want 2", out)
	}
	return strings.Join(out, "; ")
}

// Weights divide flows regardless of the numbers of endpoints. Changed weights, backends and
// endpoints lose no datagram and change no listener.
func TestUDPRoute_SplitsByWeightAndLosesNoDatagram(t *testing.T) {
	t.Parallel()
	s := udpSite(t)
	s.up("udp.yaml")
	s.reaches("")
	counts := s.shares(400) // round robin, but each of Envoy's workers counts on its own
	if b := counts["b-1"]; b < 80 || b > 120 || counts["a-1"] < 110 || counts["a-2"] < 110 {
		t.Errorf("datagrams by endpoint: got %v, want 80 to 120 of 400 for b-1, at least 110 each for a-1 and a-2",
			counts)
	}
	if got, err := s.flow().ask(strings.Repeat("x", 60_000), process.Limit); err != nil {
		t.Errorf("a datagram of 60,000 bytes: %s %v", got, err)
	}
	if out := s.explain("udp://" + s.address("gateway")); !strings.Contains(out, "UDPRoute default/echo") ||
		!strings.Contains(out, "75.0%") {
		t.Errorf("explain: got\n%s\nwant UDPRoute default/echo with 75.0%%", out)
	}
	before := s.listenerChanges()

	flows := s.steady(8)
	weights := "{name: a, port: 53, weight: 3}, {name: b, port: 53, weight: 1}"
	s.write("udp.yaml", swap(weights, "{name: a, port: 53, weight: 1}, {name: b, port: 53, weight: 7}"))
	s.Eventually("the weights change", func() error {
		counts := s.shares(64)
		return because(counts["b-1"] > 48, counts)
	})
	s.write("udp.yaml", swap(weights, "{name: b, port: 53}"))
	flows.moved(s, "b-1")
	s.write("udp.yaml", swap(weights, "{name: a, port: 53}, {name: b, port: 53, weight: 0}"))
	flows.moved(s, "a-1", "a-2")
	// A terminating endpoint gets no new sessions, but may answer the last datagrams for a while.
	s.write("udp.yaml", swap(weights, "{name: a, port: 53}"),
		swap("conditions: {ready: true}", "conditions: {ready: false, serving: true, terminating: true}"))
	flows.moved(s, "a-2")
	flows.stop()
	flows.all.Wait()
	if len(flows.lost) > 0 || flows.sent.Load() == 0 {
		t.Errorf("of %d datagrams %d were lost, want some sent and none lost: %v", flows.sent.Load(), len(flows.lost),
			errors.Join(flows.lost...))
	}
	if after := s.listenerChanges(); after != before {
		t.Errorf("changes of listeners: got %s, want %s as before", after, before)
	}
}

// The share of an invalid backend is dropped; without a route, all datagrams are dropped.
func TestUDPRoute_SharesOfInvalidBackendsAreDropped(t *testing.T) {
	t.Parallel()
	s := udpSite(t)
	weights := "{name: a, port: 53, weight: 3}, {name: b, port: 53, weight: 1}"
	s.up("udp.yaml", swap(weights, "{name: missing, port: 53}, {name: a, port: 53}"))
	s.reaches("")
	s.reports("BackendNotFound")
	flows := make([]flow, 100)
	for i := range flows {
		flows[i] = s.flow()
		if _, err := flows[i].Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	answered := map[int]bool{}
	collect := func() int {
		for i, f := range flows {
			_ = f.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := f.Read(make([]byte, 100)); err == nil {
				answered[i] = true
			}
		}
		return len(answered)
	}
	s.Eventually("half of the flows are answered",
		func() error { n := collect(); return because(n >= 40, n, " of 100") })
	if n := collect(); n > 60 {
		t.Errorf("answered flows of 100: got %d, want at most 60, as half of the route's backends do not exist", n)
	}
	if got, err := s.get(s.url("/")); err != nil || got.status != 404 {
		t.Errorf("the HTTP listener on the same port: %d %v, want 404", got.status, err)
	}

	old := s.flow()
	s.ports["gateway"] = s.Port()
	s.write("udp.yaml", swap(weights, "{name: b, port: 53}"))
	s.reaches("b-1")
	s.Eventually("the former port is closed", func() error {
		_, err := old.ask("x", 100*time.Millisecond)
		return because(err != nil, "it answers")
	})
	s.write("udp.yaml",
		swap("kind: UDPRoute\nmetadata: {name: echo}", "kind: UDPRoute\nmetadata: {name: echo, namespace: other}"))
	s.Eventually("without a route all is dropped", func() error {
		f := s.flow()
		defer f.Close()
		_, err := f.ask("x", 100*time.Millisecond)
		return because(err != nil, "it is answered")
	})
	if out := s.explain("udp://" + s.address("gateway")); !strings.Contains(out,
		"dropped: no route takes these datagrams") {
		t.Errorf("explain: got\n%s\nwant that datagrams are dropped", out)
	}
}

// Each client address has a session, which opens a file, and Envoy crashes without free files.
// Above a limit, new sessions are dropped, and other traffic continues.
func TestUDPRoute_DatagramsOfManyAddressesEndNothingElse(t *testing.T) {
	t.Parallel()
	s := udpSite(t)
	s.up("udp.yaml")
	s.reaches("")
	former := s.flow()
	if _, err := former.ask("before", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	to, err := net.ResolveUDPAddr("udp4", s.address("gateway"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		from := &net.UDPAddr{IP: net.IPv4(127, 0, 1, byte(1+i/250)), Port: 20000 + i%250}
		conn, err := net.DialUDP("udp4", from, to)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("x"))
		_ = conn.Close()
		if i%50 == 0 {
			time.Sleep(10 * time.Millisecond) // otherwise the socket's buffer overflows
		}
	}
	s.Eventually("a new session is dropped", func() error {
		f := s.flow()
		defer f.Close()
		_, err := f.ask("x", 100*time.Millisecond)
		return because(err != nil, "it is answered")
	})
	if _, err := former.ask("after", 10*time.Second); err != nil {
		t.Errorf("a session of before: %v", err)
	}
	if got, err := s.get(s.url("/")); err != nil || got.status != 404 {
		t.Errorf("the HTTP listener: got %d %v, want 404", got.status, err)
	}
}
