package schedule

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

type noter interface {
	note(r *Request, c *Candidate)
}

// noHitLRU implements llm-d's no-hit-lru-scorer. For a prompt that no endpoint has cached, it
// scores 1 for the endpoint whose last such prompt is the oldest, down to 0 for the newest. For
// other prompts, all endpoints score 0.5.
type noHitLRU struct {
	size int

	mu    sync.Mutex
	turn  uint64
	turns map[netip.AddrPort]uint64 // turn of the last prompt
}

func newNoHitLRU(p endpointpicker.Instance) pluginScorer {
	return &noHitLRU{size: p.Parameters.(*endpointpicker.NoHitLRU).LRUSize, turns: map[netip.AddrPort]uint64{}}
}

func (n *noHitLRU) add(v view, weight float64) {
	for i := range v.c {
		if v.c[i].Cached > 0 {
			for i := range v.c {
				v.c[i].Score += weight * 0.5
			}
			return
		}
	}
	turns := make([]uint64, len(v.c)) // 0 for an endpoint without such a prompt
	n.mu.Lock()
	for i := range v.c {
		turns[i] = n.turns[v.c[i].Endpoint.Addr]
	}
	n.mu.Unlock()
	ordered := slices.Sorted(slices.Values(turns))
	for i := range v.c {
		before, _ := slices.BinarySearch(ordered, turns[i])
		v.c[i].Score += weight * (1 - float64(before)/float64(max(len(v.c)-1, 1)))
	}
}

func (n *noHitLRU) note(_ *Request, c *Candidate) {
	if c.warm {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	at := c.Endpoint.Addr
	if _, known := n.turns[at]; !known && len(n.turns) >= n.size {
		oldest := netip.AddrPort{}
		for other, turn := range n.turns {
			if !oldest.IsValid() || turn < n.turns[oldest] {
				oldest = other
			}
		}
		delete(n.turns, oldest)
	}
	n.turn++
	n.turns[at] = n.turn
}

const maxMedia = 1 << 16

// mediaCache implements llm-d's mm-embeddings-cache-scorer: the score is the part of the request's
// media that the endpoint has received before.
type mediaCache struct {
	mu    sync.Mutex
	known map[mediaAt]*list.Element
	order list.List // elements are of type mediaAt, last used first
}

type mediaAt struct {
	item uint64
	at   netip.AddrPort
}

func newMediaCache(endpointpicker.Instance) pluginScorer {
	return &mediaCache{known: map[mediaAt]*list.Element{}}
}

func (m *mediaCache) add(v view, weight float64) {
	if len(v.r.Items) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range v.c {
		matched := 0
		for _, item := range v.r.Items {
			if m.known[mediaAt{item, v.c[i].Endpoint.Addr}] != nil {
				matched++
			}
		}
		v.c[i].Score += weight * float64(matched) / float64(len(v.r.Items))
	}
}

func (m *mediaCache) note(r *Request, c *Candidate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range r.Items {
		key := mediaAt{item, c.Endpoint.Addr}
		if e := m.known[key]; e != nil {
			m.order.MoveToFront(e)
			continue
		}
		m.known[key] = m.order.PushFront(key)
		if len(m.known) > maxMedia {
			delete(m.known, m.order.Remove(m.order.Back()).(mediaAt))
		}
	}
}

// headerLabel implements llm-d's header-label-affinity-scorer: the score is 1 if the endpoint's
// label LabelKey equals the request's header HeaderName, else 0.
type headerLabel struct {
	*endpointpicker.HeaderLabel
}

func (h headerLabel) add(v view, weight float64) {
	if v.r.Header == nil {
		return
	}
	value := v.r.Header(h.HeaderName)
	if len(value) == 0 {
		return
	}
	for i := range v.c {
		if label, ok := v.c[i].Endpoint.Labels[h.LabelKey]; ok && label == string(value) {
			v.c[i].Score += weight
		}
	}
}
