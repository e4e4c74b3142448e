package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func connected(t testing.TB, limits Limits) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	type result struct {
		c   *Conn
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := Handshake(ours, Sub, limits)
		done <- result{c, err}
	}()
	go func() {
		_, _ = theirs.Write(greeting[:])
		ready := property([]byte("\x05READY"), "Socket-Type", Pub)
		_, _ = theirs.Write(append([]byte{flagCommand, byte(len(ready))}, ready...))
	}()
	if _, err := io.ReadFull(theirs, make([]byte, 64+2+6+12+4+3+9+4)); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.c, theirs
}

func TestZMTP_SubscriberOfAnotherImplementationReadsOurPublisher(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var p Publisher
	go func() { _ = p.Serve(ctx, listener) }()
	sub := zmq4.NewSub(ctx)
	defer sub.Close()
	if err := sub.Dial("tcp://" + listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if err := sub.SetOption(zmq4.OptionSubscribe, ""); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the subscription arrives", func() bool { return p.Subscribers() == 1 })
	long := bytes.Repeat([]byte("x"), 100_000)
	p.Send([]byte("topic"), nil, long)
	m, err := sub.Recv()
	if err != nil || len(m.Frames) != 3 || string(m.Frames[0]) != "topic" || !bytes.Equal(m.Frames[2], long) {
		t.Errorf("got %v: %d frames, want topic, an empty and a long one", err, len(m.Frames))
	}
}

// A peer that announces more than it may, or more than it sends, takes no memory.
func TestZMTP_AnnouncedLengthTakesNoMemory(t *testing.T) {
	c, theirs := connected(t, Limits{})
	go func() { _, _ = theirs.Write(binary.BigEndian.AppendUint64([]byte{flagLong}, DefaultMessage+1)) }()
	if _, err := c.Read(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a frame above the limit: %v, want %v", err, ErrTooLarge)
	}
	c, theirs = connected(t, Limits{})
	go func() {
		_, _ = theirs.Write(binary.BigEndian.AppendUint64([]byte{flagLong}, DefaultMessage))
		_, _ = theirs.Write(make([]byte, 1000))
		_ = theirs.Close()
	}()
	if _, err := c.Read(); err == nil {
		t.Error("a frame without its bytes is a message")
	}
	if cap(c.memory) > 2*step {
		t.Errorf("%d bytes were allocated for 1,000, want at most %d", cap(c.memory), 2*step)
	}
	c, theirs = connected(t, Limits{Message: 1000})
	go func() {
		for range 3 {
			_, _ = theirs.Write(append([]byte{flagLong | flagMore, 0, 0, 0, 0, 0, 0, 1, 144}, make([]byte, 400)...))
		}
	}()
	if _, err := c.Read(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("frames that exceed the limit together: %v, want %v", err, ErrTooLarge)
	}
}

func TestZMTP_MessageThatStallsEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, theirs := connected(t, Limits{})
		go func() {
			time.Sleep(time.Hour) // between messages there is no timeout
			_, _ = theirs.Write([]byte{0, 5, 'h'})
		}()
		began := time.Now()
		if _, err := c.Read(); err == nil {
			t.Error("a message without its end is read")
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+defaultTimeout {
			t.Errorf("the connection ended after %v, want at least %v and at most %v",
				took, time.Hour, time.Hour+defaultTimeout)
		}
		_ = theirs.Close()
	})
}

func TestZMTP_LargeMessagesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{Large: make(chan struct{}, 1)}
		first, a := connected(t, limits)
		second, b := connected(t, limits)
		frame := append(binary.BigEndian.AppendUint64([]byte{flagLong}, 2*large), make([]byte, 2*large)...)
		go func() { _, _ = a.Write(frame) }()
		go func() { _, _ = b.Write(frame) }()
		if _, err := first.Read(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { _, err := second.Read(); done <- err }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the second message did not wait: %v", err)
		default:
		}
		first.Free()
		if err := <-done; err != nil {
			t.Error(err)
		}
		second.Free()
	})
}

func TestZMTP_PingIsAnswered(t *testing.T) {
	c, theirs := connected(t, Limits{})
	go func() { _, _ = c.Read() }()
	ping := append([]byte{flagCommand, 9}, "\x04PING\x00\x64ab"...)
	if _, err := theirs.Write(ping); err != nil {
		t.Fatal(err)
	}
	pong := make([]byte, 9)
	if _, err := io.ReadFull(theirs, pong); err != nil || string(pong[2:]) != "\x04PONGab" {
		t.Errorf("got %q, %v; want PONG with ab", pong, err)
	}
	_ = theirs.Close()
}

// Heartbeats keep an idle connection open. Without answers, it would end 10 s after the first one.
func TestZMTP_HeartbeatsKeepAnIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, theirs := connected(t, Limits{})
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			for range 10 {
				time.Sleep(15 * time.Second)
				_, _ = theirs.Write(append([]byte{flagCommand, 7}, "\x04PING\x00\x64"...))
			}
			time.Sleep(15 * time.Second)
			_, _ = theirs.Write([]byte{0, 1, 'x'})
		}()
		if frames, err := c.Read(); err != nil || string(frames[0]) != "x" {
			t.Errorf("after ten heartbeats: got %q, %v; want x", frames, err)
		}
		_ = theirs.Close()
	})
}

func TestZMTP_FloodOfCommandsEndsTheConnection(t *testing.T) {
	c, theirs := connected(t, Limits{})
	go func() {
		for {
			if _, err := theirs.Write(append([]byte{flagCommand, 4}, "\x03ANY"...)); err != nil {
				return
			}
		}
	}()
	if _, err := c.Read(); !errors.Is(err, errCommands) {
		t.Errorf("a flood of commands: %v, want %v", err, errCommands)
	}
	_ = c.Close()
}

func TestZMTP_LargeMessagesOfOnePeerTakeItsOwnPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, own := make(chan struct{}, 2), make(chan struct{}, 1)
		frame := append(binary.BigEndian.AppendUint64([]byte{flagLong}, 2*large), make([]byte, 2*large)...)
		for range 2 { // both connections lack the end of their message
			c, theirs := connected(t, Limits{Large: all, Own: own})
			go func() { _, _ = theirs.Write(frame[:len(frame)-1]) }()
			go func() {
				if _, err := c.Read(); err == nil {
					t.Error("a message without its end is read")
				}
				c.Free()
				_ = theirs.Close()
			}()
		}
		synctest.Wait()
		began := time.Now()
		c, theirs := connected(t, Limits{Large: all, Own: make(chan struct{}, 1)})
		go func() { _, _ = theirs.Write(frame) }()
		if _, err := c.Read(); err != nil || time.Since(began) > 0 {
			t.Errorf("another peer's message: %v after %v, want 0", err, time.Since(began))
		}
		c.Free()
		if len(own) > 1 || len(all) > 1 {
			t.Errorf("%d and %d places are taken, want at most 1 and at most 1", len(own), len(all))
		}
		time.Sleep(time.Minute)
		if len(own) != 0 || len(all) != 0 {
			t.Errorf("%d and %d places are taken at the end, want 0 and 0", len(own), len(all))
		}
	})
}

func TestZMTP_WrongPeerIsAnError(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"HTTP": []byte(
			"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"),
		"ZMTP 2": append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1}, make([]byte, 60)...),
		"another socket": append(greeting[:],
			append([]byte{flagCommand, 26}, property([]byte("\x05READY"), "Socket-Type", "PULL")...)...),
	} {
		ours, theirs := net.Pipe()
		go func() { _, _ = theirs.Write(bytes); _ = theirs.Close() }()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		if _, err := Handshake(ours, Sub, Limits{}); err == nil {
			t.Errorf("%s: no error, want one", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

func FuzzConn_Reads(f *testing.F) {
	f.Add([]byte{flagMore, 1, 'a', 0, 2, 'b', 'c'})
	f.Add([]byte{flagCommand, 9, 4, 'P', 'I', 'N', 'G', 0, 1, 'x', 'y', 0, 1, 'z'})
	f.Add(binary.BigEndian.AppendUint64([]byte{flagLong}, 1<<63))
	f.Fuzz(func(t *testing.T, p []byte) {
		c, theirs := connected(t, Limits{Message: 1 << 16})
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() { _, _ = theirs.Write(p); _ = theirs.Close() }()
		for {
			frames, err := c.Read()
			if err != nil {
				break
			}
			total := 0
			for _, frame := range frames {
				total += len(frame)
			}
			if total > len(p) {
				t.Fatalf("%d bytes of %d, want at most as many", total, len(p))
			}
		}
		_ = c.Close()
		c.Free()
	})
}
