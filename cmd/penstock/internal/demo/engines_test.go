package demo

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestDemo_FailedRequestDuringAChangeFails(t *testing.T) {
	load := func(broken int64) (served map[string]int, err error) {
		var n atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-served-by", "qwen-0")
			if n.Add(1) == broken {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = io.WriteString(w, "busy")
		}))
		defer server.Close()
		d := &show{page: page{w: io.Discard}, ctx: t.Context(), http: server.Client(), url: server.URL}
		err = try(func() {
			served, _ = d.load(question("qwen", "Hello", 0), func(by string) string { return by }, func() {
				check(wait(t.Context(), func() bool { return n.Load() > 20 }))
			})
		})
		return served, err
	}
	if served, err := load(0); err != nil || served["qwen-0"] < 16 {
		t.Errorf("without a failure: got %v %v, want at least 16 answers of qwen-0", served, err)
	}
	if _, err := load(5); err == nil || !strings.Contains(err.Error(), "1 requests failed, the first: 503 busy") {
		t.Errorf("with a failure: got %v, want it", err)
	}
}

func TestDemo_EndedWaitsForTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &show{ctx: t.Context()}
	done := make(chan error, 1)
	go func() { done <- try(func() { d.ended(answer{At: l.Addr().String()}) }) }()
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("it returned %v while the server listens, want it to wait", err)
	default:
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Model servers outlive a penstock that gets SIGTERM. In a demo that starts some, it gets SIGINT.
func TestDemo_PenstockWithEnginesGetsSIGINT(t *testing.T) {
	c := shell("trap 'echo ended; exit 0' INT; echo ready; while :; do sleep 0.01; done")
	c.end = enginesScript().end
	if c.end != syscall.SIGINT {
		t.Errorf("got signal %v, want SIGINT", c.end)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	poll.Until(t, "the script runs", func() bool { return strings.Contains(c.all(), "ready") })
	stop()
	if err := <-done; err != nil || !strings.Contains(c.output(), "ended") {
		t.Errorf("got %v; output:\n%s\nwant ended", err, c.output())
	}
}

func TestDemo_EnginesYAMLRenders(t *testing.T) {
	paths, err := fs.Glob(config, "engines/here/*.yaml")
	if err != nil || len(paths) != len(enginesScript().later)+1 {
		t.Errorf("files: %v %v, want the gateway and %v", paths, err, enginesScript().later)
	}
	for _, path := range paths {
		text, err := render("", path, map[string]int{"here": 1})
		if lines := excerpt(text); err != nil || filepath.Base(path) != "gateway.yaml" && len(lines) < 3 {
			t.Errorf("%s shows %d lines, want 3 or more: %v", path, len(lines), err)
		}
	}
}
