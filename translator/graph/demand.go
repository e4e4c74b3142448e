package graph

import (
	"cmp"
	"slices"
	"strings"
)

// Key is one key of one index of one table of the store.
type Key struct{ Table, Index, Key string }

// Compare orders by table, index, key.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Table, o.Table), strings.Compare(k.Index, o.Index), strings.Compare(k.Key, o.Key))
}

// Demand has each Diff say which keys of some tables of the store begin and cease to be read: what is read is all that
// has to be there. Call it before the first Update.
func (e *Engine) Demand(tables ...string) {
	for _, t := range tables {
		e.demanded[t] = struct{}{}
	}
	for _, c := range e.columns { // of sources
		_, c.demanded = e.demanded[c.table]
	}
}

// demand keeps what is read of the tables that somebody asks about.
type demand struct {
	read    map[dependency]struct{} // as the last Diff said
	touched map[dependency]struct{} // readers came or went since
}

func newDemand() *demand {
	return &demand{read: map[dependency]struct{}{}, touched: map[dependency]struct{}{}}
}

func (d *demand) touch(dep dependency) {
	if dep.demanded {
		d.touched[dep] = struct{}{}
	}
}

func (d *demand) settle(isRead func(dependency) bool) (wanted, unwanted []Key) {
	for dep := range d.touched {
		_, was := d.read[dep]
		switch now := isRead(dep); {
		case now && !was:
			d.read[dep] = struct{}{}
			wanted = append(wanted, Key{dep.table, dep.index, dep.key})
		case was && !now:
			delete(d.read, dep)
			unwanted = append(unwanted, Key{dep.table, dep.index, dep.key})
		}
	}
	clear(d.touched)
	slices.SortFunc(wanted, Key.Compare)
	slices.SortFunc(unwanted, Key.Compare)
	return wanted, unwanted
}
