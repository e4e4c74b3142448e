package admission_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-project/penstock/xds/admission"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func serve(t *testing.T, c admission.Config) (address string) {
	t.Helper()
	l := listen(t, c)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func listen(t *testing.T, c admission.Config) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return admission.Listen(l, c)
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func closed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(poll.Limit))
	_, err := conn.Read(make([]byte, 1))
	if e, ok := err.(net.Error); err == nil || ok && e.Timeout() {
		t.Errorf("the connection stays open: got %v, want an end or a reset", err)
	}
}

func TestAdmission_ConnectionsOfAnAddressAreLimited(t *testing.T) {
	at := serve(t, admission.Config{PerAddress: 2, Timeout: time.Hour})
	first := dial(t, at)
	dial(t, at)
	closed(t, dial(t, at))
	_ = first.Close()
	poll.NoError(t, "a connection stays open", poll.Limit, func() error {
		conn := dial(t, at)
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		if e, ok := err.(net.Error); ok && e.Timeout() {
			return nil
		}
		return err
	})
}

func TestAdmission_ConnectionEndsAfterTimeout(t *testing.T) {
	closed(t, dial(t, serve(t, admission.Config{Timeout: 10 * time.Millisecond})))
}

func TestAdmission_ConnectionThatSendsTooMuchEnds(t *testing.T) {
	conn := dial(t, serve(t, admission.Config{Bytes: 1000, Timeout: time.Hour}))
	if _, err := conn.Write(make([]byte, 1001)); err != nil {
		t.Fatal(err)
	}
	closed(t, conn)
}

func TestAdmission_AdmittedConnectionHasNoLimit(t *testing.T) {
	l := listen(t, admission.Config{PerAddress: 1, Timeout: time.Second, Bytes: 20 << 10})
	s := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any,
			error) {
			admission.Admit(ctx)
			return next(ctx, req)
		}))
	healthv1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	var clients []healthv1.HealthClient
	for range 3 { // more connections than PerAddress
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		c := healthv1.NewHealthClient(conn)
		poll.NoError(t, "a call on a new connection", poll.Limit, func() error {
			_, err := c.Check(t.Context(), &healthv1.HealthCheckRequest{})
			return err
		})
		clients = append(clients, c)
	}
	for _, c := range clients {
		for range 50 { // more bytes than Bytes
			if _, err := c.Check(t.Context(), &healthv1.HealthCheckRequest{Service: ""}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAdmission_SlowClientStaysIfItNeedNotAuthenticate(t *testing.T) {
	conn := dial(t, serve(t, admission.Config{Bytes: 1000, Timeout: time.Millisecond, Every: 50 * time.Millisecond}))
	for range 5 { // 2,500 bytes, above Bytes
		if _, err := conn.Write(make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(60 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the connection ends: %v, want %v", err, os.ErrDeadlineExceeded)
		}
	}
	if _, err := conn.Write(make([]byte, 1001)); err != nil {
		t.Fatal(err)
	}
	closed(t, conn)
}

func TestAdmission_BudgetEndsConnectionsThatSendMuch(t *testing.T) {
	budget := admission.NewBudget(4 << 20)
	at := serve(t, admission.Config{Trusting: true, Budget: budget})
	small := dial(t, at)
	if _, err := small.Write(make([]byte, 32<<10)); err != nil {
		t.Fatal(err)
	}
	var large []net.Conn
	for range 8 {
		conn := dial(t, at)
		large = append(large, conn)
		go func() { _, _ = conn.Write(make([]byte, 2<<20)) }() // fails if the connection is closed
	}
	ended := func(conn net.Conn) bool {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		e, ok := err.(net.Error)
		return !ok || !e.Timeout()
	}
	poll.Until(t, "some are closed", func() bool {
		n := 0
		for _, conn := range large {
			if ended(conn) {
				n++
			}
		}
		return n >= 4
	})
	if ended(small) {
		t.Error("the connection that sends little is closed")
	}
	for _, conn := range large {
		_ = conn.Close()
	}
	poll.Until(t, "room for a large message", func() bool {
		conn := dial(t, at)
		defer func() { _ = conn.Close() }()
		_, err := conn.Write(make([]byte, 2<<20))
		return err == nil && !ended(conn)
	})
}

func stays(t *testing.T, from *net.Dialer, at string) net.Conn {
	t.Helper()
	var open net.Conn
	poll.NoError(t, "a connection stays open", poll.Limit, func() error {
		conn, err := from.Dial("tcp", at)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err = conn.Read(make([]byte, 1))
		if e, ok := err.(net.Error); ok && e.Timeout() {
			open = conn
			return nil
		}
		return err
	})
	return open
}

func TestAdmission_ConnectionThatWaitedLongestMakesRoom(t *testing.T) {
	from := func(last byte) *net.Dialer {
		return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
	}
	at := serve(t, admission.Config{PerAddress: 100, Timeout: time.Hour, Most: 4})
	first, second := stays(t, from(2), at), stays(t, from(2), at)
	denied, err := from(2).Dial("tcp", at) // one address may have half of Most
	if err != nil {
		t.Fatal(err)
	}
	closed(t, denied)
	stays(t, from(3), at)
	stays(t, from(3), at)
	stays(t, from(4), at)
	closed(t, first)
	stays(t, from(4), at)
	closed(t, second)
}

func TestAdmission_OpenPortHasAShareToo(t *testing.T) {
	at := serve(t, admission.Config{Trusting: true, Most: 4})
	a, b := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}},
		net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 3)}}
	held := []net.Conn{stays(t, &a, at), stays(t, &a, at), stays(t, &b, at), stays(t, &b, at)}
	other, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, other)
	_ = held[0].Close()
	stays(t, &net.Dialer{}, at)
}
