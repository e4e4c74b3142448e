package graph_test

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
)

// fragile has two tables. A row of wants is the value of a pod's label; computing it panics if the
// value is "bug", and the table's index panics if the value is "index". The table zones has a row
// for each key of this index.
type fragile struct {
	engine *graph.Engine
	wants  *graph.Table[string, string]
	zones  *graph.Table[string, string]
}

func newFragile(restore func(r *graph.Reader, key, last string, had bool) (string, bool)) *fragile {
	w := &fragile{engine: graph.New()}
	w.wants = graph.Declare(w.engine, graph.Table[string, string]{
		Name:    "wants",
		Order:   strings.Compare,
		Sources: []graph.Source[string]{w.engine.Stored("Pod", store.ByID)},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			p, _ := store.Pods.Get(r, key)
			want := p.Labels["wants"]
			if want == "bug" {
				panic("no label may be " + want)
			}
			c, _ := store.ConfigMaps.Get(r, "default/"+want)
			if c != nil && c.Data["zone"] == "bug" {
				panic("no zone may be a bug")
			}
			return want, true
		},
		Recover: restore,
	})
	wanted := graph.NewIndex(w.wants, "service", func(_, v string) []string {
		if v == "index" {
			panic("no index of it")
		}
		return []string{v}
	})
	w.zones = graph.Declare(w.engine, graph.Table[string, string]{
		Name:    "zones",
		Order:   strings.Compare,
		Sources: []graph.Source[string]{wanted},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			n, _ := wanted.Each(r, key)
			return strings.Repeat("+", n), true
		},
	})
	return w
}

func (w *fragile) dump() map[string]string {
	r, out := w.engine.Reader(), map[string]string{}
	for k, v := range w.wants.All(r) {
		out[k] = v
	}
	for k, v := range w.zones.All(r) {
		out[k] = v
	}
	return out
}

func panics(d *graph.Diff) (out []string) {
	for _, p := range d.Panics {
		s := p.String()
		if !strings.Contains(string(p.Stack), "newFragile") {
			s += " without a stack"
		}
		out = append(out, s)
	}
	return out
}

func TestPanic_KeepsTheRowsLastValueAndAllOthers(t *testing.T) {
	w, s := newFragile(nil), store.New()
	step := func(want map[string]string, panicked []string, recovered int, ops ...store.Op) {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		d := w.engine.Update(s.View(), rev.Changes)
		if diff := gocmp.Diff(want, w.dump()); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		if got := panics(d); !slices.Equal(got, panicked) || len(d.Recovered) != recovered {
			t.Errorf("panics %q and %d recovered, want %q and %d", got, len(d.Recovered), panicked, recovered)
		}
	}
	step(map[string]string{"default/a": "s1", "default/b": "s1", "s1": "++"}, nil, 0, wanting("a", "s1"),
		wanting("b", "s1"))
	step(map[string]string{"default/a": "s1", "default/b": "s2", "s1": "+", "s2": "+"},
		[]string{"wants: default/a: no label may be bug"}, 0, wanting("a", "bug"), wanting("b", "s2"))
	// The ConfigMap s1 was read only by the last computation that succeeded. Its change must
	// recompute the row.
	step(map[string]string{"default/a": "s1", "default/b": "s2", "s1": "+", "s2": "+"},
		[]string{"wants: default/a: no label may be bug"}, 0, inZone("s1", "eu"))
	step(map[string]string{"default/a": "s1", "default/b": "s2", "s1": "+", "s2": "+"},
		[]string{"wants: default/a: no index of it"}, 0, wanting("a", "index"))
	step(map[string]string{"default/a": "s3", "default/b": "s2", "s2": "+", "s3": "+"}, nil, 1, wanting("a", "s3"))
	// The computation of row a panics after it has read s4. So the next change of s4 must recompute
	// row a.
	step(map[string]string{"default/a": "s3", "default/b": "s2", "s2": "+", "s3": "+"},
		[]string{"wants: default/a: no zone may be a bug"}, 0, inZone("s4", "bug"), wanting("a", "s4"))
	step(map[string]string{"default/a": "s4", "default/b": "s2", "s2": "+", "s4": "+"}, nil, 1, inZone("s4", "eu"))
	// Row c panics at its first computation, so it has no value. Its removal must not panic.
	step(map[string]string{"default/a": "s4", "default/b": "s2", "s2": "+", "s4": "+"},
		[]string{"wants: default/c: no label may be bug"}, 0, wanting("c", "bug"))
	step(map[string]string{"default/a": "s4", "default/b": "s2", "s2": "+", "s4": "+"}, nil, 1,
		store.Pods.Delete("default/c"))
}

func TestPanic_RecoverStandsInForARow(t *testing.T) {
	w := newFragile(func(_ *graph.Reader, key, last string, had bool) (string, bool) {
		if had && last == "s9" {
			panic("Recover may panic too")
		}
		return "closed", true
	})
	s := store.New()
	for _, step := range []struct{ wants, row string }{
		{"bug", "closed"}, {"s1", "s1"}, {"bug", "closed"}, {"s9", "s9"}, {"bug", "s9"}, {"index", "s9"},
	} {
		rev, err := s.Apply(wanting("a", step.wants))
		if err != nil {
			t.Fatal(err)
		}
		w.engine.Update(s.View(), rev.Changes)
		if diff := gocmp.Diff(map[string]string{"default/a": step.row, step.row: "+"}, w.dump()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.wants, diff)
		}
	}
}
