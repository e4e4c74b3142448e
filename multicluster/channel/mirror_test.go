package channel

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// mirrorRig is a Mirror to which a test delivers updates.
type mirrorRig struct {
	*Mirror[int]
	t       *testing.T
	topic   *Topic
	changes []Change[int]
}

func newMirrorRig(t *testing.T, retention time.Duration) *mirrorRig {
	r := &mirrorRig{t: t, topic: New(Config{}).Topic("numbers")}
	r.Mirror = NewMirror(r.topic, MirrorConfig[int]{
		Decode:    func(value []byte) (int, error) { return strconv.Atoi(string(value)) },
		Retention: retention,
		Changed:   func(changes []Change[int]) { r.changes = append(r.changes, changes...) },
	})
	return r
}

// receive delivers an update with items key -> value.
func (r *mirrorRig) receive(u Update, items map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(items)) {
		u.Items = append(u.Items, Item{Key: key, Value: []byte(items[key])})
	}
	return r.topic.deliver(r.t.Context(), u)
}

func (r *mirrorRig) expect(what, key string, want map[string]int) {
	r.t.Helper()
	if got := r.ByKey(key); !maps.Equal(got, want) {
		r.t.Errorf("%s: %s is %v, want %v", what, key, got, want)
	}
}

func TestMirror_KeepsValuesOfEachPeer(t *testing.T) {
	r := newMirrorRig(t, 0)
	_ = r.receive(Update{Peer: "p", Snapshot: true}, map[string]string{"a": "1", "b": "2"})
	_ = r.receive(Update{Peer: "q", Snapshot: true}, map[string]string{"a": "3"})
	r.expect("two peers", "a", map[string]int{"p": 1, "q": 3})
	_ = r.receive(Update{Peer: "p", Retracted: []string{"a", "unknown"}}, map[string]string{"b": "4"})
	r.expect("retracted", "a", map[string]int{"q": 3})
	r.expect("published again", "b", map[string]int{"p": 4})
	r.changes = nil
	_ = r.receive(Update{Peer: "p", Snapshot: true}, map[string]string{"c": "5"})
	r.expect("not in the snapshot", "b", map[string]int{})
	want := []Change[int]{{Peer: "p", Key: "c", Value: 5, New: true}, {Peer: "p", Key: "b", Value: 4, Gone: true}}
	if !slices.Equal(r.changes, want) {
		t.Errorf("changes %v, want %v", r.changes, want)
	}
	_ = r.receive(Update{Peer: "q", Disconnected: true}, nil)
	r.expect("disconnected", "a", map[string]int{})
}

func TestMirror_InvalidValueLeavesTheOthers(t *testing.T) {
	r := newMirrorRig(t, 0)
	if err := r.receive(Update{Peer: "p"}, map[string]string{"a": "x", "b": "2"}); err == nil {
		t.Error("no error")
	}
	r.expect("invalid", "a", map[string]int{})
	r.expect("valid", "b", map[string]int{"p": 2})
}

func TestMirror_RetentionOutlivesDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMirrorRig(t, time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		go r.topic.run[0](ctx)
		defer stop()
		_ = r.receive(Update{Peer: "p"}, map[string]string{"a": "1", "b": "2", "c": "3"})
		_ = r.receive(Update{Peer: "p", Disconnected: true}, nil)
		time.Sleep(time.Minute - time.Second)
		r.expect("within the retention", "a", map[string]int{"p": 1})
		_ = r.receive(Update{Peer: "p", Snapshot: true}, map[string]string{"b": "4"})
		r.DropStale("b")
		r.DropStale("c")
		r.expect("stale, and known from elsewhere", "c", map[string]int{})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.expect("after the retention", "a", map[string]int{})
		r.expect("published again", "b", map[string]int{"p": 4})
	})
}
