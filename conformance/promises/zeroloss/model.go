package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

type server struct {
	fleet, name string
	port        int
	draining    bool // state in the files; only the planning goroutine uses it

	addresses []string
	http      *http.Server
	served    atomic.Int64
	open      atomic.Int64
	left      atomic.Int64 // time when the server left the files, in Unix nanoseconds; 0 means not yet
	stray     func(s *server, since time.Duration)
}

type answer struct {
	ID    string `json:"id"`
	Host  string `json:"host"`
	Fleet string `json:"fleet"`
	Name  string `json:"name"`
	Size  int    `json:"size"`
	Sum   uint32 `json:"sum"`
}

// newServer makes a server whose port rejects connections until serve is called.
func newServer(fleet, name string, port int, stray func(*server, time.Duration)) *server {
	s := &server{fleet: fleet, name: name, port: port, addresses: []string{"127.0.0.1"}, stray: stray}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("GET /metrics", s.metrics)
	// uvicorn also closes idle connections after 5 seconds.
	s.http = &http.Server{Handler: mux, IdleTimeout: 5 * time.Second, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)}
	s.http.Protocols = new(http.Protocols)
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetUnencryptedHTTP2(true)
	return s
}

func (s *server) serve() error {
	for _, a := range s.addresses {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", a, s.port))
		if err != nil {
			return fmt.Errorf("model server: %w", err)
		}
		go func() { _ = s.http.Serve(l) }() // ends with stop
	}
	return nil
}

// linger is how long a server may get requests after it left the files, because the pick may be
// older than the change.
const linger = 4 * time.Second

func (s *server) retire(ctx context.Context) {
	s.left.Store(time.Now().UnixNano())
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.open.Load() > 0 || time.Since(time.Unix(0, s.left.Load())) < linger+time.Second {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	// Shutdown also waits until net/http has written the end of each response, which happens after
	// the handler has returned.
	_ = s.http.Shutdown(ctx) // an error means that the run has ended
}

func (s *server) stop() { _ = s.http.Close() }

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	s.open.Add(1)
	defer s.open.Add(-1)
	s.served.Add(1)
	// Servers of an external picker are exempt: Envoy may use this picker's endpoints for a while
	// without a pick.
	if left := s.left.Load(); left != 0 && s.fleet != externalFleet {
		if since := time.Since(time.Unix(0, left)); since > linger {
			s.stray(s, since)
		}
	}
	sum := crc32.NewIEEE()
	size, err := io.Copy(sum, r.Body)
	if err != nil {
		return
	}
	text, _ := json.Marshal(answer{r.URL.Query().Get("id"), r.Host, s.fleet, s.name, int(size), sum.Sum32()})
	events := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("events"), &events)
	if events == 0 {
		w.Header().Set("content-type", "application/json")
		_, _ = w.Write(text)
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	out := http.NewResponseController(w)
	fmt.Fprintf(w, "data: %s\n\n", text)
	_ = out.Flush()
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for i := range events {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		fmt.Fprintf(w, "data: %d\n\n", i)
		_ = out.Flush()
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (s *server) metrics(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "vllm:num_requests_waiting 0\nvllm:num_requests_running %d\nvllm:kv_cache_usage_perc 0.1\n",
		s.open.Load())
}
