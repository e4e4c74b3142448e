package memory

import (
	"regexp"
	"strconv"
	"strings"
)

// Settings of a server decide how much memory a model takes.
type Settings struct {
	// Context is the number of tokens for which the server reserves its cache: 0 is the model's
	// own, Auto whatever has room.
	Context int64
	// LeastContext is the context to which an engine reduces the model's own; 0: it does not.
	LeastContext int64
	// Keys and Values are the types of the cache; "" and auto: the type of the weights.
	Keys, Values string
	// Weights is the type to which weights are converted; "" and auto: 16 bits.
	Weights string
	// HostEmbedding means that the input embedding stays in the memory of the machine.
	HostEmbedding bool
	// NoCache means that the cache of a request may be empty, as with embeddings.
	NoCache bool
}

// Auto is a context that has no least length.
const Auto int64 = -1

// Need is the least memory of all accelerators of a server together, in bytes.
type Need struct {
	Weights, Cache int64
	// Context is the number of tokens that Cache has room for.
	Context int64
	// Token is the size of the cache for one further token.
	Token int64
}

// Total is the sum in bytes.
func (n Need) Total() int64 { return n.Weights + n.Cache }

// halfBits has the sizes of types in halves of a bit: q8_0 has 34 bytes for 32 elements. A type of
// vLLM that has scales beside its elements counts without them.
var halfBits = map[string]int64{"f32": 64, "float32": 64, "float": 64, "f16": 32, "bf16": 32, "float16": 32, "half": 32,
	"bfloat16": 32, "fp8": 16, "fp8_e4m3": 16, "fp8_e5m2": 16, "fp8_inc": 16, "fp8_per_token_head": 16,
	"int8_per_token_head": 16, "q8_0": 17, "q5_1": 12, "q5_0": 11, "q4_1": 10, "q4_0": 9, "iq4_nl": 9}

// Estimate returns what a server needs at least. It is not known with a type that is not known.
func Estimate(m Model, s Settings) (n Need, known bool) {
	weights := int64(32)
	if s.Weights != "" && s.Weights != "auto" {
		if weights = halfBits[s.Weights]; weights == 0 {
			return n, false
		}
	}
	element := weights
	if m.Quantized { // its other weights stay as they are
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

// ParseContext reads a number of tokens as engines do: 8192, 8k for 8000, 8K for 8192, and auto.
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
