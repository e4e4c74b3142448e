package app

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/xds/admission"
)

// stopping ends a process without losing requests: first /readyz fails, then picks end, then the
// rest.
type stopping struct {
	leaving  atomic.Bool
	picks    context.Context
	endPicks context.CancelFunc
	servers  sync.WaitGroup
	calls    atomic.Int64
	most     time.Duration // how long picks in flight may take; set before endPicks
}

func newStopping(most time.Duration) *stopping {
	s := &stopping{most: most}
	s.picks, s.endPicks = context.WithCancel(context.Background())
	return s
}

// Leave makes /readyz fail. The process continues to serve.
func (a *App) Leave() { a.stopping.leaving.Store(true) }

// EndPicks makes the picker accept no more calls. It returns when the calls in flight have ended,
// or after Config.StopTimeout.
func (a *App) EndPicks() {
	a.Leave()
	a.picker.Leave()
	a.stopping.endPicks()
	a.stopping.servers.Wait()
}

// Yield ends picks when the program is replaced in place. /readyz and health checks still succeed,
// because gateways wait for the new program. Calls in flight end after `most` at the latest.
func (a *App) Yield(most time.Duration) {
	a.stopping.most = most
	a.stopping.endPicks()
	a.stopping.servers.Wait()
}

// Unwatched waits until no request is watched for a revoked permission (revoke: Immediately), or
// ctx ends. It returns the number of watched requests, which Envoy ends when this program ends.
func (a *App) Unwatched(ctx context.Context) int {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		n := a.open.Count()
		if n == 0 {
			return 0
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return n
		}
	}
}

const (
	// answerTime is how long gRPC may take to write answers after their handlers have returned.
	answerTime = 20 * time.Millisecond
	endTimeout = 250 * time.Millisecond
)

// servePicks serves until ctx ends or EndPicks is called, and then completes the picks in flight.
// Last, it makes Envoys end their long-lived streams, such as access logs, so that no entry is
// lost.
func (a *App) servePicks(ctx context.Context, l net.Listener, options []grpc.ServerOption,
	register func(grpc.ServiceRegistrar)) error {
	s := a.stopping
	s.servers.Add(1)
	defer s.servers.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.picks, cancel)()
	drained := func() {
		s.await(s.most)
		if open, ok := l.(*admission.Listener); ok {
			<-time.After(answerTime)
			open.EndWrites(endTimeout)
		}
	}
	return serveGRPC(ctx, l, drained, append(options, grpc.ChainStreamInterceptor(s.count)),
		register)
}

func (s *stopping) count(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	if info.FullMethod == "/"+extproc.ServiceName+"/Process" {
		s.calls.Add(1)
		defer s.calls.Add(-1)
	}
	return handler(srv, stream)
}

func (s *stopping) await(most time.Duration) {
	end := time.After(most)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.calls.Load() > 0 {
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}
