package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// ErrRejected is the error of WaitAcked after a NACK.
var ErrRejected = errors.New("rejected by a proxy")

type wait struct {
	ref     resource.Ref
	version string

	mu      sync.Mutex
	left    int // streams without the version, plus one until all streams are added
	acked   int
	settled bool
	err     error
	done    chan struct{}
}

type target struct {
	wait *wait
	slot *cache.Slot
	// after is a log position. An accepted version after it counts, too.
	after uint64
}

// WaitAcked waits until every connected proxy of a gateway, at least one, has accepted a version or
// a later version. An empty version means the current version. The error is ErrRejected if a proxy
// rejects the version.
func (s *Server) WaitAcked(ctx context.Context, gateway string, ref resource.Ref, version string) error {
	if version == "" {
		version, _ = s.config.Cache.Current(gateway, ref)
	}
	w := &wait{ref: ref, version: version, left: 1, done: make(chan struct{})}
	g := s.addWait(gateway, w)
	w.settle(0, nil)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(g.waits, w)
		for st := range g.streams {
			st.dropWait(w)
		}
		s.dropUnused(gateway, g)
	}()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("%s of gateway %s is not accepted by all of its proxies: %w", ref, gateway, ctx.Err())
	}
}

func (s *Server) addWait(name string, w *wait) *gateway {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gateway(name)
	g.waits[w] = struct{}{}
	for st := range g.streams {
		st.await(w)
	}
	return g
}

func (w *wait) settle(acked int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left--
	w.acked += acked
	if !w.settled && (err != nil || w.left == 0 && w.acked > 0) {
		w.settled, w.err = true, err
		close(w.done)
	}
}

func (st *stream) await(w *wait) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return
	}
	tgt := target{wait: w, slot: st.cursor.Acquire(w.ref.Type, w.ref.Name)}
	if e := tgt.slot.Current(); e != nil {
		tgt.after = e.Seq
	}
	w.mu.Lock()
	w.left++
	w.mu.Unlock()
	st.waits = append(st.waits, tgt)
	st.checkWaits()
}

// The caller holds st.mu.
func (st *stream) checkWaits() {
	st.waits = slices.DeleteFunc(st.waits, func(tgt target) bool {
		e := st.machine.Accepted(tgt.slot)
		accepted := e != nil && (e.Version == tgt.wait.version || e.Seq > tgt.after)
		rejected, detail := st.machine.Rejected(tgt.slot)
		switch {
		case accepted:
			tgt.wait.settle(1, nil)
		case rejected != "" && rejected == tgt.wait.version:
			tgt.wait.settle(0, fmt.Errorf("%w (%s): %s: %s", ErrRejected, st.node.GetId(), tgt.slot.Ref, detail))
		default:
			return false
		}
		st.cursor.Release(tgt.slot)
		return true
	})
}

func (st *stream) dropWait(w *wait) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.waits = slices.DeleteFunc(st.waits, func(tgt target) bool {
		if tgt.wait == w {
			st.cursor.Release(tgt.slot)
		}
		return tgt.wait == w
	})
}

func (st *stream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	for _, tgt := range st.waits {
		st.cursor.Release(tgt.slot)
		tgt.wait.settle(0, nil)
	}
	st.waits = nil
	for _, snd := range st.sent {
		snd.abandon()
	}
	st.machine.Close()
	if st.server.config.Reports != nil {
		st.server.rejections.expireAt(st, st.server.config.Now().Add(st.server.config.Absence))
	}
}
