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

// Reading holds the values of one metrics page. Several series of one name (one for each model or
// engine of a server) are added up; of several KV caches the fullest is used.
type Reading struct {
	Queue, Running, KV float64
	Adapters           *Adapters // nil if the page shows none
	CacheTokens        int       // that the KV cache holds; 0 if the page does not show it
	// PrefillTokens are the tokens of prompts that the server has computed since its start, in
	// PrefillSeconds; 0 if the page does not show it.
	PrefillTokens  float64 `json:",omitempty"`
	PrefillSeconds float64 `json:",omitempty"`
	Prefills       float64 `json:",omitempty"` // how many prompts PrefillSeconds are of
	// Tokens of prompts and answers that the server has computed since its start. CountsTokens
	// means that the page has them.
	Tokens       float64 `json:",omitempty"`
	CountsTokens bool    `json:",omitempty"`
	// Problem describes the first sample of a series other than the three whose value counts as
	// absent, and those of the three of which the page has no sample; "" if there are none. It has
	// at most maxProblem bytes.
	Problem string `json:",omitempty"`
}

// parsePage reads the series of a dialect from a page in Prometheus's text format and skips all
// other lines. A page without the series of waiting requests is an error, and so is one with an
// invalid value of queue, running requests or KV cache: zeros would make a wrong port, or a broken
// server, look like an idle one. Some servers have no series of the other two.
//
// A line that is longer than page's buffer is skipped: it is none of them.
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
			if d.computed.matches(line) { // of llama.cpp both are one series
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

// value reads the value of a line of a series other than the load's. The first one that counts as
// absent is noted.
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

// slack is by how much a value may be above its maximum, for which it counts then: blocks that are
// counted twice for a moment make a little more.
const slack = 1.1

// sampleValue reads the value of a line of a series whose values are at most most, or describes why
// it is none.
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

// valueText returns the text of a sample's value, which follows the labels and ends at an optional
// timestamp; nil without one.
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

// endOfLabels returns the offset after the closing brace of a label set; label values are quoted
// and may contain braces.
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
