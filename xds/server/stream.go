package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
)

// stream is one connected proxy.
type stream struct {
	server  *Server
	wire    wire
	gateway string
	still   func() error // whether it may go on; nil: it may
	profile string
	node    *corev3.Node
	since   time.Time
	cursor  *cache.Cursor
	end     context.CancelCauseFunc // ends it; the first cause counts

	mu      sync.Mutex
	machine *publish.Stream
	closed  bool
	heir    bool               // what an earlier stream of this proxy said is still reported
	news    uint64             // of the rejections that were told
	sent    map[string]sending // by nonce: what is timed
	waits   []target
}

// serve is one stream from its first message to its end.
func (s *Server) serve(ctx context.Context, w wire) error {
	first, err := w.receive()
	if err != nil {
		return ended(err)
	}
	gateway, still, err := s.config.Authorize(ctx, first.node)
	if err != nil {
		s.config.Log.Warn("proxy refused", "node", first.node.GetId(), "error", err)
		return status.Error(codes.PermissionDenied, err.Error())
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	profile := first.node.GetMetadata().GetFields()[bootstrap.ProfileKey].GetStringValue()
	st := &stream{
		server: s, wire: w, gateway: gateway, still: still, profile: profile, node: first.node, since: s.config.Now(),
		cursor: s.config.Cache.Open(gateway, profile), end: end, sent: map[string]sending{},
	}
	c := s.config.Publish
	c.StateOfTheWorld = w.stateOfTheWorld()
	st.machine = publish.New(st.cursor, c)
	s.add(st)
	defer s.remove(st)
	st.recheck() // what changed before it was one of those that Recheck asks
	select {
	case <-st.cursor.Ready():
	case <-ctx.Done():
		return ended(context.Cause(ctx))
	}
	// A proxy that waited here for the first sync is no different from one that comes now: what it has is not sent again.
	st.cursor.Skip()
	return st.run(ctx, first)
}

var errStopped = status.Error(codes.Unavailable, "the control plane is stopping")

// run decides and sends until the stream ends. It selects from few channels, and from none that streams share: a change
// that a thousand of them wait for costs mostly their waking up.
func (st *stream) run(ctx context.Context, first request) error {
	st.handle(first)
	go st.receive()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wake, err := st.flush()
		if err != nil {
			return ended(err)
		}
		timer.Stop()
		if !wake.IsZero() {
			timer.Reset(wake.Sub(st.server.config.Now()))
		}
		select {
		case <-st.cursor.Wake(): // the receiver pokes it too
		case <-timer.C:
		case <-ctx.Done():
			return ended(context.Cause(ctx))
		}
	}
}

// receive ends with the stream: its Recv then fails.
func (st *stream) receive() {
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

// handle takes in one message.
func (st *stream) handle(r request) {
	t, ok := resource.TypeOf(r.url)
	if !ok {
		st.server.config.Log.Debug("a type that is not served", "type", r.url, "node", st.node.GetId())
		return
	}
	now := st.server.config.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return
	}
	if r.delta != nil {
		st.machine.Handle(publish.Request{
			Type: t, Subscribe: r.delta.names(requestSubscribe), Unsubscribe: r.delta.names(requestUnsubscribe),
			Initial: r.delta.initial(), Nonce: r.nonce, Error: r.nack,
		}, now)
	} else {
		st.machine.HandleState(publish.StateRequest{
			Type: t, Names: r.state.GetResourceNames(), Version: r.state.GetVersionInfo(), Nonce: r.nonce, Error: r.nack,
		}, now)
	}
	if r.nonce != "" {
		st.finish(t, r, now)
		st.tell()
		st.checkWaits()
	}
}

// flush sends what may be sent now, and says when to look again although nothing happens.
func (st *stream) flush() (wake time.Time, err error) {
	now := st.server.config.Now()
	st.mu.Lock()
	responses := st.machine.Flush(now)
	wake = st.machine.Wake()
	for _, r := range responses {
		st.begin(r)
	}
	st.tell() // a new version may have ended a rejection
	st.mu.Unlock()
	for _, r := range responses {
		size, err := st.wire.send(r)
		if err != nil {
			return wake, err
		}
		st.server.metrics.sent(r, size)
	}
	return wake, nil
}

// ended is the stream's end without what is ordinary about it.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}
