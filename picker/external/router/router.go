package router

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/picker/external"
	"github.com/penstock-project/penstock/picker/prefix"
)

const (
	maxWorkers          = 1000
	maxBody, heldBodies = 8 << 20, 32 << 20 // in bytes, for one body and all
	// blocks bounds the table of all workers' prefixes, at 60 MiB.
	blocks      = 1 << 20
	lookupEvery = 2 * time.Second
	// readRate is the assumed speed of workers, in prompt tokens a second.
	readRate = 8000
	// rereadWeight is the cost of an uncached token of the prompt, relative to a token that waits
	// at the worker.
	rereadWeight = 2
)

// Config configures a Router. Workers or Service is required.
type Config struct {
	Workers     []string // HOST:PORT, at most 1,000
	Service     string   // NAME:PORT in DNS; "" for none
	CacheTokens int      // of a worker's KV cache; default prefix.DefaultCapacity
	// Lookup resolves the name of Service; nil means the system's resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	Log    *slog.Logger // default slog.Default()
}

// Router chooses workers. Its methods are safe for concurrent use.
type Router struct {
	cfg    Config
	name   string
	port   uint16
	index  *prefix.Index
	routed *prometheus.CounterVec

	mu      sync.Mutex
	workers []*worker // sorted by address
}

type worker struct {
	address string
	cache   *prefix.Server
	waiting float64 // tokens that the worker had to read at the time at
	at      time.Time
}

// New returns a Router, and registers its metrics. An invalid Config is an error.
func New(cfg Config, metrics prometheus.Registerer) (*Router, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Lookup == nil {
		cfg.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	r := &Router{cfg: cfg, index: prefix.New(prefix.Config{Blocks: blocks})}
	if len(cfg.Workers) == 0 && cfg.Service == "" || len(cfg.Workers) > maxWorkers {
		return nil,
			fmt.Errorf("router: %d workers: name between one and %d, or their DNS name", len(cfg.Workers),
				maxWorkers)
	}
	for _, w := range cfg.Workers {
		if _, _, err := split(w); err != nil {
			return nil, fmt.Errorf("router: worker %w", err)
		}
	}
	if cfg.Service != "" {
		var err error
		if r.name, r.port, err = split(cfg.Service); err != nil {
			return nil, fmt.Errorf("router: service %w", err)
		}
	}
	r.routed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_external_routed_total",
		Help: "Prompts that the router received, by result: prefix: the worker has the beginning; load: none or " +
			"another one has it; none: there is no worker; invalid.",
	}, []string{"result"})
	metrics.MustRegister(r.routed)
	r.set(cfg.Workers)
	return r, nil
}

func split(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	number, bad := strconv.ParseUint(text, 10, 16)
	if err != nil || bad != nil || host == "" || number == 0 {
		return "", 0, fmt.Errorf("%q must have the form HOST:PORT", address)
	}
	return host, uint16(number), nil
}

// Paths adds the path /route to a server.
func (r *Router) Paths(server *external.Server) { server.Handle("POST /route", r.serve) }

// ServerConfig returns the limits of the Router's server.
func ServerConfig() external.ServerConfig {
	return external.ServerConfig{Component: "router", Body: maxBody, Bodies: heldBodies}
}

func (r *Router) serve(w http.ResponseWriter, _ *http.Request, body []byte) {
	var q struct {
		TokenIDs []uint32 `json:"token_ids"`
	}
	if err := json.Unmarshal(body, &q); err != nil || q.TokenIDs == nil {
		r.routed.WithLabelValues("invalid").Inc()
		external.Fail(w, http.StatusBadRequest,
			"the body must be a JSON object with token_ids, a list of token IDs, such as {\"token_ids\": [1,15043]}")
		return
	}
	worker := r.Route(q.TokenIDs, time.Now())
	if worker == "" {
		external.Fail(w, http.StatusServiceUnavailable, "no worker is ready")
		return
	}
	external.WriteJSON(w, http.StatusOK, map[string]string{"worker_address": worker})
}

type hasher struct {
	front, rest prefix.Builder
	memory      [prefix.MaxBlocks]uint64
}

var hashers = sync.Pool{New: func() any { return new(hasher) }}

// Route returns the worker with the fewest tokens to read, and counts the prompt for it. It returns
// "" without workers.
func (r *Router) Route(tokens []uint32, now time.Time) string {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.rest.Reset()
	for _, id := range tokens {
		h.rest.WriteToken(id)
	}
	chain := prefix.Join(&h.memory, 0, &h.front, &h.rest)

	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.workers) == 0 {
		r.routed.WithLabelValues("none").Inc()
		return ""
	}
	caches, cached := make([]*prefix.Server, len(r.workers)), make([]int32, len(r.workers))
	for i, w := range r.workers {
		caches[i] = w.cache
	}
	r.index.Match(chain, caches, cached)
	best, least := 0, math.Inf(1)
	for i, w := range r.workers {
		cost := w.backlog(now) + rereadWeight*float64(len(tokens)-int(cached[i]))
		if cost < least || cost == least && w.at.Before(r.workers[best].at) {
			best, least = i, cost
		}
	}
	w := r.workers[best]
	result := "load"
	if cached[best] > 0 {
		result = "prefix"
	}
	r.routed.WithLabelValues(result).Inc()
	w.waiting, w.at = w.backlog(now)+float64(len(tokens)-int(cached[best])), now
	r.index.Add(w.cache, chain)
	return w.address
}

func (w *worker) backlog(now time.Time) float64 {
	return max(0, w.waiting-readRate*now.Sub(w.at).Seconds())
}

func (r *Router) set(addresses []string) {
	addresses = slices.Compact(slices.Sorted(slices.Values(addresses)))
	addresses = addresses[:min(len(addresses), maxWorkers)]
	r.mu.Lock()
	defer r.mu.Unlock()
	var workers []*worker
	for _, address := range addresses {
		if i, ok := slices.BinarySearchFunc(r.workers, address,
			func(w *worker, a string) int { return cmp.Compare(w.address, a) }); ok {
			workers = append(workers, r.workers[i])
			continue
		}
		w := &worker{address: address, cache: r.index.Server(identity(address))}
		w.cache.SetCapacity(r.cfg.CacheTokens)
		workers = append(workers, w)
	}
	for _, w := range r.workers {
		if !slices.Contains(workers, w) {
			r.index.Release(w.cache)
		}
	}
	r.workers = workers
}

func identity(address string) netip.AddrPort {
	sum := sha256.Sum256([]byte(address))
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(sum[:16])), 1)
}

// Run resolves the workers' DNS name until ctx ends.
func (r *Router) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := r.index.Run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	if r.name != "" {
		group.Go(func() error { r.resolve(ctx); return nil })
	}
	return group.Wait()
}

func (r *Router) resolve(ctx context.Context) {
	tick := time.NewTicker(lookupEvery)
	defer tick.Stop()
	failing := false
	for {
		err := r.lookup(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			r.cfg.Log.Warn("the workers' name was not resolved; the workers of the last lookup stay", "name", r.name,
				"error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookup updates the workers from DNS. A name without addresses means that no worker is ready.
func (r *Router) lookup(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, lookupEvery)
	defer cancel()
	found, err := r.cfg.Lookup(limited, r.name)
	if missing := (*net.DNSError)(nil); err != nil && !(errors.As(err, &missing) && missing.IsNotFound) {
		return err
	}
	addresses := slices.Clone(r.cfg.Workers)
	for _, a := range found {
		addresses = append(addresses, netip.AddrPortFrom(a.Unmap(), r.port).String())
	}
	r.set(addresses)
	return nil
}
