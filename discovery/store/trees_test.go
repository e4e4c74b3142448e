package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
)

func TestView_LaterWritesLeaveItUnchanged(t *testing.T) {
	type snapshot struct {
		view *store.View
		want map[string]string // expected value of the label "app", by id
	}
	random := rand.New(rand.NewPCG(1, 2))
	s := store.New()
	var kept []snapshot
	now := map[string]string{}
	for range 300 {
		var ops []store.Op
		for range 1 + random.IntN(5) {
			name, app := fmt.Sprint("p", random.IntN(60)), fmt.Sprint("a", random.IntN(4))
			if random.IntN(3) == 0 {
				ops = append(ops, store.Pods.Delete("default/"+name))
				delete(now, "default/"+name)
			} else {
				ops = append(ops, store.Pods.Put(pod(name, map[string]string{"app": app})))
				now["default/"+name] = app
			}
		}
		if _, err := s.Apply(ops...); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, snapshot{s.View(), maps.Clone(now)})
	}
	for _, k := range kept {
		if got, want := len(store.Pods.All(k.view)), len(k.want); got != want {
			t.Fatalf("revision %d has %d pods, want %d", k.view.Revision(), got, want)
		}
		for app := range 4 {
			var want []string
			for _, id := range slices.Sorted(maps.Keys(k.want)) {
				if k.want[id] == fmt.Sprint("a", app) {
					want = append(want, id[len("default/"):])
				}
			}
			if got := names(store.Pods.By(k.view, store.ByLabel,
				store.LabelKey("default", "app", fmt.Sprint("a", app)))); !slices.Equal(got, want) {
				t.Fatalf("revision %d: pods of a%d are %v, want %v", k.view.Revision(), app, got, want)
			}
		}
	}
}

func TestApply_ObjectWithoutNameChangesNothing(t *testing.T) {
	s := store.New()
	if _, err := s.Apply(store.Pods.Put(pod("a", nil)), store.Secrets.Delete("")); err == nil {
		t.Error("no error")
	}
	if n := len(store.Pods.All(s.View())); n != 0 {
		t.Errorf("%d pods are there, want 0", n)
	}
}

// Readers of a View need no lock. Under the race detector, this test fails if a writer modifies a
// node that a View shares.
func TestView_ReadersNeedNoLock(t *testing.T) {
	s := store.New()
	write := func(i int) {
		name := fmt.Sprint("p", i%100)
		op := store.Pods.Put(pod(name, map[string]string{"app": fmt.Sprint("a", i)}))
		if i%3 == 0 {
			op = store.Pods.Delete("default/" + name)
		}
		if _, err := s.Apply(op); err != nil {
			t.Error(err)
		}
	}
	for i := range 200 {
		write(i)
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 100 {
				view := s.View()
				for _, p := range store.Pods.All(view) {
					if _, ok := store.Pods.Get(view, store.ID(p)); !ok {
						t.Errorf("revision %d lists %s but does not have it, want both", view.Revision(), p.Name)
					}
				}
			}
		})
	}
	for i := range 500 {
		write(i)
	}
	readers.Wait()
}
