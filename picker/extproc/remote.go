package extproc

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/penstock-project/penstock/picker/dial"
)

const (
	connectTimeout = 500 * time.Millisecond
	// turnTimeout bounds how long Ask waits for one address while another one is left.
	turnTimeout = 700 * time.Millisecond
	// answerTimeout bounds Ask. It is below Envoy's 2 s, so that the request can still be answered.
	answerTimeout = 1700 * time.Millisecond
	maxMessage    = 1 << 20 // in bytes
)

// pings detect, during open calls, that a remote picker is frozen or disconnected. A grpc-go server
// with default settings may close a connection with so many pings; the client then pings less.
var pings = keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 2 * time.Second}

// RemoteConfig locates a remote picker.
type RemoteConfig struct {
	Addrs []dial.Address // tried in order
	TLS   dial.TLS       // for addresses without Cleartext
	Names Names
	Pool  string // pool to name to a remote picker with several pools, or ""
}

// Remote is the client side of the protocol: it forwards a gateway's request to another picker.
type Remote struct {
	peers []*peer
	names Names
	pool  string
	users atomic.Int64 // open calls, plus one until Close

	decoding sync.Mutex
}

type peer struct {
	*grpc.ClientConn
	outlier outlier
	returns atomic.Bool
}

// ErrClosed is the error of Ask after Close.
var ErrClosed = errors.New("the connections to this picker were closed")

var errLate = errors.New("no answer in time")

// NewRemote returns a Remote. It connects at the first Ask. The caller closes it.
func NewRemote(c RemoteConfig) (*Remote, error) {
	r := &Remote{names: c.Names.WithDefaults(), pool: c.Pool}
	r.users.Store(1)
	for _, addr := range c.Addrs {
		conn, err := dial.Connect(addr, c.TLS, grpc.WithKeepaliveParams(pings),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec()), grpc.MaxCallRecvMsgSize(maxMessage)))
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("remote picker %s: %w", addr, err)
		}
		r.peers = append(r.peers, &peer{ClientConn: conn})
	}
	return r, nil
}

// Close closes all connections after the open calls. Call it once.
func (r *Remote) Close() { r.release() }

// use keeps the connections open until release. It returns false after Close.
func (r *Remote) use() bool {
	for {
		n := r.users.Load()
		if n == 0 {
			return false
		}
		if r.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (r *Remote) release() {
	if r.users.Add(-1) > 0 {
		return
	}
	for _, p := range r.peers {
		_ = p.Close()
	}
}

// RemoteAnswer is a remote picker's response.
type RemoteAnswer struct {
	Endpoints []string // in order, at most maxEndpoints; empty with Immediate
	Immediate []byte   // encoded ImmediateResponse; nil with a pick
	Status    int
	// Changes are for Answer.Changes.
	Changes Changes
	// Track ends the remote picker's call. End may be called from any goroutine, repeatedly.
	Track Tracker
}

const maxFollowed = 1 << 14

// Crowded reports whether more than maxFollowed calls are open. A further call must then end with
// its gateway's call, before the request's end.
func (r *Remote) Crowded() bool { return r.users.Load() > maxFollowed }

// Open counts the open calls.
func (r *Remote) Open() int64 { return max(r.users.Load()-1, 0) }

// Ask forwards q's headers and body, and returns the remote picker's answer. The body mode is
// always FULL_DUPLEX_STREAMED, which every picker of this protocol supports. If q's body was not
// read, Ask declares that q has no body, so that the remote picker does not wait for one.
//
// A remote picker may extend the timeout once with override_message_timeout. Ask then extends the
// gateway's timeout by a little more. If an address does not answer in time, Ask ejects it for a
// while (outlier) and tries the next address.
func (r *Remote) Ask(ctx context.Context, q *Request) (RemoteAnswer, error) {
	if !r.use() {
		return RemoteAnswer{}, ErrClosed
	}
	deadline := time.Now().Add(answerTimeout)
	var problems []error
	for i, p := range r.peers {
		now := time.Now()
		trial, err := p.outlier.admit(now)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		limit := deadline
		if t := now.Add(turnTimeout); t.Before(limit) &&
			slices.ContainsFunc(r.peers[i+1:], func(p *peer) bool { return p.outlier.open(now) }) {
			limit = t
		}
		a, how, err := r.turn(ctx, p, limit, q)
		p.outlier.done(time.Now(), trial, how, err)
		if err == nil {
			return a, nil
		}
		problems = append(problems, err)
	}
	r.release()
	return RemoteAnswer{}, errors.Join(problems...)
}

func (r *Remote) turn(ctx context.Context, p *peer, limit time.Time, q *Request) (RemoteAnswer, outcome, error) {
	// The gateway's call may end with the pick, but the call to the remote picker continues.
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	timer := time.AfterFunc(time.Until(limit), func() { cancel(errLate) })
	extend := func(wish time.Duration) {
		if wish = min(wish, MaxExtension-answerTimeout); !q.extended && wish > time.Until(limit) {
			timer.Reset(wish)
			q.Extend(wish + answerTimeout)
		}
	}
	err := connected(call, p.ClientConn)
	var a RemoteAnswer
	if err == nil {
		a, err = r.ask(call, func() { cancel(nil) }, p, q, extend)
	}
	if timer.Stop(); err == nil {
		return a, answered, nil
	}
	how := answered
	switch {
	case ctx.Err() != nil:
		how = canceled
	case errors.Is(err, errSlow):
		how = late
	case errors.Is(context.Cause(call), errLate):
		how, err = late, errLate
	}
	cancel(nil)
	return a, how, fmt.Errorf("%s: %w", p.Target(), err)
}

var errSlow = errors.New("not reachable in time")

func connected(ctx context.Context, conn *grpc.ClientConn) error {
	if conn.GetState() == connectivity.Ready {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		case connectivity.TransientFailure:
			return unreachable(ctx, conn)
		case connectivity.Shutdown:
			return errors.New("not reachable")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return errSlow
		}
	}
}

func unreachable(ctx context.Context, conn *grpc.ClientConn) error {
	// If conn is connected now, Process begins a call, which the cancel ends.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx); err != nil {
		return err
	}
	return errors.New("not reachable")
}

// Results of Reason if only one side uses TLS, the TLS handshake fails, or the port is closed.
const (
	ReasonCleartext  = "it answers in cleartext to a TLS handshake"
	ReasonHandshake  = "the TLS handshake fails"
	ReasonClosedPort = "connection refused"
)

var ephemeral = regexp.MustCompile(
	`(read|write) tcp \S+->|rpc error: code = \w+ desc = |connection error: desc = |transport: |passthrough:///`)

// Reason returns why Ask failed, for display. Equal causes have equal texts.
func Reason(err error) string {
	text := err.Error()
	for _, known := range []struct{ part, reason string }{
		{"does not look like a TLS handshake", ReasonCleartext},
		{"handshake failed: EOF", ReasonHandshake + ": it closes the connection"},
		{"connection refused", ReasonClosedPort},
	} {
		if strings.Contains(text, known.part) {
			return known.reason
		}
	}
	return strings.Join(strings.Fields(ephemeral.ReplaceAllString(text, "")), " ")
}

// ask calls one remote picker. After a success, the end of the call calls cancel and r.release.
// After an error, the caller must do both.
func (r *Remote) ask(ctx context.Context, cancel func(), p *peer, q *Request, extend func(time.Duration)) (RemoteAnswer,
	error) {
	if q.TraceParent != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", q.TraceParent)
	}
	if r.pool != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, MetadataKeyPool, r.pool, MetadataKeyImport, "true")
	}
	stream, err := extprocv3.NewExternalProcessorClient(p).Process(ctx)
	if err != nil {
		return RemoteAnswer{}, err
	}
	c := conversation{stream: stream, remote: r, peer: p, q: q, cancel: cancel, extend: extend,
		quit: make(chan struct{}),
		body: returned{sent: q.Body, size: q.Body.Len(), take: q.takeBody}}
	a, err := c.converse()
	if err != nil {
		return a, err
	}
	track := &remoteTracker{stream: stream, cancel: cancel, remote: r}
	if a.Immediate != nil {
		track.End()
		return a, nil
	}
	a.Track = track
	return a, nil
}
