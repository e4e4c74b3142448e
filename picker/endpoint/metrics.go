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

const setNames = "set picker.metrics in a PoolPolicy, or the label llm-d.ai/engine-type of the pods"

var errNoSeries = errors.New("the page has none of the series that are read: " + setNames)

// Reading holds the values of one metrics page. Series of one name (one per model or engine) are
// summed; of several KV caches the fullest counts.
type Reading struct {
	Queue, Running, KV float64
	Adapters           *Adapters // nil if the page has none
	CacheTokens        int       // capacity of the KV cache; 0 if unknown
	// PrefillTokens counts the prompt tokens computed since the server's start, in PrefillSeconds;
	// 0 if unknown.
	PrefillTokens  float64 `json:",omitempty"`
	PrefillSeconds float64 `json:",omitempty"`
	Prefills       float64 `json:",omitempty"` // prompts included in PrefillSeconds
	// Tokens counts the tokens of prompts and responses since the server's start, if CountsTokens.
	Tokens       float64 `json:",omitempty"`
	CountsTokens bool    `json:",omitempty"`
	// Problem describes the first ignored value, and missing series of Queue, Running and KV, in
	// maxProblem bytes.
	Problem string `json:",omitempty"`
}

// parsePage reads a dialect's series from a page in Prometheus's text format. It fails without the
// queue series, and for an invalid queue, running requests or KV cache: as zeros, these would make
// a broken server or a wrong port look idle. Some servers lack the latter two series. Lines longer
// than page's buffer are skipped: no series has such a line.
func parsePage(page *bufio.Reader, d *dialect) (Reading, error) {
	var r Reading
	var lora loraReader
	var size, blocks, tokens float64
	var has shown
	var invalid error
	load := func(most float64, line []byte) float64 {
		v, problem := sampleValue(most, line)
		if problem != "" && invalid == nil {
			invalid = errors.New("the page shows no load: " + problem)
		}
		return v
	}
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
			r.Queue += load(maxValue, line)
		case d.running.matches(line):
			has.running = true
			r.Running += load(maxValue, line)
		case d.kv.matches(line), d.kvOld.matches(line):
			has.kv = true
			r.KV = max(r.KV, load(1, line))
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
		case d.read.matches(line), d.written.matches(line):
			v, ok := r.value(line)
			r.Tokens, r.CountsTokens = r.Tokens+v, r.CountsTokens || ok
			if d.computed.matches(line) { // llama.cpp has one series for both
				r.PrefillTokens += v
			}
		case d.computed.matches(line):
			v, _ := r.value(line)
			r.PrefillTokens += v
		case d.seconds.matches(line):
			v, _ := r.value(line)
			r.PrefillSeconds += v
		case d.prefills.matches(line):
			v, _ := r.value(line)
			r.Prefills += v
		}
	}
	switch {
	case invalid != nil:
		return r, invalid
	case has == shown{}:
		return r, errNoSeries
	case !has.queue:
		return r, errors.New("the page has no series " + d.queue.String() + ": " + setNames)
	}
	r.Problem = bounded(joined(r.Problem, d.missing(has)))
	if r.CacheTokens == 0 {
		r.CacheTokens = cmp.Or(shape(int(size), int(blocks)), int(min(tokens, maxTokens)))
	}
	r.Adapters = lora.adapters()
	return r, nil
}

// value reads a sample of other series than the load's. It notes the first invalid one.
func (r *Reading) value(line []byte) (float64, bool) {
	v, problem := sampleValue(maxValue, line)
	if problem == "" {
		return v, true
	}
	if r.Problem == "" {
		r.Problem = bounded("ignored: " + problem)
	}
	return 0, false
}

// slack is the tolerated excess over a maximum, which it counts as: blocks are counted twice for a
// moment.
const slack = 1.1

// sampleValue reads a sample's value, at most most, or returns why it is invalid.
func sampleValue(most float64, line []byte) (v float64, problem string) {
	text := valueText(line)
	v, err := strconv.ParseFloat(string(text), 64)
	if err == nil && v >= 0 && v <= slack*most { // NaN is neither
		return min(v, most), ""
	}
	return 0,
		fmt.Sprintf("%s has the value %.64q: a value is a number from 0 to %.3g", line[:bytes.IndexAny(line, "{ \t")],
			text, slack*most)
}

// valueText returns the text between the labels and an optional timestamp, or nil.
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

// endOfLabels returns the offset after the closing brace. Quoted values may contain braces.
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

// Far above any real server's.
const (
	maxBlock  = 1 << 16
	maxBlocks = 1 << 30
	maxTokens = 1 << 40
)

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
