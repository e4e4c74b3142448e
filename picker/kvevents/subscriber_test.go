package kvevents

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func subscriber(t *testing.T, c Config) *Subscriber {
	t.Helper()
	c.Prefixes, c.Retry = prefix.New(prefix.Config{Seed: 1}), 20*time.Millisecond
	c.OnPanic = func(source string, v any, stack []byte) { t.Errorf("%s: want no panic: %v\n%s", source, v, stack) }
	s := New(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func zmq(t *testing.T) (zmq4.Socket, netip.AddrPort) {
	t.Helper()
	socket := zmq4.NewPub(context.Background())
	t.Cleanup(func() { _ = socket.Close() })
	if err := socket.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return socket, netip.MustParseAddrPort(socket.Addr().String())
}

func send(t *testing.T, socket zmq4.Socket, topic string, seq uint64, batch []byte) {
	t.Helper()
	if err := socket.SendMulti(zmq4.NewMsgFrom([]byte(topic), binary.BigEndian.AppendUint64(nil, seq), batch)); err !=
		nil {
		t.Fatal(err)
	}
}

// eventually waits until a server reports this many tokens of a prompt. It calls again, if not nil,
// between attempts.
func eventually(t *testing.T, s *Subscriber, server netip.AddrPort, tokens []uint32, want int, again func()) {
	t.Helper()
	handle := s.config.Prefixes.Server(server)
	defer s.config.Prefixes.Release(handle)
	poll.NoError(t, fmt.Sprintf("%v reports %d tokens", server, want), poll.Limit, func() error {
		got := cachedAt(s.config.Prefixes, handle, tokens, "", 0)
		if got == want {
			return nil
		}
		if again != nil {
			again()
		}
		return fmt.Errorf("%d tokens, want %d", got, want)
	})
}

var model1 = netip.MustParseAddrPort("127.0.0.1:8001")

func TestKVEvents_AreReadFromAPublisherThatListens(t *testing.T) {
	socket, at := zmq(t)
	s := subscriber(t, Config{})
	sub := s.Subscribe([]Source{{Server: model1, Publisher: at}})
	e, tokens, seq := engine{size: 16}, ids(256, 1), uint64(0)
	first := batch(t, e.stored(tokens, options{}))
	eventually(t, s, model1, tokens, 256, func() { send(t, socket, "kv-events", seq, first); seq++ })
	problem, known := sub.Problem(model1) // Partly if the first messages preceded the connection
	if known == prefix.Guessed || (problem != "") != (known == prefix.Partly) ||
		strings.Contains(problem, "no connection") {
		t.Errorf("problem %q, %v; want a problem only if Partly known, and not the connection", problem, known)
	}
	send(t, socket, "kv-events", seq, batch(t, e.removed(tokens, 8, 16, "GPU")))
	eventually(t, s, model1, tokens, 128, nil)

	sub.Release()
	eventually(t, s, model1, tokens, -1, nil)
}

func TestKVEvents_AreReadFromAPublisherThatDials(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := subscriber(t, Config{Listener: listener})
	model2 := netip.MustParseAddrPort("127.0.0.1:8002")
	s.Subscribe([]Source{{Server: model1, Pod: "pod-1"}, {Server: model2}})
	e := engine{size: 16, asMap: true}
	for i, to := range []string{"kv@pod-1@llama", "kv@127.0.0.1:8002@llama"} {
		socket := zmq4.NewPub(context.Background())
		defer socket.Close()
		if err := socket.Dial("tcp://" + listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
		tokens, seq := ids(256, uint32(i)), uint64(1)
		b := batch(t, e.stored(tokens, options{}))
		eventually(t, s, []netip.AddrPort{model1, model2}[i], tokens, 256,
			func() { send(t, socket, to, seq, b); seq++ })
	}
	handle := s.config.Prefixes.Server(model1)
	if got := cachedAt(s.config.Prefixes, handle, ids(256, 1), "", 0); got != 0 {
		t.Errorf("model server 1 has %d tokens of the prompt that only server 2 reports, want 0", got)
	}
}

func TestKVEvents_BrokenPublisherHarmsItselfAlone(t *testing.T) {
	good, goodAt := zmq(t)
	bad, badAt := zmq(t)
	s := subscriber(t, Config{})
	model2 := netip.MustParseAddrPort("127.0.0.1:8002")
	sub := s.Subscribe([]Source{{Server: model1, Publisher: goodAt}, {Server: model2, Publisher: badAt}})
	e, tokens := engine{size: 16}, ids(256, 1)
	seqs := map[zmq4.Socket]uint64{}
	b := batch(t, e.stored(tokens, options{}))
	publish := func(socket zmq4.Socket, b []byte) func() {
		return func() { send(t, socket, "", seqs[socket], b); seqs[socket]++ }
	}
	eventually(t, s, model1, tokens, 256, publish(good, b))
	eventually(t, s, model2, tokens, 256, publish(bad, b))
	for name, broken := range map[string][]byte{
		"no MessagePack": []byte("events"), "an endless array": {0x93, 0, 0xdd, 0xff, 0xff, 0xff, 0xff, 0},
		"a large message": make([]byte, 17<<20),
	} {
		publish(bad, broken)()
		eventually(t, s, model1, tokens, 256, nil)
		poll.NoError(t, name+" is shown", poll.Limit, func() error {
			if problem, _ := sub.Problem(model2); !strings.Contains(problem, "KV events") {
				return fmt.Errorf("problem %q, want one about KV events", problem)
			}
			return nil
		})
		eventually(t, s, model2, tokens, 256, publish(bad, b)) // the server recovers
	}
}

func TestKVEvents_UnknownHostIsRejected(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := subscriber(t, Config{Listener: listener})
	s.Subscribe([]Source{{Server: netip.MustParseAddrPort("10.1.2.3:8000")}})
	nc, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetReadDeadline(time.Now().Add(poll.Limit))
	if n, err := nc.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Error("a publisher that no model server's address has is greeted")
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Error("a publisher that no model server's address has keeps its connection")
	}
}
