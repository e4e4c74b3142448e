package memorytest

import (
	"bytes"
	"encoding/binary"
	"os"
)

const (
	Layers  = 32
	Heads   = 8
	Head    = 128
	Context = 131072
	// Token is the size in bytes of the model's cache for one token, with 16 bits for each element.
	Token = 2 * 2 * Layers * Heads * Head
)

// Write writes a GGUF file whose header announces weights of this size in bytes, a multiple of 4.
// The file is sparse.
func Write(path string, weights int64) error {
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			if s, ok := v.(string); ok {
				v = append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
			}
			_ = binary.Write(&b, binary.LittleEndian, v) // a Buffer returns no error
		}
	}
	b.WriteString("GGUF")
	numbers := []any{"llama.block_count", uint32(Layers), "llama.context_length", uint32(Context),
		"llama.embedding_length", uint32(4096), "llama.attention.head_count", uint32(4096 / Head),
		"llama.attention.head_count_kv", uint32(Heads)}
	put(uint32(3), uint64(1), uint64(1+len(numbers)/2), "general.architecture", uint32(8), "llama")
	for i := 0; i < len(numbers); i += 2 {
		put(numbers[i], uint32(4), numbers[i+1])
	}
	put("output.weight", uint32(1), uint64(weights/4), uint32(0), uint64(0))
	err := os.WriteFile(path, b.Bytes(), 0o600)
	if err == nil {
		err = os.Truncate(path, int64(b.Len())+weights)
	}
	return err
}
