package app

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/picker/extproc"
)

// stopping ends a process without losing requests. First /readyz fails, then picks end, then
// everything else.
type stopping struct {
	leaving  atomic.Bool
	picks    context.Context
	endPicks context.CancelFunc
	servers  sync.WaitGroup
	calls    atomic.Int64
}

func newStopping() *stopping {
	s := &stopping{}
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

// servePicks completes the picks in flight after ctx ends or EndPicks is called. Then it ends the
// streams that last as long as their Envoy, such as access logs.
func (a *App) servePicks(ctx context.Context, l net.Listener, options []grpc.ServerOption,
	register func(grpc.ServiceRegistrar)) error {
	s := a.stopping
	s.servers.Add(1)
	defer s.servers.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.picks, cancel)()
	return serveGRPC(ctx, l, func() { s.await(a.drain) }, append(options, grpc.ChainStreamInterceptor(s.count)),
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
