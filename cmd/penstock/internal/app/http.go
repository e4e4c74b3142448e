package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
)

// longestSocket is what a Unix socket's path may measure on every system we run on.
const longestSocket = 103

// Socket is where other penstock commands find the process that serves a state folder.
func Socket(stateDir string) string { return filepath.Join(stateDir, "api.sock") }

// serveHTTP starts serving: on Config.HTTP, on Config.Admin, and on the socket in the state folder.
func (p *App) serveHTTP(ctx context.Context, group *errgroup.Group) error {
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	open := p.openPages()
	handler := p.allPages(open)
	socket := Socket(p.cfg.StateDir)
	if len(socket) > longestSocket {
		return fmt.Errorf("the path of the state folder's socket, %s, is longer than %d bytes: choose a shorter folder with --state", socket, longestSocket)
	}
	if c, err := net.DialTimeout("unix", socket, time.Second); err == nil {
		_ = c.Close()
		return fmt.Errorf("another penstock serves this state folder already (%s): stop it, or choose another one with --state", p.cfg.StateDir)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("socket for other penstock commands: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return err
	}
	group.Go(func() error { return serveHandler(ctx, l, withProfiles(handler)) })
	if p.cfg.HTTP != nil {
		pages := http.Handler(open)
		if local(p.cfg.HTTP.Addr()) {
			pages = handler
		}
		group.Go(func() error { return serveHandler(ctx, p.cfg.HTTP, pages) })
	}
	if p.cfg.Admin != nil {
		group.Go(func() error { return serveHandler(ctx, p.cfg.Admin, handler) })
	}
	return nil
}

// local says whether an address is reached from this machine (in Kubernetes, this pod) alone.
func local(a net.Addr) bool {
	t, isTCP := a.(*net.TCPAddr)
	return a.Network() == "unix" || isTCP && t.IP.IsLoopback()
}

// withProfiles adds /debug/pprof, for `go tool pprof`: on the socket alone, which only its owner can open.
func withProfiles(handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// openPages are those that anyone may read who reaches them: no object's content is in them.
func (p *App) openPages() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", p.readyz)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this address serves /metrics, /healthz and /readyz; the rest is at that of --admin", http.StatusNotFound)
	})
	return mux
}

// allPages adds what tells of the objects of every namespace. Nobody is asked who they are, so only an operator may reach it.
func (p *App) allPages(open http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, page := range []string{"GET /metrics", "GET /healthz", "GET /readyz"} {
		mux.Handle(page, open)
	}
	mux.Handle("GET /status", status.Page(p.board, Controller))
	mux.HandleFunc("GET /proxies", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, p.xds.Proxies()) })
	mux.HandleFunc("GET /explain", p.explain)
	debug.Register(mux, debug.Config{Store: p.store, Cache: p.cache, XDS: p.xds})
	if p.picker != nil {
		mux.Handle("GET /debug/picks", p.picker)
		mux.HandleFunc("GET /debug/pool", func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, p.picker.Explain(r.URL.Query().Get("pool"), nil))
		})
	}
	return mux
}

// readyz says yes when the configuration was read and translated once.
func (p *App) readyz(w http.ResponseWriter, _ *http.Request) {
	if !p.progress.has() {
		http.Error(w, "configuration is not translated yet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Explained is a translator's explanation with what only a running process knows.
type Explained struct {
	translator.Explanation
	// Picks says for each backend that our picker serves what it would choose now, by the pool's name.
	Picks map[string]json.RawMessage `json:"picks,omitempty"`
	// Conditions are the reports of the route and the Gateway.
	Conditions []status.Object `json:"objects,omitempty"`
}

// Explain follows a request through everything.
func (p *App) Explain(q translator.Query) Explained {
	p.mu.Lock()
	out := Explained{Explanation: p.translator.Explain(q)}
	p.mu.Unlock()
	if p.picker != nil {
		out.Picks = map[string]json.RawMessage{}
		p.picks(out.Picks, out.Backends, q.Header)
	}
	doc := status.NewDocument(p.board.List(nil), Controller, nil, time.Now())
	for _, o := range doc.Objects {
		if out.concerns(o) {
			out.Conditions = append(out.Conditions, o)
		}
	}
	return out
}

// picks asks our picker about each backend that it serves, and about those behind hops.
func (p *App) picks(into map[string]json.RawMessage, backends []translator.BackendView, h http.Header) {
	for _, b := range backends {
		if b.Pool != "" {
			header := flat(h)
			header["x-penstock-spill"] = strings.Join(b.Spill, ",")
			if raw, err := json.Marshal(p.picker.Explain(b.Pool, header)); err == nil {
				into[b.Pool] = raw
			}
		}
		for _, hop := range b.Hops {
			p.picks(into, hop.Backends, h)
		}
	}
}

func (p *App) explain(w http.ResponseWriter, r *http.Request) {
	u, err := url.Parse(r.URL.Query().Get("url"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := translator.Query{URL: u, Method: r.URL.Query().Get("method"), Gateway: r.URL.Query().Get("gateway"), Header: http.Header{}}
	for _, h := range r.URL.Query()["header"] {
		AddHeader(q.Header, h)
	}
	writeJSON(w, p.Explain(q))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("content-type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the other side is gone
}

// AddHeader adds "name: value" or "name=value" to a header.
func AddHeader(h http.Header, line string) {
	i := strings.IndexAny(line, ":=")
	if i < 0 {
		i = len(line)
	}
	h.Add(strings.TrimSpace(line[:i]), strings.TrimSpace(strings.TrimLeft(line[i:], ":=")))
}

func flat(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		out[strings.ToLower(name)] = strings.Join(values, ",")
	}
	return out
}

// concerns says whether an object is part of an explanation: the route, the Gateway, and the backends' pools.
func (e *Explained) concerns(o status.Object) bool {
	if e.Route != nil && o.Ref == *e.Route || o.Kind == "Gateway" && o.Key() == e.Gateway {
		return true
	}
	return slices.ContainsFunc(e.Backends, func(b translator.BackendView) bool {
		return b.Backend == store.TargetKey(o.Kind, o.Namespace, o.Name)
	})
}
