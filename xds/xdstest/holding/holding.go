package holding

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
)

// Server holds each GET except /metrics and /v1/models.
type Server struct {
	*httptest.Server
	begins bool
	held   atomic.Int64
}

// Start starts a server on loopback. If begins is set, the response begins before the request is
// held.
func Start(begins bool) *Server {
	s := &Server{begins: begins}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/metrics":
		fmt.Fprint(w, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n")
	case r.Method == http.MethodGet && r.URL.Path != "/v1/models":
		s.held.Add(1)
		defer s.held.Add(-1)
		if s.begins {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}
}

func (s *Server) Address() string { return strings.TrimPrefix(s.URL, "http://") }

func (s *Server) Held() int { return int(s.held.Load()) }
