package extproc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Watched describes a request that the access check of its route has admitted (package authz).
type Watched struct {
	Gateway  string // whose key authenticates the call, or ""
	Grant    string
	Policies []string // of the route
	Pools    []string // that the route may reach
}

// Watches ends requests after their keys no longer grant access.
type Watches interface {
	// Watch watches a request until the caller calls done. It may call end at most once, perhaps
	// before it returns, but not after done has returned. An error denies the request.
	Watch(ctx context.Context, w Watched, end func(*Answer)) (done func(), err error)
}

type unwatched struct{}

func (unwatched) Watch(context.Context, Watched, func(*Answer)) (func(), error) {
	return nil, status.Error(codes.Unavailable, "this process watches no requests")
}

// watch keeps the call about an open request open until the request ends. If access ends, it sends
// an immediate response: Envoy then ends the request, even if the server's response has begun.
func (s *Server) watch(stream grpc.ServerStream, c *call) error {
	m := newMessage()
	err := stream.RecvMsg(m)
	w := watchedCall{stream: stream, anthropic: err == nil && ofAnthropic(m)}
	m.Free()
	if err != nil {
		return nil
	}
	done, err := s.Watches.Watch(stream.Context(), Watched{Gateway: s.Gateway(stream.Context()), Grant: c.grant,
		Policies: c.policies, Pools: c.pools}, w.end)
	if err != nil {
		return err // Envoy calls another process, or answers 503
	}
	defer done()
	for answer := passRequestHeaders; ; {
		if answer != nil && !w.send(answer) {
			return nil
		}
		m := newMessage()
		if err := stream.RecvMsg(m); err != nil {
			m.Free()
			return nil
		}
		answer = passUpload(m)
		m.Free()
	}
}

// watchedCall serializes the answers, because a stream allows one sender at a time.
type watchedCall struct {
	stream    grpc.ServerStream
	anthropic bool

	mu    sync.Mutex
	ended bool
}

func (w *watchedCall) end(a *Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	_ = w.stream.SendMsg(immediateReply(a, w.anthropic)) // fails if the request has ended
}

// send returns false if the stream has failed. After the request's end it sends nothing.
func (w *watchedCall) send(answer *reply) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended || w.stream.SendMsg(answer) == nil
}
