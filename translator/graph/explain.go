package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Explanation describes how a row got its value.
type Explanation struct {
	Table  string `json:"table"`
	Key    string `json:"key"`
	Exists bool   `json:"exists"`
	// Waits is true while the row waits for a key (Engine.WaitForDemands).
	Waits bool `json:"waits,omitempty"`
	// Computed and Changed are store revisions: of the last computation and of the last new value.
	Computed uint32 `json:"computed"`
	Changed  uint32 `json:"changed"`
	// Cause is the changed key, in the format of Reads; "" if a source gained the row's key.
	Cause string `json:"cause,omitempty"`
	// Reads lists "store KIND by INDEX: KEY", "TABLE: KEY" or "TABLE by INDEX: KEY".
	Reads []string `json:"reads,omitempty"`
	// Readers lists the rows that read this row by key, sorted.
	Readers []string `json:"readers,omitempty"`
}

// Explain returns the rows whose key equals the text, or else the rows whose key contains the text.
// It walks over all rows.
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
