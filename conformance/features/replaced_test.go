package features

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// children returns the process IDs of penstock's children with this program name.
func (s *site) children(name string) (pids []string) {
	s.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.penstock.PID()))
	if err != nil {
		s.Fatal(err)
	}
	for _, file := range all {
		list, _ := os.ReadFile(file)
		for _, pid := range strings.Fields(string(list)) {
			if text, _ := os.ReadFile("/proc/" + pid + "/comm"); strings.TrimSpace(string(text)) == name {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// replaced makes penstock up replace its program (SIGUSR2), and waits for the given number of
// replacements since its start.
func (s *site) replaced(times int) {
	s.Helper()
	s.penstock.Signal(syscall.SIGUSR2)
	s.Eventually("penstock is replaced", func() error {
		got := strings.Count(s.output(), "replaced penstock")
		return because(got >= times, got, s.penstock.Running(), s.output())
	})
}

func TestReplace_NoRequestFailsAndEnvoyStays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "5ms")
	s.server("b", "--inter-token-latency", "5ms")
	s.restrict(map[string]string{"all": "owner: all"})
	s.up("replaced.yaml")
	s.answers("/", http.StatusOK)
	s.becomes("a key", "200", func() string { return s.outcome("/gated", secret("all")...) })
	before := s.children("envoy")
	var gated, loads []*traffic
	for range 2 {
		gated = append(gated, s.traffic("/gated", secret("all")...))
		loads = append(loads, s.traffic("/"), s.traffic("/service"))
	}
	loads = append(loads, gated...)
	for i := range 10 {
		stream := s.streaming(800)
		s.replaced(i + 1)
		completed(t, "a stream", stream)
	}
	sent, counted := 0, 1
	for _, load := range loads {
		load.end(0)
		sent += load.sent
	}
	for _, load := range gated {
		counted += load.sent
	}
	t.Log(sent, "requests")
	if after := s.children("envoy"); len(before) != 1 || !slices.Equal(before, after) {
		t.Errorf("Envoys: got %v, want %v as before", after, before)
	}
	s.Eventually("usage has each request once", func() error {
		got, err := s.used("default/all", "--by", "owner")
		return errors.Join(err, because(got.Requests == float64(counted), got.Requests, " want ", counted))
	})
	pid, _ := strconv.Atoi(before[0])
	s.kill()
	s.Eventually("Envoy ends with a killed penstock", func() error {
		err := syscall.Kill(pid, 0)
		return because(errors.Is(err, syscall.ESRCH) || zombie(pid), "it runs")
	})
}

// zombie reports whether a process has ended and was not reaped.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestReplace_RequestsInAQueueWaitOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod", "--inter-token-latency", "20ms")
	s.up("flowcontrol.yaml", swap("    full: {inFlight: 1}", "    failureMode: FailClose\n    full: {inFlight: 1}"))
	s.answers("/", http.StatusOK)
	stream := s.streaming(400)
	waits := make(chan error, 2)
	for range cap(waits) {
		go func() {
			got, err := s.ask("/", question)
			waits <- errors.Join(err, because(got.status == http.StatusOK, got.status, got.body))
		}()
	}
	s.Eventually("requests wait", func() error {
		got := s.explain(s.url("/"), "-X", "POST")
		return because(strings.Contains(got, "wait 2 requests"), got)
	})
	s.replaced(1)
	running(t, "the stream", stream)
	completed(t, "a request in the queue", waits, waits)
	completed(t, "the stream", stream)
}

func TestReplace_BrokenProgramChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.server("b")
	s.binary = filepath.Join(t.TempDir(), "penstock")
	install := func(text string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(s.binary), os.WriteFile(s.binary, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	good, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	install(string(good))
	s.up("replaced.yaml")
	s.answers("/", http.StatusOK)
	before, load := s.children("envoy"), s.traffic("/")
	for i, broken := range []struct{ text, want string }{
		{"#!/bin/sh\necho it is broken >&2\nexit 1\n", "exit status 1: it is broken"},
		{"#!/bin/sh\nexit 0\n", "restart this one instead"},
		{"", "no such file"},
	} {
		if install(broken.text); broken.text == "" {
			_ = os.Remove(s.binary)
		}
		s.penstock.Signal(syscall.SIGUSR2)
		s.Eventually("the error is logged", func() error {
			text := s.output()
			n := strings.Count(text, "penstock is not replaced, and runs on")
			return because(n == i+1 && strings.Contains(text, broken.want), broken.want, " in ", text)
		})
		load.flows(20)
	}
	install(string(good))
	s.replaced(1)
	load.flows(20)
	load.end(0)
	if after := s.children("envoy"); !slices.Equal(before, after) {
		t.Errorf("Envoys: got %v, want %v as before", after, before)
	}
}

// The new program restarts model servers and Envoy if they are killed, and ends them when it stops.
func TestReplace_ModelServersStay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deploy()
	before, engine := s.children("envoy"), s.engine1()
	load := s.traffic("/")
	for i := range 2 {
		s.replaced(i + 1)
		load.flows(20)
	}
	load.end(0)
	if after := s.engine1(); after != engine {
		t.Errorf("the model server is process %d, want %d as before", after, engine)
	}
	if after := s.children("envoy"); !slices.Equal(before, after) {
		t.Errorf("Envoys: got %v, want %v as before", after, before)
	}
	s.killEnvoy()
	s.Eventually("a killed Envoy is started again", func() error {
		after := s.children("envoy")
		return because(len(after) == 1 && !slices.Equal(before, after), after)
	})
	s.answers("/", http.StatusOK)
	if err := syscall.Kill(engine, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Eventually("a killed model server is started again", func() error {
		return because(s.engine1() != engine && !zombie(engine), s.engine1())
	})
	s.penstock.Signal(syscall.SIGINT)
	if code := s.ended(); code != 0 {
		t.Errorf("exit status: got %d, want 0", code)
	}
}

// A watched request may end within --stop-timeout before the replacement. A longer request is cut,
// because the new program could not end it when its key is revoked.
func TestReplace_WatchedRequestsHaveTheStopTimeout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	s.restrict(map[string]string{"all": "owner: all"})
	s.flags = []string{"--stop-timeout", "10s"}
	s.up("access.yaml", with("gate"), atOnce)
	s.becomes("a key", "200", func() string { return s.outcome("/", secret("all")...) })
	short := s.open("sk-secret-all", 150)
	s.replaced(1)
	completed(t, "a short stream", short)
	long := s.open("sk-secret-all", 3000)
	s.replaced(2)
	if err := <-long; err == nil {
		t.Error("a stream longer than --stop-timeout: got it complete, want it cut")
	}
	if got := s.outcome("/", secret("all")...); got != "200" {
		t.Errorf(`a request afterwards: got %s, want "200"`, got)
	}
}
