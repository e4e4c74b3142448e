package endpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// setNames is what to do about a page without the series that are read.
const setNames = "set picker.metrics in a PoolPolicy, or the label llm-d.ai/engine-type of the pods"

var errNoSeries = errors.New("the page has none of the series that are read: " + setNames)

// Reading holds the values of one metrics page. Several series of one name (one for each model or engine of a server) are
// added up; of several KV caches the fullest is used.
type Reading struct {
	Queue, Running, KV float64
	Adapters           *Adapters // nil if the page shows none
	CacheTokens        int       // that the KV cache holds; 0 if the page does not show it
	// Problem describes the first sample of a series that is read whose value counts as absent, and the series of which the page has no
	// sample; "" if there are none. It has at most maxProblem bytes.
	Problem string `json:",omitempty"`
}

// parsePage reads the series of a dialect from a page in Prometheus's text format and skips all other lines. A page without queue,
// running requests and KV cache is an error: zeros would make a wrong port look like an idle server.
//
// A line that is longer than page's buffer is skipped: it is none of them.
func parsePage(page *bufio.Reader, d *dialect) (Reading, error) {
	var r Reading
	var lora loraReader
	var size, blocks, tokens float64
	var has shown
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
		case d.queue.matches(line):
			has.queue = true
			if v, ok := r.value(line); ok {
				r.Queue += v
				seen = true
			}
		case d.running.matches(line):
			has.running = true
			if v, ok := r.value(line); ok {
				r.Running += v
				seen = true
			}
		case d.kv.matches(line), d.kvOld.matches(line):
			has.kv = true
			if v, ok := r.upTo(1, line); ok {
				r.KV = max(r.KV, v)
				seen = true
			}
		case d.lora.matches(line):
			if at, ok := r.value(line); ok {
				lora.read(at, line)
			}
		case d.shape.matches(line):
			r.CacheTokens += d.shapeTokens(line)
		case d.size.matches(line):
			v, _ := r.value(line)
			size = max(size, v)
		case d.blocks.matches(line):
			v, _ := r.value(line)
			blocks += v
		case d.tokens.matches(line):
			v, _ := r.value(line)
			tokens += v
		}
	}
	switch {
	case !seen && r.Problem != "":
		return r, errors.New("the page shows no load: " + r.Problem)
	case !seen:
		return r, errNoSeries
	}
	r.Problem = bounded(joined(r.Problem, d.missing(has)))
	if r.CacheTokens == 0 {
		r.CacheTokens = cmp.Or(shape(int(size), int(blocks)), int(min(tokens, maxTokens)))
	}
	r.Adapters = lora.adapters()
	return r, nil
}

// value reads the value of a line of a series that is read. The first one that counts as absent is noted.
func (r *Reading) value(line []byte) (float64, bool) { return r.upTo(maxValue, line) }

// upTo is value for a series whose values are at most most.
func (r *Reading) upTo(most float64, line []byte) (float64, bool) {
	text := valueText(line)
	v, err := strconv.ParseFloat(string(text), 64)
	if err == nil && v >= 0 && v <= 1.1*most { // NaN is neither; blocks that are counted twice for a moment make a little more
		return min(v, most), true
	}
	if r.Problem == "" {
		r.Problem = bounded(fmt.Sprintf("%s has the value %.64q, which is ignored: a value is a number from 0 to %g", line[:bytes.IndexAny(line, "{ \t")], text, most))
	}
	return 0, false
}

// valueText returns the text of a sample's value, which follows the labels and ends at an optional timestamp; nil without one.
func valueText(line []byte) []byte {
	rest := line
	if open := bytes.IndexByte(line, '{'); open >= 0 {
		end := endOfLabels(line[open+1:])
		if end < 0 {
			return nil
		}
		rest = line[open+1+end:]
	} else {
		rest = line[bytes.IndexAny(line, " \t"):]
	}
	rest = bytes.TrimLeft(rest, " \t")
	if i := bytes.IndexAny(rest, " \t\r"); i >= 0 {
		rest = rest[:i]
	}
	return rest
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

// Limits of a KV cache's shape, far above any server's.
const (
	maxBlock  = 1 << 16
	maxBlocks = 1 << 30
	maxTokens = 1 << 40
)

// shape returns how many tokens fit; 0 for a shape that no server has.
func shape(size, blocks int) int {
	if size <= 0 || blocks <= 0 || size > maxBlock || blocks > maxBlocks {
		return 0
	}
	return size * blocks
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
