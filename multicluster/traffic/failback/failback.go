package failback

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/translator"
)

// Keeper tracks which clusters of imports have recovered too recently, and stores them in
// Failbacks.
type Keeper struct {
	store *store.Store
	log   *slog.Logger
	wake  chan struct{}

	mu      sync.Mutex
	imports map[objectid.Pool]*ordered
}

type ordered struct {
	members map[string]*member
	stored  []string
}

type member struct {
	damper selection.Damper
	gone   time.Time // when the cluster left the import; zero: it is in the import
}

// New makes a Keeper without imports.
func New(s *store.Store, log *slog.Logger) *Keeper {
	return &Keeper{store: s, log: log, wake: make(chan struct{}, 1), imports: map[objectid.Pool]*ordered{}}
}

// Follow records which clusters of the changed imports are ready, and updates their Failbacks.
func (k *Keeper) Follow(changed []translator.OrderedImport) {
	if len(changed) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	var ops []store.Op
	for _, c := range changed {
		o := k.imports[c.Import]
		if o == nil {
			o = &ordered{members: map[string]*member{}}
			k.imports[c.Import] = o
		}
		if c.Ready == nil {
			clear(o.members)
		} else {
			o.follow(now, c.Ready)
		}
		ops = append(ops, k.update(now, c.Import)...)
	}
	k.apply(ops)
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (o *ordered) follow(now time.Time, ready map[string]bool) {
	for name, up := range ready {
		m := o.members[name]
		switch {
		case m == nil && up:
			o.members[name] = &member{}
		case m != nil:
			m.gone = time.Time{}
			m.damper.Observe(now, up)
		}
	}
	for name, m := range o.members {
		if _, listed := ready[name]; !listed && m.gone.IsZero() {
			m.gone = now
			m.damper.Observe(now, false)
		}
	}
}

// The caller holds mu.
func (k *Keeper) update(now time.Time, p objectid.Pool) []store.Op {
	o := k.imports[p]
	maps.DeleteFunc(o.members, func(_ string, m *member) bool {
		return !m.gone.IsZero() && now.Sub(m.gone) >= selection.Recovery
	})
	var last []string
	for name, m := range o.members {
		if !m.damper.Up(now) {
			last = append(last, name)
		}
	}
	slices.Sort(last)
	if len(o.members) == 0 {
		delete(k.imports, p)
	}
	if slices.Equal(last, o.stored) {
		return nil
	}
	o.stored = last
	if len(last) == 0 {
		return []store.Op{store.Failbacks.Delete(p.String())}
	}
	f := &store.Failback{Clusters: last}
	f.Namespace, f.Name = p.Namespace, p.Name
	return []store.Op{store.Failbacks.Put(f)}
}

func (k *Keeper) apply(ops []store.Op) {
	if len(ops) == 0 {
		return
	}
	if _, err := k.store.Apply(ops...); err != nil {
		k.log.Error("the clusters that an import must try last cannot be stored", "error", err)
	}
}

// Run removes clusters from Failbacks once they have been ready for selection.Recovery, until ctx
// ends.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.wake:
		case <-timer.C:
		}
		timer.Stop()
		if at, ok := k.expire(); ok {
			timer.Reset(time.Until(at))
		}
	}
}

func (k *Keeper) expire() (next time.Time, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	var ops []store.Op
	for p, o := range k.imports {
		ops = append(ops, k.update(now, p)...)
		for _, m := range o.members {
			at, due := m.damper.Next(now)
			if !m.gone.IsZero() {
				at, due = m.gone.Add(selection.Recovery), true
			}
			if due && (!ok || at.Before(next)) {
				next, ok = at, true
			}
		}
	}
	k.apply(ops)
	return next, ok
}
