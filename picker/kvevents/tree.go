package kvevents

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-project/penstock/picker/prefix"
)

type tree struct {
	index  *prefix.Index
	server *prefix.Server
	quota  *quota
	blocks map[uint64]block
	// inner maps an engine's block to the keys of the prefix blocks that end inside this block.
	inner   map[uint64][]uint64
	dropped uint64
}

type block struct {
	seed  uint64
	end   prefix.Place
	media media
	held  bool // prefix.Server has the prefix block that ends with this block
}

type media uint8

const (
	gpu media = 1 << iota
	cpu
	elsewhere
)

type quota struct {
	limit   int64
	used    atomic.Int64
	servers atomic.Int64
}

// take reserves one more block for a server that has n blocks. It returns false at the server's
// equal share of the limit, or at the limit.
func (q *quota) take(n int) bool {
	if int64(n) >= q.limit/max(q.servers.Load(), 1) {
		return false
	}
	if q.used.Add(1) > q.limit {
		q.used.Add(-1)
		return false
	}
	return true
}

const maxBlockSize = 1 << 16 // in tokens

func (t *tree) apply(e *event) (cleared bool) {
	if e.tag == allBlocksCleared {
		t.clear()
		return true
	}
	if e.group != nil && number(e.group) != 0 {
		return false
	}
	switch e.tag {
	case blockStored:
		t.store(e)
	case blockRemoved:
		t.remove(e)
	}
	return false
}

func medium(raw []byte) media {
	if raw == nil {
		return gpu
	}
	r := reader{p: raw}
	switch string(r.text()) {
	case "", "GPU", "gpu", "cuda":
		return gpu
	case "CPU", "cpu", "CPU_PINNED":
		return cpu
	}
	return elsewhere
}

func (t *tree) store(e *event) {
	at := medium(e.medium)
	hashes, n := list(e.hashes)
	tokens, count := list(e.tokens)
	size := number(e.size)
	if count == 0 { // the engine copied blocks to another medium
		for range n {
			hash, ok := hashes.blockHash()
			if b, known := t.blocks[hash]; ok && known {
				b.media |= at
				t.blocks[hash] = b
			}
		}
		return
	}
	if size <= 0 || size > maxBlockSize || count/size < n {
		t.dropped += uint64(n)
		return
	}
	adapter := e.adapter()
	place, seed, root, ok := t.parent(e, adapter)
	if !ok {
		t.dropped += uint64(n)
		return
	}
	if adapter != 0 {
		t.server.NoteAdapter(adapter)
	}
	extra, extras := list(e.extra)
	for i := range n {
		hash, ok := hashes.blockHash()
		if i < extras {
			t.mixExtra(&extra, e, &place, &seed, root && i == 0)
		}
		if !ok || hashes.bad || extra.bad && extras > 0 || !t.add(hash, &tokens, size, &place, seed, at) {
			t.dropped += uint64(n - i)
			return
		}
	}
}

func (t *tree) parent(e *event, adapter uint64) (place prefix.Place, seed uint64, root, ok bool) {
	if e.parent != nil {
		r := reader{p: e.parent}
		hash, ok := r.blockHash()
		if b, known := t.blocks[hash]; ok && known {
			return b.end, b.seed, false, true
		}
		if !ok || hash != 0 { // some engines send 0 as the parent of a prompt's first block
			return place, 0, false, false
		}
	}
	return place, t.index.ReportSeed(adapter, 0), true, true
}

// mixExtra changes a block's seed or place by the block's extra keys. A string in the first block
// is a cache salt, which is also part of a request's seed. Other extra keys, such as hashes of
// images, make the block match no request.
func (t *tree) mixExtra(extra *reader, e *event, place *prefix.Place, seed *uint64, first bool) {
	raw := extra.skip()
	keys, n := list(raw)
	name := e.adapterName()
	for range n {
		key := keys.skip()
		if len(key) == 0 {
			return
		}
		r := reader{p: key}
		switch s := r.text(); {
		case s != nil && len(name) > 0 && string(s) == string(name):
		case s != nil && first:
			*seed = t.index.ReportSeed(e.adapter(), prefix.NameHash(s))
			first = false
		default:
			place.Mix(xxhash.Sum64(key))
		}
	}
}

func (t *tree) add(hash uint64, tokens *reader, size int, place *prefix.Place, seed uint64, at media) bool {
	if b, known := t.blocks[hash]; known { // reported before, perhaps on another medium
		for range size {
			tokens.head()
		}
		b.media |= at
		t.blocks[hash] = b
		*place = b.end
		return !tokens.bad
	}
	if !t.quota.take(len(t.blocks)) {
		return false
	}
	var inner []uint64
	held := false
	for i := range size {
		id := tokens.head()
		if id.kind != integer {
			t.quota.used.Add(-1)
			for _, key := range inner {
				t.server.Drop(key)
			}
			return false
		}
		if !place.Next(uint32(id.n)) {
			continue
		}
		if ok := t.server.Hold(place.Key(seed)); i == size-1 {
			held = ok
		} else if ok {
			inner = append(inner, place.Key(seed))
		}
	}
	if t.blocks == nil {
		t.blocks = map[uint64]block{}
	}
	t.blocks[hash] = block{seed: seed, end: *place, media: at, held: held}
	if inner != nil {
		if t.inner == nil {
			t.inner = map[uint64][]uint64{}
		}
		t.inner[hash] = inner
	}
	return true
}

func (t *tree) remove(e *event) {
	at := medium(e.medium)
	hashes, n := list(e.hashes)
	for range n {
		hash, ok := hashes.blockHash()
		b, known := t.blocks[hash]
		if !ok || !known {
			continue
		}
		if b.media &^= at; b.media != 0 {
			t.blocks[hash] = b
			continue
		}
		if b.held {
			t.server.Drop(b.end.Key(b.seed))
		}
		for _, key := range t.inner[hash] {
			t.server.Drop(key)
		}
		delete(t.inner, hash)
		delete(t.blocks, hash)
		t.quota.used.Add(-1)
	}
}

func (t *tree) clear() {
	t.quota.used.Add(-int64(len(t.blocks)))
	t.blocks, t.inner = nil, nil
	t.server.ClearReports()
}
