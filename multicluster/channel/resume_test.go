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

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// replica is a subscriber's copy of a topic.
type replica struct {
	mu      sync.Mutex
	items   map[string]string
	updates []string // received updates, as texts
	fail    bool     // makes the next update fail
}

func (r *replica) apply(_ context.Context, u Update) error {
	if u.Disconnected {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail {
		r.fail = false
		return ErrSendAgain
	}
	if u.Snapshot || r.items == nil {
		r.items = map[string]string{}
	}
	keys := make([]string, 0, len(u.Items))
	for _, it := range u.Items {
		keys = append(keys, it.Key)
		r.items[it.Key] = string(it.Value)
	}
	for _, key := range u.Retracted {
		delete(r.items, key)
	}
	slices.Sort(keys)
	r.updates = append(r.updates,
		fmt.Sprintf("snapshot %t: %s -%s", u.Snapshot, strings.Join(keys, " "), strings.Join(u.Retracted, " ")))
	return nil
}

// wait waits until the copy has exactly these items, and its last update is last.
func (r *replica) wait(t *testing.T, what string, want map[string]string, last string) {
	t.Helper()
	poll.NoError(t, what, poll.Limit, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !maps.Equal(r.items, want) || len(r.updates) == 0 || r.updates[len(r.updates)-1] != last {
			return fmt.Errorf("got %v after %q, want %v after %q", r.items, r.updates, want, last)
		}
		return nil
	})
}

// After a reconnection, the publisher sends only the changes since the disconnection. If the
// subscriber could not apply an update, the publisher sends a snapshot.
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
	var copied replica
	to.Subscribe(copied.apply)
	serve := func(l net.Listener) (stop func()) {
		s := grpc.NewServer()
		publisher.Register(s)
		go func() { _ = s.Serve(l) }()
		return s.Stop
	}
	go func() { _ = subscriber.Run(t.Context()) }()
	wait := func(what string, want map[string]string, last string) { t.Helper(); copied.wait(t, what, want, last) }
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
	copied.mu.Lock()
	copied.fail = true
	copied.mu.Unlock()
	from.Publish(item("a", "3"))
	wait("all of it", map[string]string{"a": "3", "b": "2", "d": "1"}, "snapshot true: a b d -")
	stop()
}
