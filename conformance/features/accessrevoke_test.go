package features

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

var atOnce = swap("name: gw}], apiKeys: {}", "name: gw}], revoke: Immediately, apiKeys: {}")

// open begins a stream with a key. The channel receives nil once the stream is complete.
func (s *site) open(key string, words int) (result chan error) {
	s.Helper()
	body := fmt.Sprintf(`{"model": "llama", "stream": true, "messages": [{"role": "user", "content": %q}]}`,
		strings.Repeat("word ", words))
	req, err := request(s.Context(), s.url("/"), body, bearer(key)...)
	if err != nil {
		s.Fatal(err)
	}
	resp, err := client().Do(req)
	if err != nil {
		s.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	if resp.StatusCode != http.StatusOK || !lines.Scan() {
		s.Fatalf("the stream begins with %d %v, want 200 and a line", resp.StatusCode, lines.Err())
	}
	result = make(chan error, 1)
	go func() {
		defer func() { _ = resp.Body.Close() }()
		for lines.Scan() {
			if lines.Text() == "data: [DONE]" {
				result <- nil
				return
			}
		}
		if result <- lines.Err(); lines.Err() == nil {
			result <- io.ErrUnexpectedEOF
		}
	}()
	return result
}

func running(t *testing.T, what string, result chan error) {
	t.Helper()
	select {
	case err := <-result:
		t.Fatalf("%s has ended: %v", what, err)
	default:
	}
}

// With revoke: Immediately, a stream ends once its key is revoked. Streams of other keys continue,
// no xDS resource changes, and adding the field to the policy cuts no stream.
func TestAccessRevoke_StreamOfARevokedKeyEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	alice, bob, carol := s.keys("create", "alice"), s.keys("create", "bob"), s.keys("create", "carol")
	s.up("access.yaml", with("gate"))
	ends := func(what string, result chan error) {
		t.Helper()
		since := time.Now()
		if err := <-result; err == nil {
			t.Errorf("%s is complete, want it cut", what)
		}
		t.Logf("%s has ended after %v", what, time.Since(since))
	}
	before := s.open(alice, 300)
	s.write("access.yaml", with("gate"), atOnce)
	s.Eventually("Envoy watches requests", func() error {
		result := s.open(alice, 20)
		n := s.series("penstock_gate_watched_requests")
		if err := <-result; err != nil {
			return err
		}
		return because(n == 1, n, " are watched")
	})
	running(t, "the stream from before the field", before)
	first, other := s.open(alice, 1000), s.open(bob, 250)
	responses := s.responses()
	s.keys("revoke", "alice")
	ends("the stream of a disabled key", first)
	running(t, "another key's stream", other)
	if after := s.responses(); after != responses {
		t.Errorf("responses of xDS: got %d, want %d as before", after, responses)
	}
	if err := <-other; err != nil {
		t.Error("another key's stream is cut:", err)
	}
	if err := <-before; err != nil {
		t.Error("the stream from before the field is cut:", err)
	}
	second := s.open(carol, 1000)
	rotated := s.keys("rotate", "carol")
	running(t, "the stream of a rotated key", second)
	s.becomes("the new key", "200", func() string { return s.outcome("/", bearer(rotated)...) })
	third := s.open(rotated, 1000)
	s.keys("rotate", "carol", "--finish")
	ends("the stream of the key before", second)
	running(t, "the stream of the new key", third)
	s.write("access.yaml", with("gate"), swap("name: gw}], apiKeys: {}",
		"name: gw}], revoke: Immediately, apiKeys: {selector: {matchLabels: {team: a}}}"))
	ends("the stream of a key that the policy no longer selects", third)
	if got := s.outcome("/", bearer(rotated)...); got != "401 invalid_api_key" {
		t.Error("a new request is answered", got)
	}
}

func TestAccessRevoke_WithoutTheFieldStreamsRunToTheirEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	alice, bob := s.keys("create", "alice"), s.keys("create", "bob")
	s.up("access.yaml", with("gate"))
	first, second := s.open(alice, 200), s.open(bob, 200)
	s.keys("revoke", "alice")
	s.becomes("a revoked key", "401 invalid_api_key", func() string { return s.outcome("/", bearer(alice)...) })
	for _, result := range []chan error{first, second} {
		if err := <-result; err != nil {
			t.Error("a stream is cut:", err)
		}
	}
}

// A stream is cut when the process that watches it ends, because no other process would end it when
// its key is revoked.
func TestAccessRevoke_StreamsEndWithTheirProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	s.restrict(map[string]string{"all": "owner: all"})
	other := s.twoProcesses("access.yaml", with("gate"), atOnce)
	other.restrict(map[string]string{"all": "owner: all"})
	s.attach(s.ads() + "," + other.ads())
	letsIn := func() {
		t.Helper()
		s.Eventually("keys are let in", func() error {
			for range 10 {
				if got := s.outcome("/", secret("all")...); got != "200" {
					return fmt.Errorf(`a request with a key: got %s, want "200"`, got)
				}
			}
			return nil
		})
	}
	letsIn()
	// count opens streams, and returns how many of them the other process watches.
	var results []chan error
	count := func() int {
		t.Helper()
		results = nil
		for range 6 {
			results = append(results, s.open("sk-secret-all", 400))
		}
		here, there := s.series("penstock_gate_watched_requests"), other.series("penstock_gate_watched_requests")
		if here+there != 6 || here == 0 || there == 0 {
			t.Fatalf("%v and %v requests are watched, want 6", here, there)
		}
		return int(there)
	}
	cut := func(want int) {
		t.Helper()
		n := 0
		for _, result := range results {
			if <-result != nil {
				n++
			}
		}
		if n != want {
			t.Errorf("%d streams are cut, want %d", n, want)
		}
	}
	there := count()
	other.penstock.Signal(syscall.SIGSTOP)
	letsIn()
	cut(there)
	other.penstock.Signal(syscall.SIGCONT)
	letsIn()
	there = count()
	other.kill()
	letsIn()
	cut(there)
}
