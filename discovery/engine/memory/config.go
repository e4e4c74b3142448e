package memory

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
)

// config has the fields of a model's config.json that determine how much memory the model takes.
type config struct {
	ModelType string `json:"model_type"`
	Layers    int64  `json:"num_hidden_layers"`
	Hidden    int64  `json:"hidden_size"`
	Heads     int64  `json:"num_attention_heads"`
	KVHeads   *int64 `json:"num_key_value_heads"`
	HeadDim   *int64 `json:"head_dim"`
	Positions int64  `json:"max_position_embeddings"`
	Original  int64  `json:"original_max_position_embeddings"`
	Tied      *bool  `json:"tie_word_embeddings"`
	Window    *int64 `json:"sliding_window"`
	UseWindow *bool  `json:"use_sliding_window"`
	// LayerTypes has full_attention or sliding_attention for each layer.
	LayerTypes []string `json:"layer_types"`
	Rope       struct {
		Kind     string `json:"rope_type"`
		Type     string `json:"type"` // the older name of rope_type
		Original int64  `json:"original_max_position_embeddings"`
	} `json:"rope_scaling"`
	Quantization *struct {
		CacheScheme json.RawMessage `json:"kv_cache_scheme"`
		CacheAlgo   string          `json:"kv_cache_quant_algo"`
	} `json:"quantization_config"`
	tokenizer struct {
		MaxLength float64 `json:"model_max_length"` // may be 1e30
	}
}

// architectures are the supported values of model_type: all layers of these models have a standard
// cache of keys and values, and their config.json has the field names of config.
var architectures = []string{"cohere", "cohere2", "exaone4", "gemma", "gemma2", "gemma3_text", "glm4", "gpt_oss",
	"granite", "granitemoe", "internlm2", "llama", "ministral", "mistral", "mixtral", "olmo", "olmo2", "olmo3", "olmoe",
	"phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2"}

func decode(f io.Reader, size, limit int64, into any) error {
	if size > limit {
		return unknown("a file has %d bytes, at most %d are read", size, limit)
	}
	raw, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return unknown("%v", err)
	}
	return nil
}

func (c *config) model(m *Model) error {
	if !slices.Contains(architectures, c.ModelType) {
		return unknown("model_type %.64q", c.ModelType)
	}
	heads, head := c.Heads, int64(0)
	if c.KVHeads != nil {
		heads = *c.KVHeads
	}
	if c.HeadDim != nil {
		head = *c.HeadDim
	} else if c.Heads > 0 {
		head = c.Hidden / c.Heads
	}
	windowed, err := c.windowed()
	if err != nil {
		return err
	}
	if !within(c.Layers, maxLayers) || !within(heads, maxHeads) || !within(head, maxHead) {
		return unknown("config.json has %d layers, %d heads of keys and a head of %d", c.Layers, heads, head)
	}
	m.Layers = c.Layers
	full := c.Layers - windowed
	m.Keys, m.Values = full*heads*head, full*heads*head
	m.WindowedKeys, m.WindowedValues = windowed*heads*head, windowed*heads*head
	if windowed > 0 {
		m.Window = *c.Window
	}
	m.Context = c.context()
	if q := c.Quantization; q != nil {
		m.Quantized = true
		if q.CacheAlgo != "" || len(q.CacheScheme) > 0 && string(q.CacheScheme) != "null" {
			m.CacheType = "fp8"
		}
	}
	if m.Keys+m.WindowedKeys > maxElements {
		return unknown("a cache of %d elements for each token", m.Keys+m.WindowedKeys)
	}
	return nil
}

// windowed returns the number of layers with sliding window attention, whose cache holds only a
// window of tokens. If config.json does not list the layer types, it returns all layers, because
// the estimate must be the least memory.
func (c *config) windowed() (n int64, err error) {
	if c.Window == nil || c.UseWindow != nil && !*c.UseWindow {
		return 0, nil
	}
	if !within(*c.Window, maxContext) {
		return 0, unknown("sliding_window %d", *c.Window)
	}
	if c.LayerTypes == nil {
		return c.Layers, nil
	}
	for _, kind := range c.LayerTypes {
		switch kind {
		case "full_attention":
		case "sliding_attention":
			n++
		default:
			return 0, unknown("a layer with %.64q", kind)
		}
	}
	if int64(len(c.LayerTypes)) != c.Layers {
		return 0, unknown("layer_types has %d entries for %d layers", len(c.LayerTypes), c.Layers)
	}
	return n, nil
}

// context returns the shortest context length that an engine may choose by itself; 0: unknown. Most
// kinds of rope_scaling only make the context longer. For longrope, vLLM uses the original length.
func (c *config) context() int64 {
	if !within(c.Positions, maxContext) {
		return 0
	}
	least := c.Positions
	if limit := c.tokenizer.MaxLength; limit >= 1 {
		least = min(least, int64(min(limit, maxContext)))
	}
	if kind := cmp.Or(c.Rope.Kind, c.Rope.Type); kind == "longrope" || kind == "su" {
		for _, n := range []int64{c.Original, c.Rope.Original} {
			if n > 0 {
				least = min(least, n)
			}
		}
	}
	return least
}

func within(n, limit int64) bool { return n > 0 && n <= limit }
