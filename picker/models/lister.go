package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/picker/upstream"
)

const (
	// A pool's servers are queried at most every refreshAfter, or every retryAfter if no server
	// answered.
	refreshAfter, retryAfter = 30 * time.Second, 2 * time.Second
	// keepFor is how long a server's last answer counts while the server does not answer.
	keepFor = 10 * time.Minute
	// askTimeout is below Envoy's timeout of a pick (2 s).
	askTimeout = time.Second
	// maxAsked bounds the servers that are queried in one round, and maxCalls the concurrent calls
	// for all pools.
	maxAsked, maxCalls = 8, 64
	// The Lister stores the answers for at most maxParts parts of a pool. A further part may
	// replace only a part that no request has used for refreshAfter.
	maxParts = 16
	// via marks calls of other clusters' gateways (translator/envoy).
	via = "1.1 penstock"
)

// Config configures a Lister.
type Config struct {
	// Transport is for calls over HTTP/1.1 in cleartext. The default keeps no connections.
	Transport http.RoundTripper
	// Never returns why an address must not be called, or ""; may be nil.
	Never func(netip.Addr) string
	// OnPanic is called if a reading of Holders panics; may be nil.
	OnPanic func(pool string, value any, stack []byte)
}

// Lister queries the models of all pools' servers, and keeps the answers. Its methods are safe for
// concurrent use.
type Lister struct {
	transport http.RoundTripper
	never     func(netip.Addr) string
	panicked  func(pool string, value any, stack []byte)
	calls     chan struct{}

	mu    sync.Mutex
	pools map[string]map[part]*pool
}

type part struct{ subset, host, path string }

// Pool is a pool, or a part of it, to query for models.
type Pool struct {
	Name    string
	Servers []Server
	// Subset names the part of the pool with these Servers; "" means the whole pool.
	Subset string
	// Host and Path are the request's if Servers are gateways of another cluster, else "".
	Host, Path string
	// Names are further model names that clients may use. The pool's picker replaces these by
	// models of the servers.
	Names    []string
	Protocol upstream.Protocol
	// Picker returns the list, in JSON, of the picker of the pool in another cluster; may be nil.
	Picker func(context.Context) ([]byte, error)
}

func (p *Pool) servers() []Server {
	if p.Picker == nil {
		return p.Servers
	}
	return append([]Server{{}}, p.Servers...)
}

// Server is a model server of a Pool.
type Server struct {
	Addr      netip.AddrPort
	Adapters  []string
	Cleartext bool // without TLS, whatever Pool.Protocol is
}

type pool struct {
	used    time.Time
	mu      sync.Mutex
	next    time.Time
	asking  chan struct{}
	answers map[netip.AddrPort]answer
}

type answer struct {
	at     time.Time
	good   time.Time
	models []Model
}

// New returns a Lister without answers.
func New(c Config) *Lister {
	if c.Transport == nil {
		c.Transport = upstream.Protocol{}.Transport(0)
	}
	if c.Never == nil {
		c.Never = func(netip.Addr) string { return "" }
	}
	if c.OnPanic == nil {
		c.OnPanic = func(string, any, []byte) {}
	}
	return &Lister{
		transport: c.Transport, never: c.Never, panicked: c.OnPanic,
		calls: make(chan struct{}, maxCalls), pools: map[string]map[part]*pool{},
	}
}

// Forget drops the answers of a removed pool.
func (l *Lister) Forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pools, name)
}

// List returns the models of all pools. It waits up to askTimeout for queries that are due.
func (l *Lister) List(ctx context.Context, pools []Pool) []Model {
	found := make([][]Model, len(pools))
	var asked errgroup.Group
	for i := range pools {
		asked.Go(func() error {
			found[i] = l.models(ctx, &pools[i])
			return nil
		})
	}
	_ = asked.Wait()
	return slices.Concat(found...)
}

func (l *Lister) models(ctx context.Context, p *Pool) []Model {
	now := time.Now()
	known := l.pool(p, now)
	if known == nil {
		return nil
	}
	known.mu.Lock()
	wait, lead := known.asking, false
	if wait == nil && !now.Before(known.next) {
		wait, lead = make(chan struct{}), true
		known.asking = wait
	}
	empty := !slices.ContainsFunc(p.servers(), func(s Server) bool { return len(known.answers[s.Addr].models) > 0 })
	known.mu.Unlock()
	switch {
	case lead:
		l.refresh(ctx, known, p, wait)
	case wait != nil && empty:
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	return known.merge(p)
}

func (l *Lister) pool(p *Pool, now time.Time) *pool {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts := l.pools[p.Name]
	if parts == nil {
		parts = map[part]*pool{}
		l.pools[p.Name] = parts
	}
	key := part{p.Subset, p.Host, p.Path}
	known := parts[key]
	if known == nil {
		if len(parts) >= maxParts && !dropUnused(parts, now) {
			return nil
		}
		known = &pool{answers: map[netip.AddrPort]answer{}}
		parts[key] = known
	}
	known.used = now
	return known
}

func dropUnused(parts map[part]*pool, now time.Time) bool {
	var oldest part
	var at time.Time
	for key, known := range parts {
		if at.IsZero() || known.used.Before(at) {
			oldest, at = key, known.used
		}
	}
	if now.Sub(at) < refreshAfter {
		return false
	}
	delete(parts, oldest)
	return true
}

func (l *Lister) refresh(ctx context.Context, known *pool, p *Pool, done chan struct{}) {
	defer func() {
		known.mu.Lock()
		defer known.mu.Unlock()
		known.asking = nil
		close(done)
	}()
	// Other requests also use the answers, so the calls continue after the end of this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	by := p.Protocol
	if config := by.TLS; config != nil && config.ServerName == "" && p.Host != "" {
		by.TLS = config.Clone() // the gateway selects its certificate by host
		by.TLS.ServerName, _, _ = strings.Cut(p.Host, ":")
	}
	servers := known.due(p)
	answers := make([]answer, len(servers))
	var calls errgroup.Group
	for i, s := range servers {
		calls.Go(func() error {
			by := by
			if s.Cleartext {
				by = by.WithoutTLS()
			}
			models, err := l.ask(ctx, by, s.Addr, p)
			if err == nil {
				answers[i] = answer{good: time.Now(), models: models}
			}
			return nil
		})
	}
	_ = calls.Wait()
	known.store(p, servers, answers)
}

func (known *pool) due(p *Pool) []Server {
	known.mu.Lock()
	defer known.mu.Unlock()
	servers := slices.Clone(p.servers())
	slices.SortStableFunc(servers, func(a, b Server) int {
		return known.answers[a.Addr].at.Compare(known.answers[b.Addr].at)
	})
	return servers[:min(len(servers), maxAsked)]
}

func (known *pool) store(p *Pool, servers []Server, answers []answer) {
	known.mu.Lock()
	defer known.mu.Unlock()
	now := time.Now()
	any := false
	for i, s := range servers {
		a := answers[i]
		if a.good.IsZero() {
			a = known.answers[s.Addr]
		} else {
			any = true
		}
		a.at = now
		known.answers[s.Addr] = a
	}
	if known.next = now.Add(refreshAfter); !any {
		known.next = now.Add(retryAfter)
	}
	members := make(map[netip.AddrPort]bool, len(p.Servers))
	for _, s := range p.servers() {
		members[s.Addr] = true
	}
	total := 0
	for s, a := range known.answers {
		switch total += len(a.models); {
		case !members[s]:
			delete(known.answers, s)
		case now.Sub(a.good) > keepFor, total > maxPool:
			known.answers[s] = answer{at: a.at}
		}
	}
}

func (known *pool) merge(p *Pool) (list []Model) {
	known.mu.Lock()
	defer known.mu.Unlock()
	has := map[string]bool{}
	for _, s := range p.servers() {
		for _, m := range known.answers[s.Addr].models {
			if !has[m.ID] {
				has[m.ID] = true
				list = append(list, m)
			}
		}
	}
	bases := slices.DeleteFunc(slices.Clone(list), func(m Model) bool { return m.Parent != "" })
	for _, s := range p.Servers {
		for _, name := range s.Adapters {
			if has[name] || !named(name) || len(list) >= maxList {
				continue
			}
			has[name] = true
			adapter := Model{ID: name, Object: "model"}
			if len(bases) == 1 { // otherwise the adapter's base is unknown
				adapter.Parent, adapter.Created, adapter.OwnedBy = bases[0].ID, bases[0].Created, bases[0].OwnedBy
			}
			list = append(list, adapter)
		}
	}
	if len(list) == 0 {
		return nil // no server has answered, so perhaps none has the models of Names
	}
	for _, name := range p.Names {
		if !has[name] && named(name) && len(list) < maxPool {
			has[name] = true
			list = append(list, Model{ID: name, Object: "model"})
		}
	}
	return list
}

var errCalls = errors.New("too many calls for lists of models are open")

func (l *Lister) ask(ctx context.Context, by upstream.Protocol, server netip.AddrPort, p *Pool) ([]Model, error) {
	if kind := l.never(server.Addr()); kind != "" && server.IsValid() {
		return nil, fmt.Errorf("%s: %s is never called", server, kind)
	}
	select {
	case l.calls <- struct{}{}:
		defer func() { <-l.calls }()
	default:
		return nil, errCalls
	}
	if !server.IsValid() {
		body, err := p.Picker(ctx)
		if err != nil {
			return nil, err
		}
		return parse(body, maxAnswer)
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodGet, by.URL(server)+cmp.Or(p.Path, "/v1/models"), nil)
	if err != nil {
		return nil, err
	}
	if p.Host != "" {
		call.Host = p.Host
		call.Header.Set("Via", via)
	}
	transport := l.transport
	if by.TLS != nil || by.HTTP2 {
		// Keeps no idle connection: lists are queried only twice a minute.
		transport = by.Transport(0)
	}
	response, err := transport.RoundTrip(call)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxBytes {
		return nil, fmt.Errorf("the list has more than %d bytes", maxBytes)
	}
	if p.Host != "" {
		return parse(body, maxList)
	}
	return parse(body, maxAnswer)
}
