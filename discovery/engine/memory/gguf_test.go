package memory_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/engine/memory"
)

type file struct {
	keys, tensors uint64
	meta, shapes  bytes.Buffer
	data          int
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			put(b, uint64(len(s)))
			b.WriteString(s)
			continue
		}
		_ = binary.Write(b, binary.LittleEndian, v)
	}
}

// set adds a metadata key with a text, a uint32 or a list of these.
func (f *file) set(key string, value any) {
	f.keys++
	switch v := value.(type) {
	case string:
		put(&f.meta, key, uint32(8), v)
	case []uint32:
		put(&f.meta, key, uint32(9), uint32(4), uint64(len(v)), v)
	case []string:
		put(&f.meta, key, uint32(9), uint32(8), uint64(len(v)))
		for _, s := range v {
			put(&f.meta, s)
		}
	default:
		put(&f.meta, key, uint32(4), v)
	}
}

func (f *file) tensor(name string, kind uint32, size int, dims ...uint64) {
	f.tensors++
	put(&f.shapes, name, uint32(len(dims)), dims, kind, uint64(f.data))
	f.data += size
}

func (f *file) bytes() []byte {
	var out bytes.Buffer
	out.WriteString("GGUF")
	put(&out, uint32(3), f.tensors, f.keys)
	out.Write(f.meta.Bytes())
	out.Write(f.shapes.Bytes())
	out.Write(make([]byte, f.data))
	return out.Bytes()
}

// llama returns a model as llama.cpp's converter writes it, with 2 layers and 4 heads of 32
// elements.
func llama() *file {
	f := &file{}
	f.set("general.architecture", "llama")
	f.set("llama.block_count", uint32(2))
	f.set("llama.context_length", uint32(32768))
	f.set("llama.embedding_length", uint32(128))
	f.set("llama.attention.head_count", uint32(4))
	f.set("llama.attention.head_count_kv", uint32(2))
	f.set("tokenizer.ggml.tokens", []string{"a", "bc", strings.Repeat("d", 5000)})
	f.tensor("token_embd.weight", 0, 128*256*4, 128, 256)
	f.tensor("output.weight", 12, 128*256/256*144, 128, 256)
	f.tensor("blk.0.attn_q.weight", 8, 128*128/32*34, 128, 128)
	return f
}

func write(t testing.TB, name string, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	embedding = 128 * 256 * 4
	others    = 128*256/256*144 + 128*128/32*34
)

func TestGGUF_WeightsAndCacheAreTheSumsOfItsHeader(t *testing.T) {
	arrayed := func() *file {
		f := llama()
		f.set("llama.attention.head_count_kv", []uint32{2, 0})
		return f
	}
	windowed := func() *file {
		f := llama()
		f.set("llama.attention.sliding_window", uint32(1024))
		return f
	}
	for _, c := range []struct {
		name           string
		make           func() *file
		settings       memory.Settings
		weights, cache int64
	}{
		{"the model's own context", llama, memory.Settings{}, embedding + others, 32768 * 2 * 2 * 64 * 2},
		{"an engine that reduces it", llama, memory.Settings{LeastContext: 4096}, embedding + others,
			4096 * 2 * 2 * 64 * 2},
		{"a context that is set", llama, memory.Settings{Context: 65536, LeastContext: 4096, HostEmbedding: true},
			others,
			65536 * 2 * 2 * 64 * 2},
		{"a quantized cache", llama, memory.Settings{Context: 1024, Keys: "q8_0", Values: "q4_0"}, embedding + others,
			1024 * 2 * 64 * (34 + 18) / 32},
		{"a cache of full precision", llama, memory.Settings{Context: 1024, Keys: "f32", Values: "f32"}, embedding +
			others,
			1024 * 2 * 2 * 64 * 4},
		{"a layer without attention", arrayed, memory.Settings{Context: 1024}, embedding + others, 1024 * 2 * 64 * 2},
		{"a window", windowed, memory.Settings{Context: 65536}, embedding + others, 1024 * 2 * 2 * 64 * 2},
		{"embeddings", llama, memory.Settings{NoCache: true}, embedding + others, 0},
	} {
		m, err := memory.Read(write(t, "m.gguf", c.make().bytes()))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		need, known := memory.Estimate(m, c.settings)
		if !known || need.Weights != c.weights || need.Cache != c.cache {
			t.Errorf("%s: got %+v %v, want %d for weights and %d for the cache", c.name, need, known, c.weights,
				c.cache)
		}
	}
}

func TestGGUF_AllPartsOfAModelCount(t *testing.T) {
	dir := t.TempDir()
	first, second := llama(), &file{}
	first.set("split.count", uint32(2))
	second.set("split.no", uint32(1))
	second.tensor("blk.1.attn_q.weight", 0, 4096, 32, 32)
	path := filepath.Join(dir, "m-00001-of-00002.gguf")
	if err := os.WriteFile(path, first.bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := memory.Read(path); err == nil {
		t.Errorf("without its second part: got %+v, want no facts", m)
	}
	if err := os.WriteFile(filepath.Join(dir, "m-00002-of-00002.gguf"), second.bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := memory.Read(path)
	if want := int64(embedding + others + 4096); err != nil || m.Fixed != want {
		t.Errorf("got %+v %v, want %d bytes", m, err, want)
	}
	if m, err := memory.Read(filepath.Join(dir, "m-00002-of-00002.gguf")); err == nil {
		t.Errorf("the second part alone: got %+v, want no facts", m)
	}
	if m, err := memory.Read(write(t, "renamed.gguf", first.bytes())); err == nil {
		t.Errorf("the first part under another name: got %+v, want no facts", m)
	}
}

// For a file that Read does not support, there is no estimate, and so the server may start.
func TestGGUF_WhatIsNotKnownHasNoEstimate(t *testing.T) {
	header := func(tensors, keys uint64) []byte {
		var b bytes.Buffer
		b.WriteString("GGUF")
		put(&b, uint32(3), tensors, keys)
		return b.Bytes()
	}
	changed := func(change func(*file)) []byte {
		f := llama()
		change(f)
		return f.bytes()
	}
	hostile := map[string][]byte{
		"empty":               {},
		"another format":      []byte("PK\x03\x04 a zip archive, not a model"),
		"version 1":           append([]byte("GGUF\x01\x00\x00\x00"), make([]byte, 64)...),
		"many keys":           header(0, 1<<60),
		"many tensors":        header(1<<60, 0),
		"a long key":          append(header(0, 1), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"a cut file":          llama().bytes()[:300],
		"a cut data section":  llama().bytes()[:5500],
		"a type from later":   changed(func(f *file) { f.tensor("x", 250, 0, 32) }),
		"five dimensions":     changed(func(f *file) { f.tensor("x", 0, 4, 1, 1, 1, 1, 1) }),
		"a large dimension":   changed(func(f *file) { f.tensor("x", 0, 4, 1<<40, 1<<40) }),
		"more than the file":  changed(func(f *file) { f.tensor("x", 0, 4, 1<<32) }),
		"other architectures": changed(func(f *file) { f.set("general.architecture", "mamba") }),
		"many layers":         changed(func(f *file) { f.set("llama.block_count", uint32(1<<31)) }),
		"no layers":           changed(func(f *file) { f.set("llama.block_count", uint32(0)) }),
		"many heads":          changed(func(f *file) { f.set("llama.attention.head_count_kv", uint32(1<<31)) }),
		"heads of no layer":   changed(func(f *file) { f.set("llama.attention.head_count_kv", []uint32{1, 2, 3}) }),
		"large heads":         changed(func(f *file) { f.set("llama.attention.key_length", uint32(1<<31)) }),
		"a layer that drafts": changed(func(f *file) { f.set("llama.nextn_predict_layers", uint32(1)) }),
		"a list of lists": changed(func(f *file) {
			f.keys++
			put(&f.meta, "x", uint32(9), uint32(9), uint64(1), uint32(4), uint64(1), uint32(1))
		}),
		"a list without end": changed(func(f *file) {
			f.keys++
			put(&f.meta, "x", uint32(9), uint32(8), uint64(1<<62))
		}),
	}
	for name, raw := range hostile {
		if m, err := memory.Read(write(t, "m.gguf", raw)); err == nil {
			t.Errorf("%s: got %+v, want no facts", name, m)
		}
	}
	m, err := memory.Read(write(t, "m.gguf", llama().bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []memory.Settings{{Keys: "turboquant_k8v4"}, {Values: "q1"}, {Weights: "int3"}} {
		if need, known := memory.Estimate(m, s); known {
			t.Errorf("%+v: got %+v, want no estimate", s, need)
		}
	}
}

func FuzzGGUF_ASumIsWithinTheFile(f *testing.F) {
	f.Add(llama().bytes())
	second := &file{}
	second.tensor("blk.1.attn_q.weight", 0, 4096, 32, 32)
	f.Add(second.bytes())
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := memory.Read(write(t, "m.gguf", raw))
		if err != nil {
			return
		}
		if m.Fixed < 0 || m.Fixed > int64(len(raw)) || m.Embedding > m.Fixed {
			t.Errorf("weights of %d bytes, %d of them embeddings, in a file of %d", m.Fixed, m.Embedding, len(raw))
		}
		for _, s := range []memory.Settings{{}, {Context: 1 << 30, Keys: "f32", Values: "f32", HostEmbedding: true}} {
			if need, known := memory.Estimate(m, s); known && (need.Weights < 0 || need.Cache < 0 || need.Total() < 0) {
				t.Errorf("%+v needs %+v", m, need)
			}
		}
	})
}
