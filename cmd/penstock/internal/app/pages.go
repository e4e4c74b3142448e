package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/cmd/penstock/internal/pipeline"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/xds/admission/ports"
)

// maxSocketPath is how many bytes every system allows in the path of a Unix socket.
const maxSocketPath = 103

// Socket returns the path at which other penstock commands reach the process of a state folder.
func Socket(stateDir string) string { return filepath.Join(stateDir, "api.sock") }

// ListenSocket listens on a Unix socket that only this user can open. It replaces an unused socket.
func ListenSocket(sockets *ports.Sockets, port ports.Port, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of the socket, %s, is longer than %d bytes: choose a shorter folder with "+
			"--state", path, maxSocketPath)
	}
	if sockets.Has(port, "unix", path) {
		return sockets.Listen(context.Background(), port, "unix", path)
	}
	if err := unserved(path); err != nil {
		return nil, err
	}
	switch info, err := os.Lstat(path); {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is no socket: remove it, or choose another path", path)
	case err == nil:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	l, err := sockets.Listen(context.Background(), port, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	return l, nil
}

// Unserved returns an error if another process serves a state folder.
func Unserved(stateDir string) error { return unserved(Socket(stateDir)) }

func unserved(path string) error {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return nil
	}
	_ = c.Close()
	return fmt.Errorf(
		"another penstock serves this state folder already (%s): stop it, or choose another one with --state",
		filepath.Dir(path))
}

func (a *App) servePages(ctx context.Context, group *errgroup.Group) error {
	a.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	open := a.openPages()
	handler := a.panics.pages(a.allPages(open))
	switch l, err := a.listenSocket(); {
	case l == nil && err == nil:
	case err == nil:
		group.Go(func() error { return ServeSocket(ctx, l, handler) })
	case Unwritable(err):
		a.log.Error("other penstock commands do not reach this process until it starts again with a state folder that "+
			"takes files; traffic is not affected", "error", err)
	default:
		return err
	}
	if a.cfg.HTTP != nil {
		group.Go(func() error { return ServePages(ctx, a.cfg.HTTP, a.panics.pages(open), handler) })
	}
	if a.cfg.Admin != nil {
		group.Go(func() error { return serveHandler(ctx, ports.Admin.Open(a.cfg.Admin), sameOrigin(handler)) })
	}
	return nil
}

// ServePages serves the pages `all` on a listener that only this machine reaches, otherwise `open`.
func ServePages(ctx context.Context, l net.Listener, open, all http.Handler) error {
	if Local(l.Addr()) {
		open = sameOrigin(all)
	}
	return serveHandler(ctx, ports.Pages.Open(l), open)
}

// ServeSocket serves pages and profiles on the socket in a state folder until ctx ends.
func ServeSocket(ctx context.Context, l net.Listener, all http.Handler) error {
	return serveHandler(ctx, ports.Local.Open(l), withProfiles(all))
}

func (a *App) listenSocket() (net.Listener, error) {
	if a.cfg.StateDir == "" {
		return nil, nil
	}
	return ListenSocket(a.cfg.Sockets, ports.Local, Socket(a.cfg.StateDir))
}

// Unwritable reports whether an error comes from a full disk or a read-only folder.
func Unwritable(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, fs.ErrPermission)
}

// Local reports whether an address can be reached only from this machine (on Kubernetes: this pod).
func Local(a net.Addr) bool {
	t, isTCP := a.(*net.TCPAddr)
	return a.Network() == "unix" || isTCP && t.IP.IsLoopback()
}

// withProfiles adds /debug/pprof. Use it only for the socket, which only its owner can open.
func withProfiles(handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

func (a *App) openPages() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", MetricsPage(a.registry))
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this address serves /metrics, /healthz and /readyz; the rest is at --admin", http.StatusNotFound)
	})
	return mux
}

// allPages has no authentication. Only the socket and listeners with sameOrigin may serve it.
func (a *App) allPages(open http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, page := range []string{"GET /metrics", "GET /healthz", "GET /readyz"} {
		mux.Handle(page, open)
	}
	mux.Handle("GET /status", status.Page(a.board, Controller, a.written))
	mux.HandleFunc("GET /explain", a.explain)
	mux.HandleFunc("GET /clusters", func(w http.ResponseWriter, r *http.Request) {
		if a.set == nil {
			debug.WriteJSON(w, set.Status{})
			return
		}
		a.set.Page(w, r)
	})
	debug.Register(mux, debug.Config{Store: a.store, Cache: a.cache, XDS: a.xds, Rows: a.rows})
	mux.HandleFunc("GET /debug/picks", a.picksPage)
	mux.HandleFunc("GET /usage", a.usagePage)
	for page, content := range map[string]func(url.Values) any{
		"GET /proxies":       func(url.Values) any { return a.xds.Proxies() },
		"GET /debug/suspect": func(url.Values) any { return a.picker.Suspects() },
		"GET /debug/serving": func(url.Values) any { return a.picker.Serving() },
		"GET /debug/rates":   func(url.Values) any { return a.picker.Rates() },
		"GET /debug/pool":    func(q url.Values) any { return a.picker.Explain(q.Get("pool"), nil) },
	} {
		mux.HandleFunc(page, func(w http.ResponseWriter, r *http.Request) {
			debug.WriteJSON(w, content(r.URL.Query()))
		})
	}
	return mux
}

func (a *App) healthz(w http.ResponseWriter, _ *http.Request) {
	if a.translation.Stuck() {
		http.Error(w, fmt.Sprintf("translation has been stuck for %s, behind revision %d: restart this process",
			pipeline.StuckAfter, a.progress.Revision()), http.StatusServiceUnavailable)
		return
	}
	if a.files != nil && a.files.Stuck() {
		http.Error(w, file.StuckMessage, http.StatusServiceUnavailable)
		return
	}
	if path := a.cfg.Disk.Stuck(); path != "" {
		http.Error(w, filesystem.StuckMessage(path), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *App) readyz(w http.ResponseWriter, _ *http.Request) {
	if a.stopping.leaving.Load() {
		http.Error(w, "shutting down: requests in flight are completed", http.StatusServiceUnavailable)
		return
	}
	if !a.progress.Begun() {
		http.Error(w, "configuration is not translated yet", http.StatusServiceUnavailable)
		return
	}
	if why := a.unready(); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
