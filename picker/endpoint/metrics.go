package endpoint

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// Names of vLLM's series, which are the default. vLLM 0.10 renamed the KV cache's; both names are read.
const (
	DefaultPath    = "/metrics"
	defaultQueue   = "vllm:num_requests_waiting"
	defaultRunning = "vllm:num_requests_running"
	defaultKV      = "vllm:kv_cache_usage_perc"
	defaultKVOld   = "vllm:gpu_cache_usage_perc"
)

var errNoSeries = errors.New("the page has none of the configured series")

// Reading holds the values of one metrics page. Several series of one name (one for each model or engine of a server) are
// added up; of several KV caches the fullest is used.
type Reading struct {
	Queue, Running, KV float64
	Adapters           *Adapters // nil if the page shows none
	CacheTokens        int       // that the KV cache holds; 0 if the page does not show it
}

// parsePage reads the three series, and that of LoRA adapters, from a page in Prometheus's text format and skips all other
// lines. A page without any of the three is an error: zeros would make a wrong port look like an idle server.
//
// A line that is longer than page's buffer is skipped: it is none of them.
func parsePage(page *bufio.Reader, m Metrics) (Reading, error) {
	var r Reading
	var lora loraReader
	seen := false
	for {
		line, err := page.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = page.ReadSlice('\n')
			line = nil
		}
		if err != nil && err != io.EOF {
			return r, err
		}
		if len(line) == 0 && err == io.EOF {
			break
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		switch {
		case named(line, m.Queue, defaultQueue):
			if v, ok := value(line); ok {
				r.Queue += v
				seen = true
			}
		case named(line, m.Running, defaultRunning):
			if v, ok := value(line); ok {
				r.Running += v
				seen = true
			}
		case named(line, m.KVCache, defaultKV), m.KVCache == "" && named(line, defaultKVOld, ""):
			if v, ok := value(line); ok {
				r.KV = max(r.KV, v)
				seen = true
			}
		case named(line, loraInfo, ""):
			lora.read(line)
		case named(line, cacheInfo, ""):
			r.CacheTokens += cacheTokens(line)
		}
	}
	if !seen {
		return r, errNoSeries
	}
	r.Adapters = lora.adapters()
	return r, nil
}

// named reports whether line is a sample of the series name, or of byDefault if name is empty.
func named(line []byte, name, byDefault string) bool {
	if name == "" {
		name = byDefault
	}
	if name == "" || len(line) <= len(name) || string(line[:len(name)]) != name {
		return false
	}
	switch line[len(name)] {
	case '{', ' ', '\t':
		return true
	}
	return false
}

// value reads a sample's value, which follows the labels and ends at an optional timestamp. It returns false for values that
// are negative, not finite or not numbers.
func value(line []byte) (float64, bool) {
	rest := line
	if open := bytes.IndexByte(line, '{'); open >= 0 {
		end := endOfLabels(line[open+1:])
		if end < 0 {
			return 0, false
		}
		rest = line[open+1+end:]
	} else {
		rest = line[bytes.IndexAny(line, " \t"):]
	}
	rest = bytes.TrimLeft(rest, " \t")
	if i := bytes.IndexAny(rest, " \t\r"); i >= 0 {
		rest = rest[:i]
	}
	v, err := strconv.ParseFloat(string(rest), 64)
	if err != nil || v != v || v < 0 || v > 1e15 {
		return 0, false
	}
	return v, true
}

// endOfLabels returns the offset after the closing brace of a label set; label values are quoted and may contain braces.
func endOfLabels(b []byte) int {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return -1
}

// cacheInfo is vLLM's series of its KV cache's shape, which is in its labels. A page has one for each engine.
const cacheInfo = "vllm:cache_config_info"

// cacheTokens returns how many tokens a KV cache holds; 0 for labels that do not show it.
func cacheTokens(line []byte) int {
	open := bytes.IndexByte(line, '{')
	if open < 0 {
		return 0
	}
	size, blocks := 0, 0
	eachLabel(line[open+1:], func(name, text string) {
		switch n, _ := strconv.Atoi(text); name {
		case "block_size":
			size = n
		case "num_gpu_blocks":
			blocks = n
		}
	})
	if size <= 0 || blocks <= 0 || size > maxBlock || blocks > maxBlocks {
		return 0
	}
	return size * blocks
}

// Limits of a KV cache's shape, far above any server's.
const (
	maxBlock  = 1 << 16
	maxBlocks = 1 << 30
)
