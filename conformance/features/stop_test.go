package features

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

func (s *site) closedToClients() {
	s.Helper()
	s.Eventually("the Gateway accepts no connection", func() error {
		conn, err := net.Dial("tcp", s.address("gateway"))
		if err != nil {
			return nil
		}
		_ = conn.Close()
		return errors.Join(errors.New("it accepts one"), s.penstock.Running())
	})
}

func (s *site) ended() int {
	s.Helper()
	s.Eventually("penstock ends", func() error {
		return because(s.penstock.Running() != nil, "it runs")
	})
	return s.penstock.ExitCode()
}

// streaming starts a streamed response, and returns after its first event.
func (s *site) streaming(words int) (result chan error) {
	begun, result := make(chan struct{}), make(chan error, 1)
	first := true
	go func() {
		result <- s.stream(s.Context(), "/", strings.Repeat("word ", words), func(string) {
			if first {
				first = false
				close(begun)
			}
		})
	}()
	select {
	case <-begun:
	case err := <-result:
		s.Fatalf("the stream does not begin: %v", err)
	}
	return result
}

// On SIGTERM, penstock up rejects new connections and is not ready. Requests in flight, and
// requests on open connections, complete, also through internal listeners.
func TestStop_RequestsInFlightEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("fast-1", "--inter-token-latency", "20ms")
	s.server("spare-1")
	s.closed("pages")
	s.flags = []string{"--http", s.address("pages")}
	s.up("spill.yaml")
	result := s.streaming(200)
	kept := &http.Client{Timeout: process.Limit}
	spilled := func() *http.Response {
		t.Helper()
		req, err := request(t.Context(), s.url("/"), question)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := kept.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if by := resp.Header.Get("x-served-by"); resp.StatusCode != http.StatusOK || by != "spare-1" {
			t.Errorf("%d by %q, want a spilled request", resp.StatusCode, by)
		}
		return resp
	}
	spilled()
	s.penstock.Signal(syscall.SIGTERM)
	s.closedToClients()
	if resp := spilled(); !resp.Close {
		t.Error("a response does not close its connection")
	}
	if got, err := s.get("http://" + s.address("pages") + "/readyz"); err != nil ||
		got.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %v, want %d", got.status, err, http.StatusServiceUnavailable)
	}
	if err := <-result; err != nil {
		t.Errorf("the stream is cut: %v", err)
	}
	if code := s.ended(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}

// A request that does not end delays the stop for at most --stop-timeout, or until a second signal.
func TestStop_ATimeoutOrASecondSignalEndsIt(t *testing.T) {
	t.Parallel()
	for timeout, signals := range map[string]int{"1s": 1, "10m": 2} {
		s := newSite(t)
		s.server("fast-1", "--inter-token-latency", "1s")
		s.server("spare-1")
		s.flags = []string{"--stop-timeout", timeout}
		s.up("spill.yaml")
		_, end, err := s.occupy("/")
		if err != nil {
			t.Fatal(err)
		}
		s.penstock.Signal(syscall.SIGINT)
		s.logged("requests in flight have " + strings.ReplaceAll(timeout, "10m",
			"10m0s") + "; a second Ctrl-C ends penstock at once")
		want := 0
		if signals > 1 {
			s.penstock.Signal(syscall.SIGINT)
			want = 130
		}
		if code := s.ended(); code != want {
			t.Errorf("%s: exit status %d, want %d", timeout, code, want)
		}
		if signals == 1 && !regexp.MustCompile(`did not drain.*"in flight"=1`).MatchString(s.output()) {
			t.Errorf("it printed\n%s\nwant a warning about 1 request in flight that is cut", s.output())
		}
		pid := regexp.MustCompile(`Envoy started.* pid=(\d+)`).FindStringSubmatch(s.output())
		if _, err := os.Stat("/proc/" + pid[1]); err == nil {
			t.Errorf("%s: Envoy %s runs, want it ended", timeout, pid[1])
		}
		end()
	}
}

// An Envoy that penstock did not start serves on after penstock serve has ended.
func TestStop_OtherEnvoysServeOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.backend("one", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.write("http1.yaml")
	s.serve()
	s.attach(s.ads())
	get := func() error {
		got, err := s.raw("GET / HTTP/1.1\r\nHost: llm.example.com\r\nConnection: close\r\n\r\n")
		return errors.Join(err, because(got.status == http.StatusOK, fmt.Sprint(got.status)))
	}
	s.Eventually("Envoy serves", get)
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = get()
		}
		failed <- err
	}()
	s.stop()
	if err := get(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-failed; err != nil {
		t.Error(err)
	}
}
