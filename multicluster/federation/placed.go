package federation

import (
	"context"
	"fmt"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/registry"
)

type placed struct {
	Reason  string `json:"reason,omitempty"` // "": the export is imported
	Message string `json:"message,omitempty"`
	// Incarnation identifies the version of the export that the report is on; nil: unknown.
	Incarnation *uint64 `json:"incarnation,omitempty"`
}

func (p placed) equal(o placed) bool {
	return p.Reason == o.Reason && p.Message == o.Message && (p.Incarnation == nil) == (o.Incarnation == nil) &&
		(p.Incarnation == nil || *p.Incarnation == *o.Incarnation)
}

// Bounds of the texts in a member's report, in bytes.
const (
	maxReason  = 64
	maxMessage = 512
)

// SetPlaced reports to each exporter (Placement.Member) whether this cluster imports its pools.
// list has all placements of pools: SetPlaced retracts earlier reports that list omits.
func (f *Federation) SetPlaced(pools []objectid.Pool, list []registry.Placement) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[objectid.Member]placed{}
	for _, p := range list {
		next[objectid.Member{Member: p.Member, Pool: p.Pool}] = placed{p.Reason, p.Message, &p.Incarnation}
	}
	var gone []string
	for _, p := range pools {
		for name := range f.placedAt[p] {
			m := objectid.Member{Member: name, Pool: p}
			if _, stays := next[m]; !stays {
				gone = append(gone, m.String())
				delete(f.placedAt[p], name)
			}
		}
	}
	var items []channel.Item
	for _, p := range list {
		m := objectid.Member{Member: p.Member, Pool: p.Pool}
		if old, ok := f.placedAt[p.Pool][p.Member]; ok && old.equal(next[m]) {
			continue
		}
		if f.placedAt[p.Pool] == nil {
			f.placedAt[p.Pool] = map[string]placed{}
		}
		f.placedAt[p.Pool][p.Member] = next[m]
		value, err := encoding.Marshal(next[m])
		if err != nil {
			return fmt.Errorf("the import of %s: %w", m, err)
		}
		items = append(items, channel.Item{Key: m.String(), Value: value})
	}
	for _, p := range pools {
		if len(f.placedAt[p]) == 0 {
			delete(f.placedAt, p)
		}
	}
	f.imports.Retract(gone...)
	f.imports.Publish(items...)
	return nil
}

func (f *Federation) receiveImports(ctx context.Context, in channel.Update) error {
	name := f.nameAt(in.Peer)
	if name == "" || in.Disconnected {
		return nil // a disconnected member retracts nothing
	}
	select {
	case <-f.decided:
	case <-ctx.Done():
		return ctx.Err()
	}
	out := registry.Reports{Member: name, Snapshot: in.Snapshot}
	var problems channel.Problems
	for _, it := range in.Items {
		pool, err := memberPool(it.Key)
		if err != nil {
			problems.Add(err)
			continue
		}
		if !f.audience.has(name, pool) {
			continue
		}
		state, err := decodePlaced(pool, it.Value)
		if err != nil {
			problems.Add(err)
			continue
		}
		out.Placed = append(out.Placed, state)
	}
	for _, k := range in.Retracted {
		if pool, err := memberPool(k); err == nil {
			out.Gone = append(out.Gone, pool)
		}
	}
	if out.Snapshot || len(out.Placed)+len(out.Gone) > 0 {
		f.cfg.Placed(out)
	}
	return problems.Err()
}

func decodePlaced(pool objectid.Pool, value []byte) (state registry.Placement, err error) {
	var p placed
	if err := decoding.Unmarshal(value, &p); err != nil || len(p.Reason) > maxReason {
		return state, fmt.Errorf("the import of %s: %.100q is no state of an import", pool, value)
	}
	state = registry.Placement{Pool: pool, Reason: p.Reason, Message: p.Message[:min(len(p.Message), maxMessage)],
		Any: p.Incarnation == nil}
	if p.Incarnation != nil {
		state.Incarnation = *p.Incarnation
	}
	return state, nil
}
