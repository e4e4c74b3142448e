package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Explanation is why a row is as it is.
type Explanation struct {
	Table string `json:"table"`
	Key   string `json:"key"`
	// Exists is false for a key that a source has and for which Compute makes no row.
	Exists bool `json:"exists"`
	// Waits is true while the row keeps its last value because something that it reads has not
	// arrived (WaitForDemands).
	Waits bool `json:"waits,omitempty"`
	// Computed and Changed are the revisions of the store at which the row was recomputed, and came
	// out different, last.
	Computed uint32 `json:"computed"`
	Changed  uint32 `json:"changed"`
	// Cause is what changed and made the last recomputation necessary, as in Reads; empty: the key
	// came to a source.
	Cause string `json:"cause,omitempty"`
	// Reads are the keys that the row was computed from, sorted: of the store ("store KIND by
	// INDEX: KEY"), or of other tables ("TABLE: KEY", "TABLE by INDEX: KEY").
	Reads []string `json:"reads,omitempty"`
	// Readers are the rows that have read this one, sorted: "TABLE: KEY". Rows that found it
	// through an index or by reading the whole table are left out.
	Readers []string `json:"readers,omitempty"`
}

// Explain returns the rows, of all tables, whose key is the given text; if there are none, those
// whose key contains it. It walks over all rows: for debug pages only.
func (e *Engine) Explain(key string) []Explanation {
	list := e.explain(func(k string) bool { return k == key })
	if len(list) == 0 {
		list = e.explain(func(k string) bool { return strings.Contains(k, key) })
	}
	return list
}

func (e *Engine) explain(matches func(string) bool) []Explanation {
	var out []Explanation
	for _, l := range e.layers {
		out = append(out, l.explain(matches)...)
	}
	return out
}

func (t *Table[K, V]) explain(matches func(string) bool) []Explanation {
	var out []Explanation
	for _, n := range t.rows {
		key := fmt.Sprint(n.key)
		if !matches(key) {
			continue
		}
		x := Explanation{Table: t.Name, Key: key, Exists: n.exist, Waits: n.waits, Computed: n.computed,
			Changed: n.changed}
		if n.cause != nil {
			x.Cause = n.cause.key.describe()
		}
		for _, s := range n.reads {
			x.Reads = append(x.Reads, s.key.describe())
		}
		if s := t.byKey.subjects[n.key]; s != nil {
			for r := range s.readers.all {
				x.Readers = append(x.Readers, r.row.describe())
			}
		}
		slices.Sort(x.Reads)
		slices.Sort(x.Readers)
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Explanation) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func describe[K comparable](name string, key K) string {
	text := fmt.Sprint(key)
	if _, whole := any(key).(struct{}); whole || text == "" {
		return name
	}
	return name + ": " + text
}
