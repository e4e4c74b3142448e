package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/xds/admission/ports"
)

// ServerConfig configures a Server. Component, Listen, Body and Bodies are required.
type ServerConfig struct {
	Component string
	Listen    string // HOST:PORT; port 0 means any free port
	Body      int64  // maximum of one body, in bytes
	Bodies    int64  // maximum of all bodies in memory, in bytes
	Release   string // of this program; default Release()
	Grace     time.Duration
	Metrics   *prometheus.Registry // served at /metrics; may be nil
	Log       *slog.Logger         // default slog.Default()
}

// Server is a program's HTTP server. It also serves GET /healthz, /version and /metrics.
type Server struct {
	cfg      ServerConfig
	mux      *http.ServeMux
	bodies   *room
	listener net.Listener
	draining atomic.Bool
}

// NewServer returns a Server. It opens no socket.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Release == "" {
		cfg.Release = Release()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux(), bodies: newRoom(cfg.Bodies, cfg.Body)}
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if s.draining.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s.mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, map[string]string{"component": cfg.Component, "version": cfg.Release})
	})
	if cfg.Metrics != nil {
		s.mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{}))
	}
	return s
}

// Handle adds a handler, which receives the whole body, and may keep the slice.
func (s *Server) Handle(pattern string, handle func(w http.ResponseWriter, r *http.Request, body []byte)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		switch {
		case size < 0:
			Fail(w, http.StatusLengthRequired, "the request has no content-length")
			return
		case size > s.cfg.Body:
			Fail(w, http.StatusRequestEntityTooLarge, "the body has %d bytes; the limit is %d", size, s.cfg.Body)
			return
		}
		body, release, err := s.bodies.read(r, size)
		defer release()
		switch {
		case errors.Is(err, errNoRoom):
			w.Header().Set("retry-after", "1")
			Fail(w, http.StatusServiceUnavailable,
				"the bodies of other requests take the %d bytes that are held at a time, or half of them are from "+
					"this address", s.cfg.Bodies)
			return
		case err != nil:
			Fail(w, http.StatusBadRequest, "the body ended early")
			return
		}
		handle(w, r, body)
	})
}

// ServeHTTP implements http.Handler. It adds VersionHeader to every response.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(VersionHeader, s.cfg.Release)
	s.mux.ServeHTTP(w, r)
}

// Open opens the socket, and returns its address. Run calls Open if needed.
func (s *Server) Open() (string, error) {
	l, err := ports.External.Listen(context.Background(), "tcp", s.cfg.Listen)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.cfg.Component, err)
	}
	s.listener = l
	return l.Addr().String(), nil
}

// Run serves until ctx ends, and then completes the requests in flight within ServerConfig.Grace.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		if _, err := s.Open(); err != nil {
			return err
		}
	}
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:  5 * time.Second, // a stalled body takes memory that other bodies need
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelWarn),
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(ports.External.Open(s.listener)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s: %w", s.cfg.Component, err)
		}
		return nil
	})
	group.Go(func() error {
		<-groupCtx.Done()
		s.draining.Store(true)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
		defer cancel()
		if err := server.Shutdown(limited); err != nil {
			server.Close()
			return fmt.Errorf("%s: requests in flight after %v: %w", s.cfg.Component, s.cfg.Grace, err)
		}
		return nil
	})
	return group.Wait()
}

// Fail responds with {"error": TEXT}.
func Fail(w http.ResponseWriter, status int, format string, args ...any) {
	WriteJSON(w, status, map[string]string{"error": fmt.Sprintf(format, args...)})
}

// WriteJSON responds with a value in JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has disconnected
}
