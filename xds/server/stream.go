package server

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
)

type stream struct {
	server  *Server
	wire    wire
	peer    string
	proxy   Proxy
	gateway string
	profile string
	node    *corev3.Node
	since   time.Time
	cursor  *cache.Cursor
	end     context.CancelCauseFunc

	mu        sync.Mutex
	machine   *publish.Stream
	closed    bool
	inherited []publish.Rejection
	reported  uint64
	sent      map[string]sending // responses in flight, by nonce
	waits     []target
	checkAt   time.Time
}

func (s *Server) serve(ctx context.Context, w wire) error {
	proxy, gateway, first, err := s.authenticate(ctx, w)
	if err != nil {
		return ended(err)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	st := &stream{
		server: s, wire: w, peer: peerAddress(ctx), proxy: proxy, gateway: gateway, profile: first.profile,
		node: first.node, since: s.config.Now(),
		cursor: s.config.Cache.Open(gateway, first.profile), end: end, sent: map[string]sending{},
	}
	c := s.config.Publish
	c.StateOfTheWorld = w.stateOfTheWorld()
	st.machine = publish.New(st.cursor, c)
	s.add(st)
	defer s.remove(st)
	st.recheck() // Server.Recheck misses a stream that is not added yet
	if err := st.ready(ctx); err != nil {
		return ended(err)
	}
	// The proxy gets current resources, not earlier changes.
	st.cursor.Skip()
	return st.run(ctx, first)
}

func (st *stream) ready(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next := st.checkDue(); !next.IsZero() {
			timer.Reset(next.Sub(st.server.config.Now()))
		}
		select {
		case <-st.cursor.Ready():
			return nil
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (st *stream) waiting() bool {
	select {
	case <-st.cursor.Ready():
		return false
	default:
		return true
	}
}

var errStopped = status.Error(codes.Unavailable, "the control plane is stopping")

// run selects from few channels and shares none with other streams, because scheduling goroutines
// is the main cost of a change for a thousand streams.
func (st *stream) run(ctx context.Context, first request) error {
	st.handle(first)
	go st.receive()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		flushAt, err := st.flush()
		if err != nil {
			return ended(err)
		}
		if next := st.checkDue(); !next.IsZero() && (flushAt.IsZero() || next.Before(flushAt)) {
			flushAt = next
		}
		timer.Stop()
		if !flushAt.IsZero() {
			timer.Reset(flushAt.Sub(st.server.config.Now()))
		}
		select {
		case <-st.cursor.Signal(): // receive also signals, by Poke
		case <-timer.C:
		case <-ctx.Done():
			return ended(context.Cause(ctx))
		}
	}
}

// A panic in receive ends only this stream.
func (st *stream) receive() {
	defer func() {
		if v := recover(); v != nil {
			st.server.config.OnPanic(st.gateway+" "+st.node.GetId(), v, debug.Stack())
			st.end(errUnhandled)
		}
	}()
	for {
		r, err := st.wire.receive()
		if err != nil {
			st.end(err)
			return
		}
		st.handle(r)
		st.cursor.Poke()
	}
}

func (st *stream) handle(r request) {
	t, ok := resource.TypeOf(r.url)
	if !ok {
		st.server.config.Log.Debug("request for a type that is not served", "type", clip(r.url, maxName), "node",
			st.node.GetId())
		return
	}
	now := st.server.config.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return
	}
	fault(r)
	if r.delta != nil {
		st.machine.Handle(publish.Request{
			Type: t, Subscribe: r.delta.names(requestSubscribe), Unsubscribe: r.delta.names(requestUnsubscribe),
			Initial: r.delta.initial(), Nonce: r.nonce, Error: r.nack,
		}, now)
	} else {
		st.machine.HandleState(publish.StateRequest{
			Type: t, Names: r.state.GetResourceNames(), Version: r.state.GetVersionInfo(), Nonce: r.nonce,
			Error: r.nack,
		}, now)
	}
	if r.nonce != "" {
		st.finish(t, r, now)
		st.reportChanged()
		st.checkWaits()
	}
}

func (st *stream) flush() (flushAt time.Time, err error) {
	responses, flushAt := st.next()
	for _, r := range responses {
		size, err := st.wire.send(r)
		if err != nil {
			return flushAt, err
		}
		st.server.metrics.sent(r, size)
	}
	return flushAt, nil
}

func (st *stream) next() (responses []*publish.Response, flushAt time.Time) {
	now := st.server.config.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	responses = st.machine.Flush(now)
	flushAt = st.machine.NextFlush()
	for _, r := range responses {
		st.begin(r)
	}
	st.reportChanged()
	return responses, flushAt
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}
