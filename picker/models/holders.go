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
	// Lists are read every readAfter while the pool has picks, and at once, readGap apart, for a
	// name that no list has and after a 404. A server without a list is asked again after askAfter.
	readAfter, askAfter, readGap = 5 * time.Second, 10 * time.Second, 250 * time.Millisecond
	// perServer bounds how often a large pool's lists are read: 50 a second.
	perServer = 20 * time.Millisecond
	// maxRead bounds the servers of one reading. They are the servers that were asked least
	// recently.
	maxRead = 64
	// awaitLists bounds how long a request for a name that no list has waits for a reading. A name
	// waits once in forget.
	awaitLists, forget = 400 * time.Millisecond, 30 * time.Second
	// markFor bounds how long a 404 counts at a server whose list cannot be read.
	markFor = time.Minute
	// staleAfter is how long a list counts after the last answer of its server.
	staleAfter = time.Minute
	// Limits of a pool: names of all lists, marks, answers, names that no list has.
	maxListed, maxMarks, maxUnlisted = 16 << 10, 256, 256
)

// Holders finds which servers of one pool lack a model that another one has: by the servers' lists,
// by their 404s, and by what they answer although no list has it.
type Holders struct {
	lister *Lister
	view   atomic.Pointer[view]
	alone  atomic.Bool  // the pool has one server at most: there is nothing to choose
	next   atomic.Int64 // when lists are read again, in Unix nanoseconds

	mu       sync.Mutex
	pool     Pool
	servers  map[netip.AddrPort]*holder
	marks    []mark // 404s, the oldest first
	answers  []mark // of models that a list lacks, or that another server answers with 404
	unlisted map[string]awaited
	began    time.Time     // the last reading
	reading  chan struct{} // closed when it ends; nil: none is open
}

// holder is a server of the pool.
type holder struct {
	asked, good time.Time
	again       time.Time // when it is asked again
	names       []string  // of its list, sorted; nil: it has none
	// strict means that it has answered 404 for a model that its list lacks, and no such request
	// with success.
	strict bool
}

// awaited is a name that no list had when a request named it.
type awaited struct {
	at   time.Time
	done chan struct{} // closed when the lists have been read for it
}

type mark struct {
	server netip.AddrPort
	model  string
	at     time.Time
}

// Holders returns the Holders of a pool without servers.
func (l *Lister) Holders() *Holders {
	return &Holders{lister: l, servers: map[netip.AddrPort]*holder{}, unlisted: map[string]awaited{}}
}

// Set replaces the pool's servers, and how they are called. New servers are asked with the next
// pick.
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

// List returns the models that a server lists, sorted; nil if its list is not known.
func (h *Holders) List(server netip.AddrPort) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if of := h.servers[server]; of != nil {
		return of.names
	}
	return nil
}

// Lacking returns the servers that lack a model; nil if none does, or if no other server has it. It
// has the lists read when it is time to. A request for a name that no list has waits for them.
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

// Known is Lacking by what is known now.
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

// await has the lists read for a name that none of them has, and waits for them.
func (h *Holders) await(ctx context.Context, model string, now time.Time) {
	pause, open, done := h.awaiting(model, now)
	if done == nil && closed(open) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, awaitLists)
	defer cancel()
	if done == nil { // another request waits for the same name
		wait(ctx, open)
		return
	}
	defer close(done)
	if open != nil { // it may have passed the server that has the model now
		wait(ctx, open)
	}
	if pause == 0 { // it was opened for this request
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

// closed reports whether there is nothing to wait for.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return c == nil
	}
}

// wait waits for a channel that closes.
func wait(ctx context.Context, closes <-chan struct{}) {
	select {
	case <-closes:
	case <-ctx.Done():
	}
}

// awaiting returns what a request for a name that no list has waits for: before it has the lists
// read a pause and the reading that is open, or, without done, a reading alone.
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

// NotFound records that a server has answered 404 to a request for a model, and has its list read.
func (h *Holders) NotFound(model string, server netip.AddrPort, now time.Time) {
	if !named(model) {
		return
	}
	h.mu.Lock()
	of := h.servers[server]
	if of == nil || len(h.servers) < 2 {
		h.mu.Unlock()
		return
	}
	h.answers = without(h.answers, server, model)
	var dropped []string
	h.marks, dropped = with(without(h.marks, server, model), mark{server, model, now})
	if of.names != nil && !slices.Contains(of.names, model) {
		of.strict = true
	}
	of.again = time.Time{}
	h.refresh(append(dropped, model)...)
	gap := now.Sub(h.began) >= readGap
	h.mu.Unlock()
	if gap {
		h.read(now)
	} else {
		h.next.Store(now.Add(readGap).UnixNano())
	}
}

// Answered records that a server has served a model. It does nothing for one that is known to have
// it.
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
	of := h.servers[server]
	if of == nil {
		return
	}
	h.marks = without(h.marks, server, model)
	var dropped []string
	h.answers, dropped = with(without(h.answers, server, model), mark{server, model, now})
	if of.strict {
		of.strict = false
		h.rebuild()
		return
	}
	h.refresh(append(dropped, model)...)
}

// with adds to a list, and returns the models of the marks that it drops for that.
func with(list []mark, next mark) (_ []mark, dropped []string) {
	for list = append(list, next); len(list) > maxMarks; list = slices.Delete(list, 0, 1) {
		dropped = append(dropped, list[0].model)
	}
	return list, dropped
}

func without(list []mark, server netip.AddrPort, model string) []mark {
	return slices.DeleteFunc(list, func(m mark) bool { return m.server == server && m.model == model })
}

// read has lists read, unless they are being read, and returns a channel that closes when they are.
func (h *Holders) read(now time.Time) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readLocked(now)
}

// readLocked is read; h.mu is held.
func (h *Holders) readLocked(now time.Time) <-chan struct{} {
	if h.reading != nil {
		return h.reading
	}
	done := make(chan struct{})
	h.reading, h.began = done, now
	servers := slices.DeleteFunc(slices.Clone(h.pool.Servers), func(s Server) bool {
		of := h.servers[s.Addr]
		return of.names == nil && now.Before(of.again)
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

// every is how long after a reading a server is asked again: longer in large pools. h.mu is held.
func (h *Holders) every() time.Duration {
	return max(readAfter, time.Duration(len(h.servers))*perServer)
}

// ask reads lists, and stores each when it arrives: a server that hangs delays no other.
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
			if err == nil && len(list) < maxAnswer { // else there may be more
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
	_ = calls.Wait() // they return no error
}

// store takes the list of a server over; nil: it has not answered with one. A changed list ends the
// server's marks. h.mu is held.
func (h *Holders) store(s Server, names []string, now time.Time) {
	of := h.servers[s.Addr]
	if of == nil {
		return
	}
	changes := h.view.Load() == nil
	if names == nil {
		if of.again = now.Add(askAfter); now.Sub(of.good) > staleAfter {
			changes = changes || of.names != nil
			of.names = nil
		}
	} else {
		changes = h.takeOver(s, of, names, now) || changes
	}
	kept := len(h.marks)
	h.marks = slices.DeleteFunc(h.marks, func(m mark) bool { return now.Sub(m.at) > markFor })
	changes = changes || len(h.marks) < kept
	for _, of := range h.servers {
		if of.again.Before(now) {
			h.next.Store(now.Add(readGap).UnixNano())
			break
		}
	}
	if changes {
		h.rebuild()
	}
}

// takeOver stores a server's list, and reports whether that changes which servers lack a model.
// h.mu is held.
func (h *Holders) takeOver(s Server, of *holder, names []string, now time.Time) (changes bool) {
	of.good, of.again = now, now.Add(h.every())
	slices.Sort(names)
	changed := !slices.Equal(names, of.names)
	of.names, changes = names, changed
	ends := func(m mark) bool {
		read := m.server == s.Addr && !m.at.After(h.began)
		return read && (changed || slices.Contains(names, m.model))
	}
	for _, m := range h.marks {
		if m.server == s.Addr {
			of.strict, changes = of.strict || !slices.Contains(names, m.model), true
		}
	}
	h.marks, h.answers = slices.DeleteFunc(h.marks, ends), slices.DeleteFunc(h.answers, ends)
	return changes
}
