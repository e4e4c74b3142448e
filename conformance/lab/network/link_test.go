//go:build lab && linux

package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

type site struct {
	End
	name string
	udp  *net.UDPConn
}

var ports = []uint16{18443, 80}

// ends is how long a test waits before it concludes that nothing arrives.
const ends = 500 * time.Millisecond

// generous is a deadline that only a hanging test reaches.
const generous = 30 * time.Second

func twoSites(t *testing.T) (a, b *site, there, back *Direction) {
	t.Helper()
	outside, err := Current()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outside.Close)
	var both []*site
	for _, name := range []string{"a", "b"} {
		s := &site{name: name}
		if s.Node, s.Plan, err = NewNode(outside); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := outside.Unlink(s.Plan.Link()); err != nil {
				t.Error(err)
			}
			s.Node.Close()
		})
		s.serve(t)
		both = append(both, s)
	}
	a, b = both[0], both[1]
	if err := JoinNodes(a.Node, a.Plan, b.Node, b.Plan); err != nil {
		t.Fatal(err)
	}
	return a, b, NewDirection(a.End, b.End), NewDirection(b.End, a.End)
}

func (s *site) serve(t *testing.T) {
	t.Helper()
	for _, port := range ports {
		var l net.Listener
		if err := s.Node.Do(func() (err error) {
			l, err = net.Listen("tcp4", fmt.Sprintf(":%d", port))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() { // ends with the listener
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(c, c); _ = c.Close() }() // ends with the connection
			}
		}()
	}
	if err := s.Node.Do(func() (err error) {
		s.udp, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 5000})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.udp.Close() })
}

func (s *site) dial(to *site, port uint16, limit time.Duration) (c net.Conn, err error) {
	err = s.Node.Do(func() error {
		c, err = (&net.Dialer{Timeout: limit}).Dial("tcp4", netip.AddrPortFrom(to.Plan.Node(), port).String())
		return err
	})
	return c, err
}

func echoes(c net.Conn, limit time.Duration) (took time.Duration, err error) {
	start := time.Now()
	if err := c.SetDeadline(start.Add(limit)); err != nil {
		return 0, err
	}
	if _, err := c.Write([]byte("line\n")); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(c, make([]byte, len("line\n")))
	return time.Since(start), err
}

func (s *site) ask(to *site, port uint16, limit time.Duration) error {
	c, err := s.dial(to, port, limit)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = echoes(c, limit)
	return err
}

func (s *site) open(t *testing.T, to *site, port uint16) net.Conn {
	t.Helper()
	c, err := s.dial(to, port, generous)
	if err == nil {
		_, err = echoes(c, generous)
	}
	if err != nil {
		t.Fatalf("%s to %s, port %d: %v", s.name, to.name, port, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *site) arrive(t *testing.T, to *site, n int) (arrived int) {
	t.Helper()
	for range n {
		// ignore the ICMP error for the previous packet
		_, _ = s.udp.WriteTo([]byte("."), &net.UDPAddr{IP: to.Plan.Node().AsSlice(), Port: 5000})
	}
	for {
		if err := to.udp.SetReadDeadline(time.Now().Add(ends)); err != nil {
			t.Fatal(err)
		}
		_, from, err := to.udp.ReadFrom(make([]byte, 1))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return arrived
		case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH):
		case err != nil:
			t.Fatal(err)
		case strings.HasPrefix(from.String(), s.Plan.Node().String()):
			arrived++
		}
	}
}

// waits reports whether err is a timeout: no answer of any kind came.
func waits(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func set(t *testing.T, f Fault, ds ...*Direction) {
	t.Helper()
	for _, d := range ds {
		if err := d.Set(f); err != nil {
			t.Fatal(err)
		}
	}
}

func whole(t *testing.T, a, b *site) {
	t.Helper()
	for _, way := range [][2]*site{{a, b}, {b, a}} {
		for _, port := range ports {
			if err := way[0].ask(way[1], port, generous); err != nil {
				t.Errorf("%s to %s, port %d: %v", way[0].name, way[1].name, port, err)
			}
		}
		if n := way[0].arrive(t, way[1], 20); n != 20 {
			t.Errorf("%d of 20 datagrams arrive from %s, want 20", n, way[0].name)
		}
	}
}

func TestLink_CutPassesNothingUntilItIsHealed(t *testing.T) {
	a, b, there, back := twoSites(t)
	whole(t, a, b)
	old := a.open(t, b, 80)
	set(t, Fault{Effect: Cut}, there, back)
	for _, way := range [][2]*site{{a, b}, {b, a}} {
		if err := way[0].ask(way[1], 80, ends); !waits(err) {
			t.Errorf("a new connection from %s: got %v, want it to wait", way[0].name, err)
		}
		if n := way[0].arrive(t, way[1], 20); n != 0 {
			t.Errorf("%d datagrams arrive from %s, want 0", n, way[0].name)
		}
	}
	if _, err := echoes(old, ends); !waits(err) {
		t.Errorf("an established connection: got %v, want it to wait", err)
	}
	set(t, Fault{Effect: Heal}, there, back)
	whole(t, a, b)
	// Data that was sent during the cut arrives before the next line.
	if _, err := echoes(old, generous); err != nil {
		t.Errorf("the established connection after healing: %v", err)
	}
}

func TestLink_CutOneWayPassesTheOtherWay(t *testing.T) {
	a, b, there, _ := twoSites(t)
	set(t, Fault{Effect: Cut}, there)
	if n := a.arrive(t, b, 20); n != 0 {
		t.Errorf("%d datagrams arrive from a, want 0", n)
	}
	if n := b.arrive(t, a, 20); n != 20 {
		t.Errorf("%d of 20 datagrams arrive from b, want 20", n)
	}
	for _, way := range [][2]*site{{a, b}, {b, a}} { // a handshake needs both directions
		if err := way[0].ask(way[1], 80, ends); !waits(err) {
			t.Errorf("a new connection from %s: got %v, want it to wait", way[0].name, err)
		}
	}
	set(t, Fault{Effect: Heal}, there)
	whole(t, a, b)
}

func TestLink_CutOfAPortPassesTheOthers(t *testing.T) {
	a, b, there, back := twoSites(t)
	control, data := a.open(t, b, 18443), a.open(t, b, 80)
	set(t, Fault{Effect: Cut, Port: 18443}, there, back)
	if _, err := echoes(control, ends); !waits(err) {
		t.Errorf("an established connection to the port: got %v, want it to wait", err)
	}
	if _, err := echoes(data, generous); err != nil {
		t.Errorf("a connection to another port: %v", err)
	}
	for _, way := range [][2]*site{{a, b}, {b, a}} {
		if err := way[0].ask(way[1], 18443, ends); !waits(err) {
			t.Errorf("a new connection from %s: got %v, want it to wait", way[0].name, err)
		}
		if err := way[0].ask(way[1], 80, generous); err != nil {
			t.Errorf("another port from %s: %v", way[0].name, err)
		}
	}
	set(t, Fault{Effect: Heal}, there, back)
	whole(t, a, b)
}

func TestLink_RejectEndsConnectionsAtOnce(t *testing.T) {
	a, b, there, back := twoSites(t)
	old := a.open(t, b, 80)
	set(t, Fault{Effect: Reject}, there, back)
	for _, way := range [][2]*site{{a, b}, {b, a}} {
		if err := way[0].ask(way[1], 80, generous); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a new connection from %s: %v; it must be reset at once, want %v",
				way[0].name, err, syscall.ECONNREFUSED)
		}
		if n := way[0].arrive(t, way[1], 20); n != 0 {
			t.Errorf("%d datagrams arrive from %s, want 0", n, way[0].name)
		}
	}
	if _, err := echoes(old, generous); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("an established connection: got %v, want it reset at once", err)
	}
	set(t, Fault{Effect: Heal}, there, back)
	whole(t, a, b)

	set(t, Fault{Effect: Reject}, there)
	if n := b.arrive(t, a, 20); n != 20 {
		t.Errorf("one way: %d of 20 datagrams arrive from b, want 20", n)
	}
	if err := a.ask(b, 80, generous); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("one way: a new connection from a: %v; it must be reset at once, want %v", err, syscall.ECONNREFUSED)
	}
	set(t, Fault{Effect: Heal}, there)
	whole(t, a, b)
}

func TestLink_DropLosesAShareAndTCPGoesOn(t *testing.T) {
	a, b, there, _ := twoSites(t)
	const sent = 200 // as many as the socket's buffer holds
	set(t, Fault{Effect: Drop, Share: 50}, there)
	if n := a.arrive(t, b, sent); n < sent/5 || n > sent*4/5 { // eight standard deviations
		t.Errorf("%d of %d datagrams arrive from a, want at least %d and at most %d", n, sent, sent/5, sent*4/5)
	}
	if n := b.arrive(t, a, sent); n != sent {
		t.Errorf("%d of %d datagrams arrive from b, want all", n, sent)
	}
	set(t, Fault{Effect: Drop, Share: 20}, there)
	for _, way := range [][2]*site{{a, b}, {b, a}} {
		if err := way[0].ask(way[1], 80, generous); err != nil {
			t.Errorf("a connection from %s, with retransmissions: %v", way[0].name, err)
		}
	}
	set(t, Fault{Effect: Heal}, there)
	whole(t, a, b)
}

func TestLink_DelayAddsToEachRoundTripUntilItIsHealed(t *testing.T) {
	a, b, there, back := twoSites(t)
	const by = 200 * time.Millisecond
	least := func() (took time.Duration) {
		t.Helper()
		for i, way := range [][2]*site{{a, b}, {b, a}} {
			c := way[0].open(t, way[1], 80)
			for j := range 5 {
				d, err := echoes(c, generous)
				if err != nil {
					t.Fatalf("from %s: %v", way[0].name, err)
				}
				if took == 0 && i+j == 0 || d < took {
					took = d
				}
			}
		}
		return took
	}
	old := a.open(t, b, 80)
	set(t, Fault{Effect: Delay, By: by}, there)
	if d := least(); d < by {
		t.Errorf("one way delayed: a round trip takes %s, want at least %s", d, by)
	}
	if d, err := echoes(old, generous); err != nil || d < by {
		t.Errorf("an established connection: a round trip takes %s: %v, want at least %s", d, err, by)
	}
	set(t, Fault{Effect: Delay, By: by}, back)
	if d := least(); d < 2*by {
		t.Errorf("both ways delayed: a round trip takes %s, want at least %s", d, 2*by)
	}
	set(t, Fault{Effect: Delay, By: by / 2}, there, back)
	if d := least(); d < by {
		t.Errorf("both ways delayed by half: a round trip takes %s, want at least %s", d, by)
	}
	if n := a.arrive(t, b, 100); n != 100 {
		t.Errorf("%d of 100 datagrams arrive, want 100", n)
	}
	set(t, Fault{Effect: Heal}, there, back)
	whole(t, a, b)
	if d := least(); d >= by/2 {
		t.Errorf("after healing: the fastest of 10 round trips takes %s, want less than %s", d, by/2)
	}
	for _, s := range []*site{a, b} {
		for _, peer := range []*site{a, b} {
			for _, name := range []string{"slow-", "late-"} {
				if _, err := s.Node.link.LinkByName(name + peer.Plan.Link()); err == nil {
					t.Errorf("after healing: %s has the interface %s%s, want none", s.name, name, peer.Plan.Link())
				}
			}
		}
	}
}

func TestLink_NewEffectReplacesTheOneBefore(t *testing.T) {
	a, b, there, back := twoSites(t)
	for _, f := range []Fault{{Effect: Cut}, {Effect: Delay, By: 50 * time.Millisecond}, {Effect: Reject},
		{Effect: Drop, Share: 1}} {
		set(t, f, there, back)
	}
	set(t, Fault{Effect: Delay, By: 50 * time.Millisecond}, there)
	if err := a.ask(b, 80, generous); err != nil {
		t.Error(err)
	}
	set(t, Fault{Effect: Cut}, there)
	if err := a.ask(b, 80, ends); !waits(err) {
		t.Errorf("the cut link, after a delay: got %v, want it to wait", err)
	}
	set(t, Fault{Effect: Heal}, there, back)
	whole(t, a, b)
}
