package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// tap sits between a control plane and gRPC, in the same process. It records when messages were
// sent, and can send one of them again on every stream: that is the cost of a constant message, on
// the same streams.
type tap struct {
	mu      sync.Mutex
	streams map[*tapped]struct{}
	last    any // sent last, by any stream

	sent atomic.Int64
	// answers counts the messages from proxies since begin.
	answers atomic.Int64
	at      atomic.Int64 // when the last send returned, in nanoseconds since start
}

// tapped is one stream.
type tapped struct {
	grpc.ServerStream
	tap *tap
	mu  sync.Mutex // gRPC allows one sender at a time
}

var processStart = time.Now()

// option installs the tap in a gRPC server.
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
	s.tap.at.Store(int64(time.Since(processStart)))
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

// begin starts to count; constant repeats the next message that is sent.
func (t *tap) begin() {
	t.sent.Store(0)
	t.answers.Store(0)
}

// answered waits for the n-th answer since begin, so that the next measurement does not include
// their reading.
func (t *tap) answered(ctx context.Context, n int) error {
	return eventually(ctx, func() error {
		if got := int(t.answers.Load()); got < n {
			return fmt.Errorf("%d of %d proxies have answered", got, n)
		}
		return nil
	})
}

// wait returns the time from start to the end of the n-th send since begin.
func (t *tap) wait(ctx context.Context, n int, start time.Time) (time.Duration, error) {
	err := eventually(ctx, func() error {
		if int(t.sent.Load()) < n {
			return errors.New("not all messages were sent")
		}
		return nil
	})
	return processStart.Add(time.Duration(t.at.Load())).Sub(start), err
}

// constant sends the message of the last begin on every stream, each from a goroutine that waited
// for it, like the streams of a control plane.
func (t *tap) constant(ctx context.Context) (time.Duration, error) {
	t.mu.Lock()
	message := t.last
	streams := make([]*tapped, 0, len(t.streams))
	for s := range t.streams {
		streams = append(streams, s)
	}
	t.mu.Unlock()
	var waiting, done sync.WaitGroup
	wake := make([]chan struct{}, len(streams))
	for i, s := range streams {
		wake[i] = make(chan struct{}, 1)
		waiting.Add(1)
		done.Go(func() {
			waiting.Done()
			<-wake[i]
			_ = s.SendMsg(message) // wait notices a stream that has ended
		})
	}
	waiting.Wait()
	t.begin()
	start := time.Now()
	for _, w := range wake {
		w <- struct{}{}
	}
	done.Wait()
	return t.wait(ctx, len(streams), start)
}
