package kvevents

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/penstock-project/penstock/picker/prefix"
)

// engine publishes events as a model server does: blocks of some size, with its own hashes.
type engine struct {
	size  int
	asMap bool
	bytes bool // the hashes are bytes, not numbers
	seed  uint64
}

// hash returns the engine's own hash, which is unrelated to Penstock's keys.
func (e *engine) hash(tokens []uint32) any {
	h := e.seed
	for _, id := range tokens {
		h = h*0x100000001b3 + uint64(id) + 1
	}
	if e.bytes {
		return append(binary.BigEndian.AppendUint64(nil, h), make([]byte, 24)...)
	}
	return h
}

type options struct {
	parent int // preceding blocks, which tokens includes
	lora   string
	medium string
	extra  []any
}

func (e *engine) stored(tokens []uint32, o options) any {
	var hashes []any
	for n := (o.parent + 1) * e.size; n <= len(tokens); n += e.size {
		hashes = append(hashes, e.hash(tokens[:n]))
	}
	var parent, lora, medium, extra any
	if o.parent > 0 {
		parent = e.hash(tokens[:o.parent*e.size])
	}
	if o.lora != "" {
		lora = o.lora
	}
	if o.medium != "" {
		medium = o.medium
	}
	if o.extra != nil {
		extra = o.extra
	}
	ids := tokens[o.parent*e.size:]
	ids = ids[:len(hashes)*e.size]
	if e.asMap {
		return map[string]any{
			"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "token_ids": ids,
			"block_size": e.size,
			"lora_name":  lora, "medium": medium, "extra_keys": extra, "kv_cache_spec_kind": "full_attention",
		}
	}
	return []any{"BlockStored", hashes, parent, ids, e.size, nil, medium, lora, extra}
}

func (e *engine) removed(tokens []uint32, from, to int, medium string) any {
	var hashes []any
	for n := from + 1; n <= to; n++ {
		hashes = append(hashes, e.hash(tokens[:n*e.size]))
	}
	if e.asMap {
		return map[string]any{"type": "BlockRemoved", "block_hashes": hashes, "medium": medium}
	}
	return []any{"BlockRemoved", hashes, medium}
}

func (e *engine) cleared() any {
	if e.asMap {
		return map[string]any{"type": "AllBlocksCleared"}
	}
	return []any{"AllBlocksCleared"}
}

func batch(t testing.TB, events ...any) []byte {
	t.Helper()
	b, err := msgpack.Marshal([]any{1763850000.25, events, 0})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ids(n int, seed uint32) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)*7 + seed*1000003
	}
	return out
}

type world struct {
	t      testing.TB
	index  *prefix.Index
	server *prefix.Server
	quota  quota
	stream stream
	seq    uint64
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, index: prefix.New(prefix.Config{Seed: 42})}
	w.server = w.index.Server(netip.MustParseAddrPort("10.0.0.1:8000"))
	w.quota.limit = DefaultBlocks
	w.quota.servers.Add(1)
	w.stream.tree = tree{index: w.index, server: w.server, quota: &w.quota}
	return w
}

func (w *world) publish(events ...any) {
	w.t.Helper()
	if err := w.stream.message(w.seq, batch(w.t, events...)); err != nil {
		w.t.Fatal(err)
	}
	w.seq++
}

func (w *world) cached(tokens []uint32, model string, salt uint64) int {
	return cachedAt(w.index, w.server, tokens, model, salt)
}

func cachedAt(index *prefix.Index, server *prefix.Server, tokens []uint32, model string, salt uint64) int {
	var prompt prefix.Tokens
	for _, id := range tokens {
		prompt.Add(id)
	}
	exact := prompt.Exact()
	exact.Salt = salt
	cached := []int32{-1}
	index.MatchReports(&exact, model, []*prefix.Server{server}, cached)
	return int(cached[0])
}

func (w *world) want(what string, got, want int) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %d tokens count as cached, want %d", what, got, want)
	}
}

func TestKVEvents_ShowWhatAServerHasCached(t *testing.T) {
	for _, size := range []int{1, 16, 48, 64, 100, 256, 512} {
		for _, e := range []engine{{size: size}, {size: size, asMap: true, seed: 7}, {size: size, bytes: true}} {
			w := newWorld(t)
			tokens := ids(5120, 1)
			blocks := len(tokens) / size
			full := 64 * (blocks * size / 64)
			half := 64 * ((blocks / 2) * size / 64)

			w.publish(e.stored(tokens[:blocks/2*size], options{medium: "GPU"}))
			w.want("the first half", w.cached(tokens, "base", 0), half)
			w.publish(e.stored(tokens, options{parent: blocks / 2, medium: "GPU"}))
			w.want("all", w.cached(tokens, "base", 0), full)
			w.want("another prompt", w.cached(ids(5120, 2), "base", 0), 0)

			w.publish(e.removed(tokens, blocks/2, blocks, "GPU"))
			w.want("after a removal", w.cached(tokens, "base", 0), half)
			if got := int(w.quota.used.Load()); got != blocks/2 {
				t.Errorf("%d blocks are kept, want %d", got, blocks/2)
			}
			w.publish(e.cleared())
			w.want("after a clear", w.cached(tokens, "base", 0), 0)
			if w.quota.used.Load() != 0 {
				t.Errorf("%d blocks are kept after a clear, want 0", w.quota.used.Load())
			}
			if w.server.Knowledge() != prefix.Reported {
				t.Errorf("the server is %v, want %v", w.server.Knowledge(), prefix.Reported)
			}
			if t.Failed() {
				t.Fatalf("with %+v", e)
			}
		}
	}
}

func TestKVEvents_AdapterSaltAndImageAreOfOtherPrompts(t *testing.T) {
	w := newWorld(t)
	e := engine{size: 16}
	tokens := ids(640, 1)
	w.publish(e.stored(tokens, options{lora: "sql", extra: repeated(40, []any{"sql"})}))
	w.want("the adapter", w.cached(tokens, "sql", 0), 640)
	w.want("the base model", w.cached(tokens, "base", 0), 0)

	salted := engine{size: 16, seed: 1}
	w.publish(salted.stored(tokens, options{extra: append([]any{[]any{"tenant"}}, repeated(39, nil)...)}))
	w.want("the salt", w.cached(tokens, "base", prefix.NameHash([]byte("tenant"))), 640)
	w.want("without the salt", w.cached(tokens, "base", 0), 0)
	w.want("another salt", w.cached(tokens, "base", prefix.NameHash([]byte("other"))), 0)

	image := engine{size: 16, seed: 2}
	extra := repeated(40, nil)
	extra[20] = []any{[]any{"sha256 of an image", 3}}
	w.publish(image.stored(tokens, options{extra: extra}))
	w.want("up to the image", w.cached(tokens, "base", 0), 320)
}

func repeated(n int, v any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestKVEvents_OffloadedBlockStaysCached(t *testing.T) {
	w := newWorld(t)
	e := engine{size: 64}
	tokens := ids(128, 1)
	w.publish(e.stored(tokens, options{medium: "GPU"}))
	hashes := []any{e.hash(tokens[:64]), e.hash(tokens)}
	// An event about a copy has no tokens.
	w.publish([]any{"BlockStored", hashes, nil, []uint32{}, 64, nil, "CPU"})
	w.publish(e.removed(tokens, 0, 2, "GPU"))
	w.want("in the CPU's memory", w.cached(tokens, "base", 0), 128)
	w.publish(e.removed(tokens, 0, 2, "CPU"))
	w.want("nowhere", w.cached(tokens, "base", 0), 0)
}

func TestKVEvents_SecondCacheGroupDoesNotCount(t *testing.T) {
	w := newWorld(t)
	e := engine{size: 64, asMap: true}
	tokens := ids(128, 1)
	w.publish(e.stored(tokens, options{}))
	other := e.removed(tokens, 0, 2, "GPU").(map[string]any)
	other["group_idx"] = 1 // a sliding window, whose blocks are evicted earlier
	w.publish(other)
	w.want("group 0", w.cached(tokens, "base", 0), 128)
}

func TestKVEvents_GapDropsWhatWasReported(t *testing.T) {
	w := newWorld(t)
	e := engine{size: 64}
	tokens := ids(256, 1)
	w.publish(e.stored(tokens, options{}))
	if w.server.Knowledge() != prefix.Reported {
		t.Errorf("from the first message on, the server is %v, want %v", w.server.Knowledge(), prefix.Reported)
	}
	w.seq += 3
	if from, missing := w.stream.missing(w.seq); !missing || from != 1 {
		t.Errorf("missing from %d: %v, want from 1", from, missing)
	}
	w.publish(e.stored(ids(256, 2), options{}))
	if w.server.Knowledge() != prefix.Partly {
		t.Errorf("after a gap the server is %v, want %v", w.server.Knowledge(), prefix.Partly)
	}
	cached := cachedAt(w.index, w.server, tokens, "", 0)
	w.want("from before the gap", cached, 0)
	w.want("from behind the gap", w.cached(ids(256, 2), "", 0), 256)
	w.publish(e.stored(tokens, options{parent: 2})) // the parent was in the lost messages
	w.want("behind an unknown parent", w.cached(tokens, "", 0), 0)
	w.publish(e.cleared())
	if w.server.Knowledge() != prefix.Reported {
		t.Errorf("after a clear the server is %v, want %v", w.server.Knowledge(), prefix.Reported)
	}
}

func TestKVEvents_RestartedServerHasNothing(t *testing.T) {
	w := newWorld(t)
	e := engine{size: 64}
	tokens := ids(256, 1)
	w.publish(e.stored(tokens, options{}))
	w.publish(e.stored(ids(256, 2), options{}))
	w.seq = 0
	if _, missing := w.stream.missing(0); missing {
		t.Error("messages are missing before the first")
	}
	w.publish(e.stored(ids(256, 3), options{}))
	w.want("from before", w.cached(tokens, "", 0), 0)
	w.want("from after", w.cached(ids(256, 3), "", 0), 256)
	if w.server.Knowledge() != prefix.Reported {
		t.Errorf("the server is %v, want %v", w.server.Knowledge(), prefix.Reported)
	}
}

func TestKVEvents_BlocksAreBounded(t *testing.T) {
	w := newWorld(t)
	w.quota.limit = 20
	w.quota.servers.Add(1)
	e := engine{size: 64}
	tokens := ids(64*15, 1)
	w.publish(e.stored(tokens, options{}))
	w.want("the first ten", w.cached(tokens, "", 0), 640)
	if w.stream.tree.dropped != 5 || len(w.stream.tree.blocks) != 10 {
		t.Errorf("%d blocks are kept, %d dropped, want 5 and 10", len(w.stream.tree.blocks), w.stream.tree.dropped)
	}
}

func FuzzStream_Survives(f *testing.F) {
	e, m := engine{size: 16}, engine{size: 16, asMap: true, bytes: true}
	tokens := ids(160, 1)
	for _, e := range []engine{e, m} {
		f.Add(batch(f, e.stored(tokens, options{lora: "sql", extra: repeated(10, []any{"sql", "salt"})}),
			e.removed(tokens, 2, 5, "GPU")))
		f.Add(batch(f, e.stored(tokens[:32], options{}), e.stored(tokens, options{parent: 2, medium: "CPU"}),
			e.cleared()))
	}
	f.Add([]byte{0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, p []byte) {
		w := newWorld(t)
		w.publish(e.stored(tokens, options{}))
		err := w.stream.message(w.seq, p)
		if err != nil && len(w.stream.tree.blocks) > 0 {
			t.Error("a broken batch leaves blocks")
		}
		w.stream.forget()
		if w.quota.used.Load() != 0 {
			t.Errorf("%d blocks are kept, want 0", w.quota.used.Load())
		}
		if got := w.cached(tokens, "", 0); got != -1 {
			t.Errorf("%d tokens are reported by nothing, want %d", got, -1)
		}
	})
}
