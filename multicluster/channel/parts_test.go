package channel

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// sizes records the largest message of a server's responses.
type sizes struct{ items, bytes, messages atomic.Int64 }

func (s *sizes) intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, sizedStream{stream, s})
}

type sizedStream struct {
	grpc.ServerStream
	*sizes
}

func (s sizedStream) SendMsg(m any) error {
	if r, ok := m.(*response); ok {
		s.messages.Add(1)
		s.items.Store(max(s.items.Load(), int64(len(r.GetResources())+len(r.GetRemovedResources()))))
		s.bytes.Store(max(s.bytes.Load(), int64(weight(r))))
	}
	return s.ServerStream.SendMsg(m)
}

func TestTopic_LargeSnapshotTakesEffectAtOnceAndArrivesInParts(t *testing.T) {
	publisher := New(Config{})
	from := publisher.Topic("things")
	from.Resume()
	want := map[string]string{}
	publish := func(n int, value string) {
		var items []Item
		for i := range n {
			key := fmt.Sprint("k", i)
			want[key] = value
			items = append(items, Item{Key: key, Value: []byte(value)})
		}
		from.Publish(items...)
	}
	publish(3*partItems, strings.Repeat("v", 600))
	var seen sizes
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.ChainStreamInterceptor(seen.intercept))
	publisher.Register(g)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)

	subscriber := New(Config{Peers: []string{l.Addr().String()}})
	to := subscriber.Topic("things")
	to.Resume()
	var mu sync.Mutex
	has, updates := map[string]string{}, 0
	to.Subscribe(func(_ context.Context, u Update) error {
		mu.Lock()
		defer mu.Unlock()
		if u.Disconnected {
			return nil
		}
		if u.Snapshot {
			clear(has)
		}
		for _, it := range u.Items {
			has[it.Key] = string(it.Value)
		}
		for _, key := range u.Retracted {
			delete(has, key)
		}
		updates++
		return nil
	})
	go func() { _ = subscriber.Run(t.Context()) }()
	holds := func(what string, n int) {
		t.Helper()
		var got string
		eventually(t, what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			got = fmt.Sprintf("%d of %d items in %d updates", len(has), len(want), updates)
			return maps.Equal(has, want) && updates == n
		}, func() string { return got })
	}
	holds("the snapshot is one update", 1)
	if err := from.Acknowledged(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := seen.messages.Load(); n < 3 {
		t.Errorf("the snapshot was sent in %d messages, want at least 3", n)
	}
	gone := make([]string, 0, 2*partItems)
	for i := range 2 * partItems {
		gone = append(gone, fmt.Sprint("k", i))
		delete(want, gone[i])
	}
	from.Retract(gone...)
	holds("the retractions are one update", 2)
	publish(partItems+1, "small")
	holds("the change is one update", 3)
	if seen.items.Load() > partItems || seen.bytes.Load() > partBytes {
		t.Errorf("a message has %d items and %d bytes, want at most %d and %d", seen.items.Load(), seen.bytes.Load(),
			partItems, partBytes)
	}
}

// hostile runs a server that calls flood for each stream, and counts the ended streams.
func hostile(t *testing.T, flood func(grpc.ServerStream) error) (address string, streams *atomic.Int32) {
	t.Helper()
	streams = &atomic.Int32{}
	g := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		defer streams.Add(1)
		if err := stream.RecvMsg(&request{}); err != nil {
			return err
		}
		return flood(stream)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String(), streams
}

// If a peer sends an endless response, the channel ends the stream at the limits of memory and
// items.
func TestPeers_EndlessResponseEndsTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		items  int // number of items in each message
		size   int // size of each item, in bytes
		most   int // most messages that a stream may send
	}{
		"items": {Limits{Items: 100}, 30, 1, 4},
		"bytes": {Limits{Bytes: func() int { return 10_000 }}, 1, 1_000, 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent, most atomic.Int64
			address, streams := hostile(t, func(stream grpc.ServerStream) error {
				sent.Store(0)
				for n := range 1000 {
					r := &response{TypeUrl: "things", Nonce: fmt.Sprintf("1/%d", n), SystemVersionInfo: "hostile"}
					for i := range c.items {
						r.Resources = append(r.Resources,
							published{value: make([]byte, c.size)}.encode(fmt.Sprint(n, "-", i), time.Unix(0, 0)))
					}
					if err := stream.SendMsg(r); err != nil {
						return err
					}
					most.Store(max(most.Load(), sent.Add(1)))
					if err := stream.RecvMsg(&request{}); err != nil { // the acknowledgement
						return err
					}
				}
				return nil
			})
			var problem atomic.Value
			subscriber := New(Config{Peers: []string{address}, Limits: c.limits,
				Exceeded: func(_, text string) { problem.Store(text) }})
			delivered := atomic.Int32{}
			subscriber.Topic("things").Subscribe(func(_ context.Context, u Update) error {
				if !u.Disconnected {
					delivered.Add(1)
				}
				return nil
			})
			go func() { _ = subscriber.Run(t.Context()) }()
			eventually(t, "streams end", func() bool { return streams.Load() > 1 && problem.Load() != nil },
				func() string { return fmt.Sprint(sent.Load(), " messages") })
			if most.Load() > int64(c.most) || delivered.Load() != 0 {
				t.Errorf("a stream has sent %d messages, and %d updates were delivered; want at most %d and none",
					most.Load(), delivered.Load(), c.most)
			}
			if text := fmt.Sprint(problem.Load()); !strings.Contains(text, "topic things: response") &&
				!strings.Contains(text, "topic things: a response") {
				t.Errorf(`the problem is %q, want a response of "topic things"`, text)
			}
		})
	}
}

// The acknowledgement of a part waits as long as Config.Received returns, so parts of an endless
// response arrive no faster. Other topics of the same peer do not wait.
func TestPeers_PartWaitsForItsAcknowledgement(t *testing.T) {
	acknowledged := make(chan string, 10)
	address, _ := hostile(t, func(stream grpc.ServerStream) error {
		var subscriptions [2]request // the function hostile has read the first request
		if err := stream.RecvMsg(&subscriptions[0]); err != nil {
			return err
		}
		for _, r := range []*response{{TypeUrl: "large", Nonce: "1/0"}, {TypeUrl: "small", Nonce: "2"}} {
			r.SystemVersionInfo = "hostile"
			if err := stream.SendMsg(r); err != nil {
				return err
			}
		}
		if err := stream.RecvMsg(&subscriptions[1]); err != nil {
			return err
		}
		acknowledged <- subscriptions[1].GetTypeUrl()
		return nil
	})
	subscriber := New(Config{
		Peers: []string{address}, Received: func(string, Received) time.Duration { return time.Hour },
	})
	for _, name := range []string{"large", "small"} {
		subscriber.Topic(name).Subscribe(func(context.Context, Update) error { return nil })
	}
	go func() { _ = subscriber.Run(t.Context()) }()
	if got := <-acknowledged; got != "small" {
		t.Errorf("got an acknowledgement of topic %s first, want small", got)
	}
}

// An item with an invalid key is dropped when its part arrives, so it takes no memory until the
// last part arrives. The valid items take effect.
func TestPeers_ItemWithInvalidKeyIsDroppedAsItArrives(t *testing.T) {
	const parts = 20
	limits := Limits{Items: 100, Bytes: func() int { return 20_000 }} // Bytes bounds all parts together
	address, streams := hostile(t, func(stream grpc.ServerStream) error {
		for n := range parts {
			r := &response{TypeUrl: "things", Nonce: fmt.Sprintf("1/%d", n), SystemVersionInfo: "hostile"}
			for i := range 10 {
				key := fmt.Sprint("Invalid ", n, "-", i, strings.Repeat("x", 200))
				r.Resources = append(r.Resources, published{}.encode(key, time.Unix(0, 0)))
				r.RemovedResources = append(r.RemovedResources, key)
			}
			if n == parts-1 {
				r.Nonce = "1"
				r.Resources = append(r.Resources, published{value: []byte("v")}.encode("good", time.Unix(0, 0)))
			}
			if err := stream.SendMsg(r); err != nil {
				return err
			}
			if err := stream.RecvMsg(&request{}); err != nil { // the acknowledgement
				return err
			}
		}
		<-stream.Context().Done()
		return nil
	})
	var dropped atomic.Int32 // counts messages with dropped items
	updates := make(chan Update, 1)
	count := func(_ string, in Received) time.Duration {
		if in.Items >= 20 && in.Dropped != nil {
			dropped.Add(1)
		}
		return 0
	}
	subscriber := New(Config{Peers: []string{address}, Limits: limits, Received: count})
	topic := subscriber.Topic("things")
	topic.Keys(func(key string) error {
		if strings.HasPrefix(key, "Invalid") {
			return fmt.Errorf("%.20q is invalid", key)
		}
		return nil
	})
	topic.Subscribe(func(_ context.Context, u Update) error {
		if !u.Disconnected {
			updates <- u
		}
		return nil
	})
	go func() { _ = subscriber.Run(t.Context()) }()
	eventually(t, "the valid item takes effect", func() bool { return len(updates) == 1 },
		func() string { return fmt.Sprint(streams.Load(), " streams have ended") })
	u := <-updates
	if len(u.Items) != 1 || u.Items[0].Key != "good" || len(u.Retracted) != 0 {
		t.Errorf("got %d items and %d retractions, want the item good", len(u.Items), len(u.Retracted))
	}
	if text := fmt.Sprint(u.Dropped); !strings.Contains(text, "is invalid") || !strings.Contains(text, "and 397 more") {
		t.Errorf("the update describes the dropped items as %q, want the first of them and their number", text)
	}
	if n := dropped.Load(); n != parts {
		t.Errorf("%d messages were reported with invalid keys, want all %d", n, parts)
	}
}

func TestProblems_OnlyTheFirstAreFormatted(t *testing.T) {
	var p Problems
	formatted := 0
	for range 1000 {
		p.Addf("%v", counted{&formatted})
	}
	if text := p.Err().Error(); formatted != 3 || !strings.Contains(text, "and 997 more") {
		t.Errorf("got %q after formatting %d, want 3 and the number of the others", text, formatted)
	}
}

type counted struct{ n *int }

func (c counted) String() string {
	*c.n++
	return "a problem"
}

// connect runs a server for a publisher with ServerOptions, and returns a connection to it.
func connect(t *testing.T, publisher *Channel) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(ServerOptions()...)
	publisher.Register(g)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestPeers_UnsolicitedRequestsEndTheStream(t *testing.T) {
	publisher := New(Config{})
	publisher.Topic("things").Publish(Item{Key: "k"})
	conn := connect(t, publisher)
	for name, flood := range map[string]func(n int) *request{
		"topics that do not exist": func(n int) *request {
			return &request{TypeUrl: fmt.Sprint("other", n)}
		},
		"acknowledgements of responses that never were": func(int) *request {
			return &request{TypeUrl: "things", ResponseNonce: "7000"}
		},
		"subscriptions again": func(int) *request { return &request{TypeUrl: "things"} },
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := conn.NewStream(t.Context(), &stream, method)
			if err != nil {
				t.Fatal(err)
			}
			s := &clientStream{ClientStream: raw}
			for n := range maxIdle + 3 {
				if s.Send(flood(n)) != nil {
					break // the client has ended the stream
				}
			}
			for err == nil {
				_, err = s.Recv()
			}
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("the stream ends with %v, want InvalidArgument", err)
			}
		})
	}
}

func TestPeers_RequestOfTooManyVersionsIsNotDecoded(t *testing.T) {
	publisher := New(Config{})
	publisher.Topic("things").Resume()
	conn := connect(t, publisher)
	for n, good := range map[int]bool{maxVersions: true, maxVersions + maxOwn + 1: false} {
		raw, err := conn.NewStream(t.Context(), &stream, method)
		if err != nil {
			t.Fatal(err)
		}
		s := &clientStream{ClientStream: raw}
		versions := make(map[string]string, n)
		for i := range n {
			versions[fmt.Sprint(i)] = "v"
		}
		if err := s.Send(&request{TypeUrl: "things", InitialResourceVersions: versions}); err != nil {
			t.Fatal(err)
		}
		if _, err = s.Recv(); (err == nil) != good {
			t.Errorf("%d versions: got %v, want no error: %t", n, err, good)
		}
	}
}
