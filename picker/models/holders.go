package models

import (
	"context"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// While a pool has picks, its servers' lists are read every readAfter. After a 404, and for a
	// request that names an unlisted model, they are read at once, but at least readGap after the
	// last reading. A server whose list could not be read is queried again after askAfter.
	readAfter, askAfter, readGap = 5 * time.Second, 10 * time.Second, 250 * time.Millisecond
	// perServer makes readings of large pools rarer: at most 50 lists a second.
	perServer = 20 * time.Millisecond
	maxRead   = 64
	// awaitLists bounds how long a request for an unlisted model waits for a reading. forget is the
	// shortest time between two such readings for the same model.
	awaitLists, forget = 400 * time.Millisecond, 30 * time.Second
	// markFor is how long a 404 counts if the server's list cannot be read.
	markFor                          = time.Minute
	staleAfter                       = time.Minute
	maxListed, maxMarks, maxUnlisted = 16 << 10, 256, 256
)

// Holders finds which servers of one pool lack a model that other servers have.
type Holders struct {
	lister *Lister
	view   atomic.Pointer[view]
	alone  atomic.Bool // at most one server
	next   atomic.Int64

	mu       sync.Mutex
	pool     Pool
	servers  map[netip.AddrPort]*holder
	marks    []mark
	answers  []mark // successes with models that the server does not list, or after another server's 404
	unlisted map[string]awaited
	began    time.Time
	reading  chan struct{} // closed at the end of the current reading; nil without one
}

type holder struct {
	asked, good time.Time
	again       time.Time
	names       []string // the server's list, sorted; nil if unknown
	// strict is set by a 404 for an unlisted model, and cleared by a success with one.
	strict bool
}

type awaited struct {
	at   time.Time
	done chan struct{}
}

type mark struct {
	server netip.AddrPort
	model  string
	at     time.Time
}

// Holders makes the Holders of a pool, without servers until Set.
func (l *Lister) Holders() *Holders {
	return &Holders{lister: l, servers: map[netip.AddrPort]*holder{}, unlisted: map[string]awaited{}}
}

// Set replaces the pool's servers and protocol.
func (h *Holders) Set(p Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pool = p
	next := make(map[netip.AddrPort]*holder, len(p.Servers))
	for _, s := range p.Servers {
		if next[s.Addr] = h.servers[s.Addr]; next[s.Addr] == nil {
			next[s.Addr] = &holder{}
			h.next.Store(0)
		}
	}
	h.servers = next
	h.alone.Store(len(next) < 2)
	gone := func(m mark) bool { return next[m.server] == nil }
	h.marks, h.answers = slices.DeleteFunc(h.marks, gone), slices.DeleteFunc(h.answers, gone)
	h.rebuild()
}

// List returns a server's models, sorted; nil if unknown.
func (h *Holders) List(server netip.AddrPort) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.servers[server]; s != nil {
		return s.names
	}
	return nil
}

// Lacking returns the servers that lack a model, or nil if none or all lack the model. If no list
// has the model, Lacking waits for a reading.
func (h *Holders) Lacking(ctx context.Context, model string, now time.Time) *Lacking {
	if h.alone.Load() {
		return nil
	}
	v, due := h.view.Load(), now.UnixNano() >= h.next.Load()
	switch {
	case v == nil || len(v.listed) > 0 && !v.listed[model]:
		h.await(ctx, model, now)
	case due:
		h.read(now)
	}
	return h.Known(model)
}

// Known is Lacking without the wait.
func (h *Holders) Known(model string) *Lacking {
	v := h.view.Load()
	if v == nil {
		return nil
	}
	if l := v.lacking[model]; l != nil && len(l.has) > 0 && l.Unlisted+l.NotFound > 0 {
		return l
	}
	return nil
}

func (h *Holders) await(ctx context.Context, model string, now time.Time) {
	pause, open, done := h.awaiting(model, now)
	if done == nil && closed(open) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, awaitLists)
	defer cancel()
	if done == nil { // another request already waits for the same model
		wait(ctx, open)
		return
	}
	defer close(done)
	if open != nil { // this reading may have begun before a server loaded the model
		wait(ctx, open)
	}
	if pause == 0 { // this reading began after this request
		return
	}
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		wait(ctx, h.read(time.Now()))
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return c == nil
	}
}

func wait(ctx context.Context, closes <-chan struct{}) {
	select {
	case <-closes:
	case <-ctx.Done():
	}
}

// awaiting returns what a request for an unlisted model waits for: first until open closes, and, if
// pause is not 0, for pause and another reading. At the end it closes done. If done is nil, it only
// waits until open closes.
func (h *Holders) awaiting(model string, now time.Time) (pause time.Duration, open <-chan struct{},
	done chan struct{}) {
	due := now.UnixNano() >= h.next.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	if due {
		open = h.readLocked(now)
	}
	v := h.view.Load()
	if known, ok := h.unlisted[model]; ok && now.Sub(known.at) < forget {
		return 0, known.done, nil
	}
	if len(h.unlisted) >= maxUnlisted {
		for name, known := range h.unlisted {
			if now.Sub(known.at) >= forget {
				delete(h.unlisted, name)
			}
		}
	}
	if len(h.unlisted) >= maxUnlisted || !named(model) {
		return 0, nil, nil
	}
	done = make(chan struct{})
	h.unlisted[model] = awaited{now, done}
	if h.reading != nil {
		open = h.reading
	}
	if due || v == nil && open != nil {
		return 0, open, done
	}
	return readGap - now.Sub(h.began), open, done
}

// NotFound records a server's 404 for a model, and triggers a reading of the server's list.
func (h *Holders) NotFound(model string, server netip.AddrPort, now time.Time) {
	if !named(model) {
		return
	}
	h.mu.Lock()
	s := h.servers[server]
	if s == nil || len(h.servers) < 2 {
		h.mu.Unlock()
		return
	}
	h.answers = without(h.answers, server, model)
	var dropped []string
	h.marks, dropped = with(without(h.marks, server, model), mark{server, model, now})
	if s.names != nil && !slices.Contains(s.names, model) {
		s.strict = true
	}
	s.again = time.Time{}
	h.refresh(append(dropped, model)...)
	gap := now.Sub(h.began) >= readGap
	h.mu.Unlock()
	if gap {
		h.read(now)
	} else {
		h.next.Store(now.Add(readGap).UnixNano())
	}
}

// Answered records that a server served a model.
func (h *Holders) Answered(model string, server netip.AddrPort, now time.Time) {
	v := h.view.Load()
	if v == nil {
		return
	}
	l := v.lacking[model]
	if l == nil || l.has[server] {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[server]
	if s == nil {
		return
	}
	h.marks = without(h.marks, server, model)
	var dropped []string
	h.answers, dropped = with(without(h.answers, server, model), mark{server, model, now})
	if s.strict {
		s.strict = false
		h.rebuild()
		return
	}
	h.refresh(append(dropped, model)...)
}

func with(list []mark, next mark) (_ []mark, dropped []string) {
	for list = append(list, next); len(list) > maxMarks; list = slices.Delete(list, 0, 1) {
		dropped = append(dropped, list[0].model)
	}
	return list, dropped
}

func without(list []mark, server netip.AddrPort, model string) []mark {
	return slices.DeleteFunc(list, func(m mark) bool { return m.server == server && m.model == model })
}

func (h *Holders) read(now time.Time) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readLocked(now)
}

// The caller holds h.mu.
func (h *Holders) readLocked(now time.Time) <-chan struct{} {
	if h.reading != nil {
		return h.reading
	}
	done := make(chan struct{})
	h.reading, h.began = done, now
	servers := slices.DeleteFunc(slices.Clone(h.pool.Servers), func(s Server) bool {
		known := h.servers[s.Addr]
		return known.names == nil && now.Before(known.again)
	})
	slices.SortStableFunc(servers, func(a, b Server) int {
		return h.servers[a.Addr].asked.Compare(h.servers[b.Addr].asked)
	})
	slices.SortStableFunc(servers, func(a, b Server) int {
		return h.servers[a.Addr].again.Compare(h.servers[b.Addr].again)
	})
	servers = servers[:min(len(servers), maxRead)]
	for _, s := range servers {
		h.servers[s.Addr].asked = now
	}
	h.next.Store(now.Add(h.every()).UnixNano())
	p := h.pool
	go h.ask(p, servers, done)
	return done
}

// The caller holds h.mu.
func (h *Holders) every() time.Duration {
	return max(readAfter, time.Duration(len(h.servers))*perServer)
}

// ask queries servers for their lists, and stores each list when it arrives: a server that hangs
// does not delay other lists.
func (h *Holders) ask(p Pool, servers []Server, done chan struct{}) {
	defer func() {
		if v := recover(); v != nil {
			h.lister.panicked("lists of models of pool "+p.Name, v, debug.Stack())
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reading = nil
		close(done)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	var calls errgroup.Group
	calls.SetLimit(maxRead / 4)
	for _, s := range servers {
		calls.Go(func() error {
			list, err := h.lister.ask(ctx, p.Protocol, s.Addr, &p)
			var names []string
			if err == nil && len(list) < maxAnswer { // otherwise the list may have been cut at maxAnswer
				for _, m := range list {
					names = append(names, m.ID)
				}
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.store(s, names, time.Now())
			return nil
		})
	}
	_ = calls.Wait()
}

// store stores a server's list; names is nil if the server sent no valid answer. The caller holds
// h.mu.
func (h *Holders) store(s Server, names []string, now time.Time) {
	known := h.servers[s.Addr]
	if known == nil {
		return
	}
	changes := h.view.Load() == nil
	if names == nil {
		if known.again = now.Add(askAfter); now.Sub(known.good) > staleAfter {
			changes = changes || known.names != nil
			known.names = nil
		}
	} else {
		changes = h.takeOver(s, known, names, now) || changes
	}
	kept := len(h.marks)
	h.marks = slices.DeleteFunc(h.marks, func(m mark) bool { return now.Sub(m.at) > markFor })
	changes = changes || len(h.marks) < kept
	for _, other := range h.servers {
		if other.again.Before(now) {
			h.next.Store(now.Add(readGap).UnixNano())
			break
		}
	}
	if changes {
		h.rebuild()
	}
}

// takeOver replaces a server's list, and drops the 404s and successes that the new list supersedes.
// It returns whether the servers that lack a model may have changed. The caller holds h.mu.
func (h *Holders) takeOver(s Server, known *holder, names []string, now time.Time) (changes bool) {
	known.good, known.again = now, now.Add(h.every())
	slices.Sort(names)
	changed := !slices.Equal(names, known.names)
	known.names, changes = names, changed
	ends := func(m mark) bool {
		read := m.server == s.Addr && !m.at.After(h.began)
		return read && (changed || slices.Contains(names, m.model))
	}
	for _, m := range h.marks {
		if m.server == s.Addr {
			known.strict, changes = known.strict || !slices.Contains(names, m.model), true
		}
	}
	h.marks, h.answers = slices.DeleteFunc(h.marks, ends), slices.DeleteFunc(h.answers, ends)
	return changes
}
