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

// Reading holds the values of one metrics page. Series with the same name are added up, except for
// the KV cache usage, where the highest value counts.
type Reading struct {
	Queue, Running, KV float64
	Adapters           *Adapters // nil if the page has no LoRA series
	CacheTokens        int       // in tokens; 0 if unknown
	// PrefillTokens counts the prompt tokens computed since the server's start, in PrefillSeconds;
	// both are 0 if unknown.
	PrefillTokens  float64 `json:",omitempty"`
	PrefillSeconds float64 `json:",omitempty"`
	Prefills       float64 `json:",omitempty"` // number of prompts in PrefillSeconds
	// Tokens counts the tokens of prompts and responses since the server's start, if CountsTokens
	// is true.
	Tokens       float64 `json:",omitempty"`
	CountsTokens bool    `json:",omitempty"`
	// Problem names the ignored or missing series, in at most maxProblem bytes, or "".
	Problem string `json:",omitempty"`
}

// parsePage reads a metrics page. It fails if the series of waiting requests is missing, or if the
// value of waiting requests, running requests or KV cache usage is invalid: with zeros instead, a
// broken server would look idle. Lines longer than page's buffer are skipped.
func parsePage(page *bufio.Reader, d *dialect) (Reading, error) {
	p := pageParser{d: d}
	for {
		line, err := page.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = page.ReadSlice('\n')
			line = nil
		}
		if err != nil && err != io.EOF {
			return p.Reading, err
		}
		if len(line) == 0 && err == io.EOF {
			return p.result()
		}
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > 0 && line[0] != '#' {
			p.sample(line)
		}
	}
}

type pageParser struct {
	Reading
	d                    *dialect
	lora                 loraReader
	size, blocks, tokens float64
	has                  shown
	invalid              error
}

func (p *pageParser) sample(line []byte) {
	d := p.d
	switch {
	case d.queue.matches(line):
		p.has.queue = true
		p.Queue += p.load(maxValue, line)
	case d.running.matches(line):
		p.has.running = true
		p.Running += p.load(maxValue, line)
	case d.kv.matches(line), d.kvOld.matches(line):
		p.has.kv = true
		p.KV = max(p.KV, p.load(1, line))
	case d.lora.matches(line):
		if at, ok := p.value(line); ok {
			p.lora.read(at, line)
		}
	case d.shape.matches(line):
		p.CacheTokens += d.shapeTokens(line)
	case d.size.matches(line):
		v, _ := p.value(line)
		p.size = max(p.size, v)
	case d.blocks.matches(line):
		p.add(&p.blocks, line)
	case d.tokens.matches(line):
		p.add(&p.tokens, line)
	case d.read.matches(line), d.written.matches(line):
		v, ok := p.value(line)
		p.Tokens, p.CountsTokens = p.Tokens+v, p.CountsTokens || ok
		if d.computed.matches(line) { // for llama.cpp, computed and read are the same series
			p.PrefillTokens += v
		}
	case d.computed.matches(line):
		p.add(&p.PrefillTokens, line)
	case d.seconds.matches(line):
		p.add(&p.PrefillSeconds, line)
	case d.prefills.matches(line):
		p.add(&p.Prefills, line)
	}
}

func (p *pageParser) load(most float64, line []byte) float64 {
	v, problem := sampleValue(most, line)
	if problem != "" && p.invalid == nil {
		p.invalid = errors.New("the page shows no load: " + problem)
	}
	return v
}

func (p *pageParser) add(sum *float64, line []byte) {
	v, _ := p.value(line)
	*sum += v
}

func (p *pageParser) result() (Reading, error) {
	switch {
	case p.invalid != nil:
		return p.Reading, p.invalid
	case p.has == shown{}:
		return p.Reading, errNoSeries
	case !p.has.queue:
		return p.Reading, errors.New("the page has no series " + p.d.queue.String() + ": " + setNames)
	}
	p.Problem = bounded(joined(p.Problem, p.d.missing(p.has)))
	if p.CacheTokens == 0 {
		p.CacheTokens = cmp.Or(shape(int(p.size), int(p.blocks)), int(min(p.tokens, maxTokens)))
	}
	p.Adapters = p.lora.adapters()
	return p.Reading, nil
}

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

// A value may exceed its maximum by the factor slack, because servers may briefly count some blocks
// twice.
const slack = 1.1

func sampleValue(most float64, line []byte) (v float64, problem string) {
	text := valueText(line)
	v, err := strconv.ParseFloat(string(text), 64)
	if err == nil && v >= 0 && v <= slack*most { // also false for NaN
		return min(v, most), ""
	}
	return 0,
		fmt.Sprintf("%s has the value %.64q: a value is a number from 0 to %.3g", line[:bytes.IndexAny(line, "{ \t")],
			text, slack*most)
}

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

// These limits of a KV cache's shape are far above real servers.
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
