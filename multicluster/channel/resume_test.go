package channel

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
)

// A reconnection costs only the changes made meanwhile; an update that could not be applied causes
// a snapshot.
func TestTopic_ResumesWithWhatHasChanged(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	publisher, subscriber := New(Config{}), New(Config{Peers: []string{address}})
	from, to := publisher.Topic("things"), subscriber.Topic("things")
	from.Resume()
	to.Resume()
	var mu sync.Mutex
	var updates []string
	has := map[string]string{}
	fail := false
	to.Subscribe(func(_ context.Context, u Update) error {
		if u.Disconnected {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if fail {
			fail = false
			return ErrSendAgain
		}
		keys := make([]string, 0, len(u.Items))
		if u.Snapshot {
			clear(has)
		}
		for _, it := range u.Items {
			keys = append(keys, it.Key)
			has[it.Key] = string(it.Value)
		}
		for _, key := range u.Retracted {
			delete(has, key)
		}
		slices.Sort(keys)
		updates = append(updates,
			fmt.Sprintf("snapshot %t: %s -%s", u.Snapshot, strings.Join(keys, " "), strings.Join(u.Retracted, " ")))
		return nil
	})
	serve := func(l net.Listener) (stop func()) {
		s := grpc.NewServer()
		publisher.Register(s)
		go func() { _ = s.Serve(l) }()
		return s.Stop
	}
	go func() { _ = subscriber.Run(t.Context()) }()
	wait := func(what string, want map[string]string, last string) {
		t.Helper()
		eventually(t, what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return maps.Equal(has, want) && len(updates) > 0 && updates[len(updates)-1] == last
		}, func() string { return fmt.Sprintf("%v after %q", has, updates) })
	}
	item := func(key, value string) Item { return Item{Key: key, Value: []byte(value)} }
	from.Publish(item("a", "1"), item("b", "1"), item("c", "1"))
	stop := serve(l)
	wait("the snapshot", map[string]string{"a": "1", "b": "1", "c": "1"}, "snapshot true: a b c -")
	from.Publish(item("a", "2"))
	wait("a change", map[string]string{"a": "2", "b": "1", "c": "1"}, "snapshot false: a -")
	again := func() {
		t.Helper()
		stop()
		eventually(t, "the connection is lost", func() bool { return !subscriber.Connected(address) },
			func() string { return "" })
	}
	listen := func() {
		t.Helper()
		if l, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		stop = serve(l)
	}
	again()
	from.Retract("c")
	from.Publish(item("b", "2"), item("d", "1"), item("a", "2"))
	listen()
	wait("what has changed", map[string]string{"a": "2", "b": "2", "d": "1"}, "snapshot false: b d -c")
	again()
	listen()
	wait("nothing", map[string]string{"a": "2", "b": "2", "d": "1"}, "snapshot false:  -")
	mu.Lock()
	fail = true
	mu.Unlock()
	from.Publish(item("a", "3"))
	wait("all of it", map[string]string{"a": "3", "b": "2", "d": "1"}, "snapshot true: a b d -")
	stop()
}
