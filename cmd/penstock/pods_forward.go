package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// maxProblem bounds the kubelet's error message, in bytes.
const maxProblem = 1000

// forwardWithin calls forward, which has no context, and returns within podsTimeout.
func forwardWithin(ctx context.Context, config *rest.Config, to *rest.Request) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, podsTimeout,
		fmt.Errorf("the API server has not forwarded the port within %s", podsTimeout))
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := forward(config, to)
		if err == nil && ctx.Err() != nil {
			err = errors.Join(ctx.Err(), conn.Close())
		}
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func forward(config *rest.Config, to *rest.Request) (net.Conn, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to.URL())
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to.URL(), config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(adminPort))
	header.Set(corev1.PortForwardRequestIDHeader, "0")
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	problems, err := conn.CreateStream(header)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = problems.Close() // half-close: this side writes nothing
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(header)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	f := &forwarded{Stream: data, conn: conn, problem: make(chan string, 1)}
	go func() {
		text, _ := io.ReadAll(io.LimitReader(problems, maxProblem)) // returns when the connection closes
		f.problem <- strings.TrimSpace(string(text))
	}()
	return f, nil
}

// forwarded is a connection without deadlines. Close ends pending calls.
type forwarded struct {
	httpstream.Stream
	conn    httpstream.Connection
	problem chan string
}

// Read returns the kubelet's error message if the kubelet could not connect to the port.
func (f *forwarded) Read(into []byte) (n int, err error) {
	if n, err = f.Stream.Read(into); err == nil || n > 0 {
		return n, err
	}
	select {
	case text := <-f.problem:
		f.problem <- text
		if text != "" {
			err = errors.New(text)
		}
	case <-time.After(time.Second): // the kubelet sends its message at once, if at all
	}
	return n, err
}

func (f *forwarded) Close() error                     { return errors.Join(f.Stream.Close(), f.conn.Close()) }
func (f *forwarded) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (f *forwarded) RemoteAddr() net.Addr             { return &net.TCPAddr{Port: adminPort} }
func (f *forwarded) SetDeadline(time.Time) error      { return nil }
func (f *forwarded) SetReadDeadline(time.Time) error  { return nil }
func (f *forwarded) SetWriteDeadline(time.Time) error { return nil }
