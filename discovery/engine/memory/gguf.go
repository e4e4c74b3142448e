package memory

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"strings"
)

// gguf collects the metadata and the tensors' sizes from the headers of GGUF files. A header has a
// magic number, the version, two counts, keys with values, and the shapes of tensors
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
type gguf struct {
	left    int64 // bytes of headers that may still be read
	arch    string
	numbers map[string][]int64 // metadata with numbers as values, by key
	total   int64
	tensors int64
	names   map[string]int64 // sizes in bytes of the tensors that have their own field in Model
}

const (
	maxKeys     = 1 << 16
	maxKey      = 1 << 10
	maxNumbers  = maxLayers // bounds a list of numbers that is kept
	ggufMagic   = "GGUF"
	embeddings  = "token_embd.weight"
	ownedOutput = "output.weight"
)

// ggufArchitectures are the supported values of general.architecture: all layers of these models
// have a standard cache of keys and values.
var ggufArchitectures = []string{"command-r", "cohere2", "exaone", "exaone4", "gemma", "gemma2", "gemma3", "gpt-oss",
	"granite", "granitemoe", "internlm2", "llama", "mistral3", "olmo", "olmo2", "olmoe", "phi3", "qwen2", "qwen2moe",
	"qwen3", "qwen3moe", "seed_oss", "smollm3", "stablelm", "starcoder2"}

// block is the layout of a tensor type: blocks of elements, with their size in bytes.
type block struct{ elements, bytes int64 }

// blocks has the layouts of ggml's tensor types, copied from gguf.constants.GGML_QUANT_SIZES of the
// Python package gguf.
var blocks = map[uint32]block{
	0: {1, 4}, 1: {1, 2}, 2: {32, 18}, 3: {32, 20}, 6: {32, 22}, 7: {32, 24}, 8: {32, 34}, 10: {256, 84},
	11: {256, 110}, 12: {256, 144}, 13: {256, 176}, 14: {256, 210}, 15: {256, 292}, 16: {256, 66}, 17: {256, 74},
	18: {256, 98}, 19: {256, 50}, 20: {32, 18}, 21: {256, 110}, 22: {256, 82}, 23: {256, 136}, 24: {1, 1}, 25: {1, 2},
	26: {1, 4}, 27: {1, 8}, 28: {1, 8}, 29: {256, 56}, 30: {1, 2}, 34: {256, 54}, 35: {256, 66}, 39: {32, 17},
	40: {64, 36}, 41: {128, 18},
}

// read adds the header of a file. Only the first file of a model has the metadata.
func (g *gguf) read(f io.Reader, size int64, first bool) error {
	if g.names == nil {
		g.names, g.numbers = map[string]int64{}, map[string][]int64{}
	}
	bound := min(g.left, size)
	limited := &io.LimitedReader{R: f, N: bound}
	r := &reader{in: bufio.NewReaderSize(limited, 1<<16)}
	if magic := r.text(4, 4); magic != ggufMagic {
		return unknown("the file is not in the format GGUF")
	}
	if version := r.u32(); version != 2 && version != 3 {
		return unknown("version %d of the format GGUF", version)
	}
	tensors, keys := r.u64(), r.u64()
	if r.err == nil && (keys > maxKeys || tensors > uint64(maxTensors-g.tensors)) {
		return unknown("a GGUF with %d keys and %d tensors", keys, tensors)
	}
	for i := uint64(0); i < keys && r.err == nil; i++ {
		key := r.text(r.u64(), maxKey)
		g.value(r, key, r.u32(), first)
	}
	var sum int64
	for i := uint64(0); i < tensors && r.err == nil; i++ {
		n, err := g.tensor(r)
		if err != nil {
			return err
		}
		if sum += n; sum > size {
			return unknown("tensors of more bytes than the file has")
		}
	}
	if r.err != nil {
		return unknown("the header is cut, or longer than %d bytes", int64(maxGGUF))
	}
	g.left, g.total, g.tensors = g.left-(bound-limited.N), g.total+sum, g.tensors+int64(tensors)
	return nil
}

// Types of metadata values without a fixed size.
const (
	ggufString = 8
	ggufArray  = 9
)

// widths has the sizes in bytes of the other types of metadata values.
var widths = map[uint32]int64{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

// value reads the value of a key. It keeps the value only if keep is true and the key is in wanted.
func (g *gguf) value(r *reader, key string, kind uint32, keep bool) {
	count := uint64(1)
	if kind == ggufArray {
		kind, count = r.u32(), r.u64()
	}
	_, name, _ := strings.Cut(key, ".")
	keep = keep && (key == "split.count" || wanted[name])
	var kept []int64
	switch width := widths[kind]; {
	case kind == ggufString && keep && key == "general.architecture":
		g.arch = r.text(r.u64(), maxKey)
	case kind == ggufString:
		for i := uint64(0); i < count && r.err == nil; i++ {
			r.skip(r.u64())
		}
	case width == 0: // a list of lists, or a type of a newer GGUF version
		r.err = errUnknown
	case !keep || kind == 6 || kind == 12 || count > maxNumbers:
		if count > math.MaxInt64/8 {
			r.err = errUnknown
			return
		}
		r.skip(count * uint64(width))
	default:
		for i := uint64(0); i < count && r.err == nil; i++ {
			kept = append(kept, r.integer(int(width)))
		}
		g.numbers[key] = kept
	}
}

// wanted has the keys that are kept, without their first part, the architecture.
var wanted = map[string]bool{
	"architecture": true, "block_count": true, "context_length": true, "embedding_length": true,
	"attention.head_count": true, "attention.head_count_kv": true, "attention.key_length": true,
	"attention.value_length": true, "attention.sliding_window": true, "nextn_predict_layers": true,
}

func (g *gguf) tensor(r *reader) (int64, error) {
	name := r.text(r.u64(), maxKey)
	dims := r.u32()
	if r.err == nil && dims > 4 {
		return 0, unknown("a tensor with %d dimensions", dims)
	}
	elements := int64(1)
	for i := uint32(0); i < dims && r.err == nil; i++ {
		d := r.u64()
		if d == 0 || d > uint64(maxWeights) || elements > maxWeights/int64(d) {
			return 0, unknown("a tensor with a dimension of %d", d)
		}
		elements *= int64(d)
	}
	kind := r.u32()
	r.skip(8) // skips the offset of the tensor's data
	if r.err != nil {
		return 0, nil
	}
	b, known := blocks[kind]
	if !known {
		return 0, unknown("a tensor of type %d", kind)
	}
	size := elements / b.elements * b.bytes
	if name == embeddings || name == ownedOutput {
		g.names[name] = size
	}
	return size, nil
}

// model returns the Model. Call it after all files were read.
func (g *gguf) model(files int) (m Model, err error) {
	one := func(key string) int64 {
		if list := g.numbers[g.arch+"."+key]; len(list) == 1 {
			return list[0]
		}
		return 0
	}
	if !slices.Contains(ggufArchitectures, g.arch) {
		return m, unknown("general.architecture %.64q", g.arch)
	}
	if count := g.numbers["split.count"]; len(count) == 1 && count[0] != int64(files) && count[0] > 1 {
		return m, unknown("%d of %d files", files, count[0])
	}
	m.Layers, m.Fixed, m.Quantized = one("block_count"), g.total, true
	heads := one("attention.head_count")
	width := int64(0)
	if heads > 0 {
		width = one("embedding_length") / heads
	}
	key, value := width, width
	if n := one("attention.key_length"); n != 0 {
		key = n
	}
	if n := one("attention.value_length"); n != 0 {
		value = n
	}
	if !within(m.Layers, maxLayers) || !within(key, maxHead) || !within(value, maxHead) ||
		one("nextn_predict_layers") != 0 || !within(m.Fixed, maxWeights) {
		return m, unknown("the metadata has %d layers and heads of %d", m.Layers, key)
	}
	all, err := g.heads(m.Layers, heads)
	if err != nil {
		return m, err
	}
	if m.Keys, m.Values = all*key, all*value; m.Keys > maxElements || m.Values > maxElements {
		return m, unknown("a cache of %d elements for each token", m.Keys)
	}
	// The metadata does not state which layers have the window.
	if window := one("attention.sliding_window"); window != 0 {
		m.Window = min(max(window, 1), maxContext)
		m.WindowedKeys, m.WindowedValues, m.Keys, m.Values = m.Keys, m.Values, 0, 0
	}
	if _, own := g.names[ownedOutput]; own {
		m.Embedding = g.names[embeddings]
	}
	if n := one("context_length"); within(n, maxContext) {
		m.Context = n
	}
	return m, nil
}

func (g *gguf) heads(layers, heads int64) (all int64, err error) {
	list := g.numbers[g.arch+".attention.head_count_kv"]
	if len(list) == 0 {
		list = []int64{heads}
	}
	for _, n := range list {
		if n < 0 || n > maxHeads {
			return 0, unknown("%d heads of keys", n)
		}
		all += n
	}
	switch {
	case len(list) == 1:
		all *= layers
	case int64(len(list)) != layers:
		return 0, unknown("%d numbers of heads for %d layers", len(list), layers)
	}
	if all == 0 {
		return 0, unknown("no heads of keys")
	}
	return all, nil
}

// reader reads numbers and texts of a GGUF header. After an error, it returns zeros.
type reader struct {
	in  *bufio.Reader
	err error
	buf [8]byte
}

func (r *reader) bytes(n int) []byte {
	if r.err == nil {
		_, r.err = io.ReadFull(r.in, r.buf[:n])
	}
	if r.err != nil {
		clear(r.buf[:])
	}
	return r.buf[:n]
}

func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

// integer reads a number of 1, 2, 4 or 8 bytes. A number above math.MaxInt64 becomes -1.
func (r *reader) integer(width int) int64 {
	clear(r.buf[:])
	r.bytes(width)
	if n := binary.LittleEndian.Uint64(r.buf[:]); n <= math.MaxInt64 {
		return int64(n)
	}
	return -1
}

func (r *reader) text(n uint64, limit int) string {
	if r.err == nil && n > uint64(limit) {
		r.err = errUnknown
	}
	if r.err != nil {
		return ""
	}
	out := make([]byte, n)
	_, r.err = io.ReadFull(r.in, out)
	return string(out)
}

func (r *reader) skip(n uint64) {
	if r.err == nil && n > maxGGUF {
		r.err = errUnknown
	}
	if r.err == nil {
		_, r.err = r.in.Discard(int(n))
	}
}
