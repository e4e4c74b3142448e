package memory

import (
	"regexp"
	"strconv"
	"strings"
)

// Settings are a server's settings that affect its memory.
type Settings struct {
	// Context is the number of tokens for which the server reserves its cache. 0: the model's own
	// context length. Auto: as many as fit into memory.
	Context int64
	// LeastContext is the context length to which the engine may reduce the model's own context
	// length; 0: it does not reduce it.
	LeastContext int64
	// Keys and Values are the data types of the keys and values in the cache; "" and "auto": the
	// type of the weights.
	Keys, Values string
	// Weights is the data type to which the engine converts the weights; "" and "auto": a type of
	// 16 bits.
	Weights string
	// HostEmbedding means that the input embedding stays in main memory.
	HostEmbedding bool
	// NoCache means that a request may need no cache, as for embeddings.
	NoCache bool
}

// Auto is a value of Settings.Context: the engine chooses a length that fits into memory.
const Auto int64 = -1

// Need is the least memory that a server needs on all its accelerators together, in bytes.
type Need struct {
	Weights, Cache int64
	// Context is the number of tokens for which Cache has room.
	Context int64
	// Token is the size of the cache for one more token, in bytes.
	Token int64
}

// Total returns the sum in bytes.
func (n Need) Total() int64 { return n.Weights + n.Cache }

// halfBits has the size of an element of each data type, in half bits: q8_0 has 34 bytes for 32
// elements. For types of vLLM with separate scales, the scales do not count.
var halfBits = map[string]int64{"f32": 64, "float32": 64, "float": 64, "f16": 32, "bf16": 32, "float16": 32, "half": 32,
	"bfloat16": 32, "fp8": 16, "fp8_e4m3": 16, "fp8_e5m2": 16, "fp8_inc": 16, "fp8_per_token_head": 16,
	"int8_per_token_head": 16, "q8_0": 17, "q5_1": 12, "q5_0": 11, "q4_1": 10, "q4_0": 9, "iq4_nl": 9}

// Estimate returns the least memory that a server needs. known is false for an unknown data type.
func Estimate(m Model, s Settings) (n Need, known bool) {
	weights := int64(32)
	if s.Weights != "" && s.Weights != "auto" {
		if weights = halfBits[s.Weights]; weights == 0 {
			return n, false
		}
	}
	element := weights
	if m.Quantized { // engines do not convert the other weights of a quantized model
		element = 32
	}
	n.Weights = m.Fixed + m.Floats*element/16
	if s.HostEmbedding {
		n.Weights -= m.Embedding
	}
	if s.NoCache || s.Context == Auto {
		return n, true
	}
	if n.Context = s.Context; n.Context == 0 {
		if n.Context = m.Context; s.LeastContext > 0 {
			n.Context = min(m.Context, s.LeastContext)
		}
	}
	keys, ok := cacheType(m, s.Keys, weights)
	values, ok2 := cacheType(m, s.Values, weights)
	if !ok || !ok2 || n.Context < 0 || n.Context > maxContext {
		return Need{}, false
	}
	n.Token = (m.Keys*keys + m.Values*values) / 16
	windowed := (m.WindowedKeys*keys + m.WindowedValues*values) / 16
	n.Cache = n.Token*n.Context + windowed*min(n.Context, m.Window)
	return n, true
}

func cacheType(m Model, name string, weights int64) (halves int64, known bool) {
	switch {
	case name != "" && name != "auto":
	case m.CacheType != "":
		name = m.CacheType
	default:
		return weights, true
	}
	return halfBits[name], halfBits[name] > 0
}

var suffixed = regexp.MustCompile(`^([0-9]{1,10})(\.[0-9]{1,10})?([kKmM])$`)

// ParseContext parses a number of tokens as engines do: 8192, 8k for 8000, 8K for 8192, and auto or
// -1 for Auto.
func ParseContext(text string) (tokens int64, ok bool) {
	text = strings.TrimSpace(text)
	if text == "-1" || strings.EqualFold(text, "auto") {
		return Auto, true
	}
	if m := suffixed.FindStringSubmatch(text); m != nil {
		value, err := strconv.ParseFloat(m[1]+m[2], 64)
		unit := map[string]float64{"k": 1e3, "m": 1e6, "K": 1 << 10, "M": 1 << 20}[m[3]]
		if err != nil || value*unit > maxContext {
			return 0, false
		}
		return int64(value * unit), true
	}
	tokens, err := strconv.ParseInt(text, 10, 64)
	return tokens, err == nil && tokens >= 0 && tokens <= maxContext
}
