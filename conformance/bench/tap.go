package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
)

// tap sits between a control plane and gRPC, in the same process. It can send a message again on
// every stream, which is the cost of a constant message on the same streams.
type tap struct {
	mu      sync.Mutex
	streams map[*tapped]struct{}
	last    any // the first message after begin

	sent, answers atomic.Int64 // messages to proxies, and from them, since begin
}

type tapped struct {
	grpc.ServerStream
	tap *tap
	mu  sync.Mutex // gRPC allows one sender at a time
}

func (t *tap) option() grpc.ServerOption {
	return grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
		handler grpc.StreamHandler) error {
		s := &tapped{ServerStream: stream, tap: t}
		t.mu.Lock()
		if t.streams == nil {
			t.streams = map[*tapped]struct{}{}
		}
		t.streams[s] = struct{}{}
		t.mu.Unlock()
		defer func() {
			t.mu.Lock()
			delete(t.streams, s)
			t.mu.Unlock()
		}()
		return handler(srv, s)
	})
}

// SendMsg implements grpc.ServerStream.
func (s *tapped) SendMsg(m any) error {
	s.mu.Lock()
	err := s.ServerStream.SendMsg(m)
	s.mu.Unlock()
	if s.tap.sent.Add(1) == 1 {
		s.tap.mu.Lock()
		s.tap.last = m
		s.tap.mu.Unlock()
	}
	return err
}

// RecvMsg implements grpc.ServerStream.
func (s *tapped) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.tap.answers.Add(1)
	}
	return err
}

func (t *tap) begin() {
	t.sent.Store(0)
	t.answers.Store(0)
}

// answered waits for n messages from proxies since begin, so that the next measurement does not
// include their reading.
func (t *tap) answered(ctx context.Context, n int) error {
	return eventually(ctx, func() error {
		if got := int(t.answers.Load()); got < n {
			return fmt.Errorf("%d of %d proxies have answered", got, n)
		}
		return nil
	})
}

// constant returns a function that sends the last message again on every stream, each from a
// goroutine that waits for it, as the streams of a control plane do.
func (t *tap) constant() (send func() error) {
	t.mu.Lock()
	message := t.last
	streams := make([]*tapped, 0, len(t.streams))
	for s := range t.streams {
		streams = append(streams, s)
	}
	t.mu.Unlock()
	var waiting sync.WaitGroup
	wake := make([]chan struct{}, len(streams))
	for i, s := range streams {
		wake[i] = make(chan struct{}, 1)
		waiting.Add(1)
		go func() {
			waiting.Done()
			<-wake[i]
			_ = s.SendMsg(message) // answered notices a stream that has ended
		}()
	}
	waiting.Wait()
	return func() error {
		for _, w := range wake {
			w <- struct{}{}
		}
		return nil
	}
}
