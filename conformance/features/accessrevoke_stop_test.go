package features

import (
	"fmt"
	"syscall"
	"testing"
)

// watched waits until n requests are watched for the revocation of their keys.
func (s *site) watched(n float64) {
	s.Helper()
	s.Eventually(fmt.Sprint(n, " requests are watched"), func() error {
		got := s.series("penstock_gate_watched_requests")
		return because(got == n, got)
	})
}

func completed(t *testing.T, what string, results ...chan error) {
	t.Helper()
	for _, result := range results {
		if err := <-result; err != nil {
			t.Errorf("%s is cut: %v", what, err)
		}
	}
}

// While one of two processes stops, its streams continue, and a revoked key still ends its streams.
// No request fails, and the other process watches new requests.
func TestAccessRevoke_StreamsGoOnWhileTheirProcessStops(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	keys := map[string]string{"all": "owner: all", "gone": "owner: gone"}
	s.restrict(keys)
	other := s.twoProcesses("access.yaml", with("gate"), atOnce)
	other.restrict(keys)
	s.attach(s.ads() + "," + other.ads())
	letsIn := func(times int) {
		t.Helper()
		for range times {
			if got := s.outcome("/", secret("all")...); got != "200" {
				t.Errorf(`a request with a key: got %s, want "200"`, got)
			}
		}
	}
	s.becomes("a key", "200", func() string { return s.outcome("/", secret("all")...) })
	var stay, gone []chan error
	for range 6 {
		stay = append(stay, s.open("sk-secret-all", 300))
		gone = append(gone, s.open("sk-secret-gone", 1000))
	}
	here, there := s.series("penstock_gate_watched_requests"), other.series("penstock_gate_watched_requests")
	if here+there != 12 || there == 0 {
		t.Fatalf("%v and %v requests are watched, want 12", here, there)
	}
	other.penstock.Signal(syscall.SIGTERM)
	other.logged("stopping: requests in flight have 30s")
	letsIn(20)
	later := s.open("sk-secret-all", 100)
	s.watched(here + 1)
	for _, result := range append(append([]chan error{later}, stay...), gone...) {
		running(t, "a stream", result)
	}
	keys["gone"] = "owner: gone, disabled: true"
	s.restrict(keys)
	other.restrict(keys)
	for _, result := range gone {
		if err := <-result; err == nil {
			t.Error("a stream of a revoked key is complete")
		}
	}
	completed(t, "a stream of another key", append(stay, later)...)
	<-other.penstock.Ended()
	if code := other.penstock.ExitCode(); code != 0 {
		t.Errorf("the process has ended with exit status %d, want 0", code)
	}
	letsIn(20)
}

// On SIGTERM, penstock up first lets watched streams run to their end, and then ends Envoy.
func TestAccessRevoke_StreamsGoOnWhileEnvoyStops(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	key := s.keys("create", "alice")
	s.up("access.yaml", with("gate"), atOnce)
	s.becomes("a key", "200", func() string { return s.outcome("/", bearer(key)...) })
	s.watched(0)
	streams := []chan error{s.open(key, 200), s.open(key, 200)}
	s.watched(2)
	s.penstock.Signal(syscall.SIGTERM)
	completed(t, "a stream", streams...)
	if code := s.ended(); code != 0 {
		t.Errorf("penstock has ended with exit status %d, want 0", code)
	}
}

// Changed policies and routes cut no open stream. A revoked key ends only the streams whose current
// policy has revoke: Immediately.
func TestAccessRevoke_PoliciesAndRoutesChangeWhileStreamsAreOpen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	keys := map[string]string{}
	for _, name := range []string{"end", "removed", "moved"} {
		keys[name] = "owner: " + name
	}
	s.restrict(keys)
	s.up("access.yaml", with("gate"), atOnce)
	revoke := func(name string) {
		t.Helper()
		keys[name] = "owner: " + name + ", disabled: true"
		s.restrict(keys)
	}
	begin := func(name string, words int) chan error {
		t.Helper()
		s.becomes("key "+name, "200", func() string { return s.outcome("/", secret(name)...) })
		s.watched(0)
		result := s.open("sk-secret-"+name, words)
		s.watched(1)
		return result
	}
	const denied = "401 invalid_api_key"

	stream := begin("end", 200)
	s.write("access.yaml", with("gate"))
	s.Eventually("Envoy watches no new request", func() error {
		next := s.open("sk-secret-removed", 5)
		n := s.series("penstock_gate_watched_requests")
		if err := <-next; err != nil {
			return err
		}
		return because(n == 1, n, " are watched")
	})
	revoke("end")
	s.becomes("a revoked key", denied, func() string { return s.outcome("/", secret("end")...) })
	completed(t, "a stream whose policy no longer has the field", stream)

	s.write("access.yaml", with("gate"), atOnce)
	s.Eventually("Envoy watches requests again", func() error {
		next := s.open("sk-secret-removed", 5)
		n := s.series("penstock_gate_watched_requests")
		return because(n == 1 && <-next == nil, n, " are watched")
	})
	stream = begin("removed", 200)
	s.write("access.yaml")
	s.becomes("a request without a key", "200", func() string { return s.outcome("/") })
	revoke("removed")
	completed(t, "a stream whose policy is removed", stream)

	s.write("access.yaml", with("gate"), atOnce)
	s.becomes("a request without a key", denied, func() string { return s.outcome("/") })
	stream = begin("moved", 1000)
	s.write("access.yaml", with("gate"), atOnce, swap("{name: chat}\nspec:\n  parentRefs: [{name: gw}]\n",
		"{name: chat}\nspec:\n  parentRefs: [{name: gw}]\n  hostnames: [moved.example]\n"))
	s.becomes("the route's host before", "404 no_route", func() string { return s.outcome("/", secret("moved")...) })
	running(t, "a stream whose route has moved", stream)
	revoke("moved")
	if err := <-stream; err == nil {
		t.Error("the stream of a revoked key is complete after its route has moved")
	}
}
