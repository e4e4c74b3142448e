package memory_test

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/discovery/engine/memory"
)

// tensors returns a safetensors file. all has, for each tensor, its type and size in bytes.
func tensors(t testing.TB, all map[string]any) []byte {
	t.Helper()
	header, at := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, int64(0)
	for name, v := range all {
		size := v.([2]any)[1].(int)
		header[name] = map[string]any{"dtype": v.([2]any)[0], "shape": []int{1}, "data_offsets": []int64{at, at +
			int64(size)}}
		at += int64(size)
	}
	raw, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(raw)))
	return append(append(out, raw...), make([]byte, at)...)
}

func typed(kind string, bytes int) [2]any { return [2]any{kind, bytes} }

// folder writes a model with the layout of Hugging Face's models, and returns its folder.
func folder(t testing.TB, config map[string]any, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(files)
	all["config.json"] = raw
	for name, raw := range all {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func qwen(change map[string]any) map[string]any {
	c := map[string]any{"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4,
		"num_key_value_heads": 2, "max_position_embeddings": 32768, "tie_word_embeddings": false,
		"sliding_window": 4096, "use_sliding_window": false, "rope_scaling": nil}
	maps.Copy(c, change)
	return c
}

func weights(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"model-00001-of-00002.safetensors": tensors(t, map[string]any{"model.embed_tokens.weight": typed("BF16", 4000),
			"model.layers.0.q.weight": typed("F32", 800), "model.layers.0.rotary_emb.inv_freq": typed("F32", 128)}),
		"model-00002-of-00002.safetensors": tensors(t, map[string]any{"lm_head.weight": typed("BF16", 4000),
			"model.layers.1.q.weight": typed("I32", 800), "model.layers.2.mtp.weight": typed("BF16", 6000)}),
		"consolidated.safetensors": tensors(t, map[string]any{"tok_embeddings.weight": typed("BF16", 4000)}),
		"tokenizer_config.json":    []byte(`{"model_max_length": 1e30}`),
	}
}

// all is the size of the weights: the tensor of fixed type, and the other tensors in 16 bits.
const all = 800 + 4000 + 400 + 4000

func TestSafetensors_WeightsAndCacheAreWhatEveryEngineLoads(t *testing.T) {
	token := int64(2 * 2 * 64 * 2)
	for _, c := range []struct {
		name           string
		config         map[string]any
		settings       memory.Settings
		weights, cache int64
	}{
		{"the model's own context", nil, memory.Settings{}, all, 32768 * token},
		{"a context that is set", nil, memory.Settings{Context: 1000}, all, 1000 * token},
		{"a context with what there is", nil, memory.Settings{Context: memory.Auto}, all, 0},
		{"a quantized cache", nil, memory.Settings{Context: 1000, Keys: "fp8", Values: "fp8"}, all, 500 * token},
		{"full precision", nil, memory.Settings{Context: 1000, Weights: "float32"}, 800 + 2*(all-800), 2000 * token},
		{"tied embeddings", map[string]any{"tie_word_embeddings": true}, memory.Settings{Context: 1}, all - 4000,
			token},
		{"a large head", map[string]any{"head_dim": 64}, memory.Settings{Context: 1}, all, 2 * token},
		{"a cache that the model quantizes", map[string]any{"quantization_config": map[string]any{
			"kv_cache_scheme": map[string]any{}}},
			memory.Settings{Context: 1000}, all, 500 * token},
		{"a window", map[string]any{"use_sliding_window": true}, memory.Settings{}, all, 4096 * token},
		{"a window in one of two layers", map[string]any{"use_sliding_window": true,
			"layer_types": []string{"full_attention", "sliding_attention"}}, memory.Settings{}, all,
			(32768 + 4096) * token / 2},
		{"llama3's longer context", map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3",
			"original_max_position_embeddings": 8192}}, memory.Settings{}, all, 32768 * token},
		{"longrope", map[string]any{"rope_scaling": map[string]any{"type": "longrope",
			"original_max_position_embeddings": 4096}}, memory.Settings{}, all, 4096 * token},
	} {
		m, err := memory.Read(folder(t, qwen(c.config), weights(t)))
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
	files := weights(t)
	files["tokenizer_config.json"] = []byte(`{"model_max_length": 2048}`)
	if m, err := memory.Read(folder(t, qwen(nil), files)); err != nil || m.Context != 2048 {
		t.Errorf("the tokenizer's limit: got %+v %v, want a context of 2048", m, err)
	}
}

func TestSafetensors_WhatIsNotKnownHasNoEstimate(t *testing.T) {
	broken := func(name string, raw []byte) map[string][]byte {
		files := weights(t)
		files[name] = raw
		return files
	}
	raw := tensors(t, map[string]any{"x": typed("F32", 400)})
	const part = "model-00002-of-00002.safetensors"
	for name, dir := range map[string]string{
		"another architecture": folder(t, qwen(map[string]any{"model_type": "mamba2"}), weights(t)),
		"no architecture":      folder(t, map[string]any{}, weights(t)),
		"a layer of another kind": folder(t, qwen(map[string]any{"use_sliding_window": true,
			"layer_types": []string{"full_attention", "linear_attention"}}), weights(t)),
		"many layers":  folder(t, qwen(map[string]any{"num_hidden_layers": 1 << 40}), weights(t)),
		"large heads":  folder(t, qwen(map[string]any{"head_dim": 1 << 40}), weights(t)),
		"no weights":   folder(t, qwen(nil), map[string][]byte{"pytorch_model.bin": raw}),
		"a cut file":   folder(t, qwen(nil), broken(part, raw[:len(raw)-1])),
		"a cut header": folder(t, qwen(nil), broken(part, raw[:20])),
		"a long header": folder(t, qwen(nil), broken(part, append([]byte{255, 255, 255, 255, 255, 255, 255, 127},
			raw...))),
		"a negative tensor": folder(t, qwen(nil), broken(part, append([]byte{46, 0, 0, 0, 0, 0, 0, 0},
			`{"x":{"dtype":"F32","data_offsets":[400,  0]}}`...))),
		"no JSON": folder(t, qwen(nil), broken("config.json", nil)),
	} {
		if name == "no JSON" {
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := memory.Read(dir); err == nil {
			t.Errorf("%s: got %+v, want no facts", name, m)
		}
	}
	dir := folder(t, qwen(nil), weights(t))
	if err := os.Remove(filepath.Join(dir, part)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, part), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := memory.Read(dir); err == nil {
		t.Errorf("a named pipe: got %+v, want no facts", m)
	}
}

func TestMemory_AContextIsReadAsEnginesReadIt(t *testing.T) {
	for text, want := range map[string]int64{"8192": 8192, "8k": 8000, "8K": 8192, "25.6k": 25600, "1M": 1 << 20,
		"auto": memory.Auto, "-1": memory.Auto, "0": 0} {
		if got, ok := memory.ParseContext(text); !ok || got != want {
			t.Errorf("%s: got %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "-8", "1e9", "99999999999", "9999999M", "8kk"} {
		if got, ok := memory.ParseContext(text); ok {
			t.Errorf("%s: got %d, want none", text, got)
		}
	}
}

func FuzzSafetensors_ASumIsWithinTheFile(f *testing.F) {
	f.Add(tensors(f, map[string]any{"model.layers.0.x": typed("F32", 8), "y": typed("U8", 3)}), []byte(`{"model_type":
		"llama", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "max_position_embeddings": 9}`))
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, []byte(`{}`))
	f.Fuzz(func(t *testing.T, raw, config []byte) {
		dir := t.TempDir()
		for name, content := range map[string][]byte{"model.safetensors": raw, "config.json": config} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m, err := memory.Read(dir)
		if err != nil {
			return
		}
		if m.Fixed < 0 || m.Floats < 0 || m.Fixed+m.Floats > int64(len(raw)) {
			t.Errorf("%d bytes and %d floats in a file of %d", m.Fixed, m.Floats, len(raw))
		}
		if need, known := memory.Estimate(m, memory.Settings{Context: 1 << 30, Keys: "f32", Values: "f32"}); known &&
			(need.Weights < 0 || need.Cache < 0 || need.Total() < 0) {
			t.Errorf("%+v needs %+v", m, need)
		}
	})
}
