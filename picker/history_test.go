package picker

import (
	"fmt"
	"testing"
	"time"
)

// Records are large because of their verdicts, so each of many pools keeps fewer.
func TestExplain_RecordsOfManyPoolsAreBounded(t *testing.T) {
	p := poolOf(t, 1, "round-robin")
	records := func() (all int) {
		for _, served := range p.pools.now.Load().byName {
			all += len(served.history.list())
		}
		return all
	}
	at := time.Now()
	fill := func() {
		for name, served := range p.pools.now.Load().byName {
			for n := range 2 * historySize {
				at = at.Add(time.Second)
				if !served.history.due(at, 1) {
					t.Fatalf("%s: no record of pick %d, a second after the one before", name, n)
				}
				served.history.add(&Record{Pool: name, Tokens: n})
			}
			if newest := served.history.list()[0]; newest.Tokens != 2*historySize-1 {
				t.Fatalf("%s: the newest record is of pick %d, want %d", name, newest.Tokens, 2*historySize-1)
			}
		}
	}
	with := func(n int) {
		list := make([]Pool, n)
		for i := range list {
			list[i] = Pool{ID: poolID(fmt.Sprint("ns/", i)), Strategy: "round-robin"}
		}
		setPools(t, p, list...)
	}
	for _, c := range []struct{ pools, records int }{{1, historySize}, {16, 1024}, {100, 1000}, {1000, 4000}} {
		if with(c.pools); records() > c.records {
			t.Errorf("%d pools keep %d records of when they were fewer, want at most %d", c.pools, records(), c.records)
		}
		if fill(); records() != c.records {
			t.Errorf("%d pools have %d records, want %d", c.pools, records(), c.records)
		}
	}
	with(1)
	if fill(); records() != historySize {
		t.Errorf("the pool that is left has %d records, want %d", records(), historySize)
	}
}

// Notes of picks may outlive their pool, but must not keep its records in memory.
func TestExplain_RecordsOfRemovedPoolsAreGone(t *testing.T) {
	p := poolOf(t, 1, "round-robin")
	h := p.pool("ns/pool").history
	h.add(new(Record))
	if n := len(h.list()); n != 1 {
		t.Fatalf("%d records, want 1", n)
	}
	p.Remove(poolID("ns/pool"))
	p.Remove(poolID("ns/pool"))
	h.add(new(Record)) // of a pick that was in flight
	if n := len(h.list()); n != 0 {
		t.Errorf("%d records are left, want 0", n)
	}
}
