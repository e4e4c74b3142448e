package simulation

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// Limits of a trace, so that a damaged file takes no memory without end.
const (
	maxTraceLine   = 16 << 20 // bytes
	maxTraceTokens = 1 << 20  // of a prompt or of an answer
	maxTraceTime   = 1e12     // milliseconds
	maxProblems    = 20       // that are named
)

// line is a line of a trace: Mooncake's fields, of which --record writes a superset (package recording).
type line struct {
	Timestamp *float64 `json:"timestamp"` // ms
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	Hashes    []int64  `json:"hash_ids"` // one for each block of BlockTokens tokens
	Model     string   `json:"model"`
}

// ReadTrace reads a trace: JSON lines with timestamp (ms), input_length, output_length (tokens) and hash_ids, of which equal
// ones at the start mean an equal prefix. Times begin at the earliest one. The error joins one for each bad line, as
// "name:line: problem".
func ReadTrace(name string, from io.Reader) (*Workload, error) {
	w := &Workload{Name: name}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxTraceLine)
	var problems []error
	adapters := map[string]int{}
	n := 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		r, err := w.parse(lines.Bytes(), adapters)
		if err != nil {
			if problems = append(problems, fmt.Errorf("%s:%d: %w", name, n, err)); len(problems) == maxProblems {
				problems = append(problems, fmt.Errorf("%s: further lines are not checked", name))
				break
			}
			continue
		}
		w.Requests = append(w.Requests, r)
	}
	if err := lines.Err(); err != nil {
		problems = append(problems, fmt.Errorf("%s:%d: %w", name, n+1, err))
	}
	if len(problems) == 0 && len(w.Requests) == 0 {
		problems = append(problems, fmt.Errorf("%s: the trace has no requests", name))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	slices.SortStableFunc(w.Requests, byArrival)
	for i := len(w.Requests) - 1; i >= 0; i-- {
		w.Requests[i].At -= w.Requests[0].At
	}
	return w, nil
}

func byArrival(a, b Request) int { return int(min(max(a.At-b.At, -1), 1)) }

// parse reads one line. Models are numbered from 1, so that those of several adapters share no prefix; one model is 0.
func (w *Workload) parse(text []byte, models map[string]int) (Request, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return Request{}, fmt.Errorf("not a request: %w", err)
	}
	switch {
	case l.Timestamp == nil || *l.Timestamp < 0 || *l.Timestamp > maxTraceTime:
		return Request{}, errors.New("timestamp must be the arrival in milliseconds, 0 or more")
	case l.Input == nil || *l.Input < 1 || *l.Input > maxTraceTokens:
		return Request{}, fmt.Errorf("input_length must be the tokens of the prompt, 1 to %d", maxTraceTokens)
	case l.Output == nil || *l.Output < 0 || *l.Output > maxTraceTokens:
		return Request{}, fmt.Errorf("output_length must be the tokens of the answer, 0 to %d", maxTraceTokens)
	}
	blocks := (*l.Input + BlockTokens - 1) / BlockTokens
	if len(l.Hashes) > 0 && len(l.Hashes) != blocks {
		return Request{}, fmt.Errorf("hash_ids has %d entries; %d tokens have %d blocks of %d", len(l.Hashes), *l.Input, blocks, BlockTokens)
	}
	model, ok := models[l.Model]
	if !ok {
		model = len(models)
		models[l.Model] = model
	}
	r := Request{At: time.Duration(*l.Timestamp * float64(time.Millisecond)), Input: *l.Input, Output: max(*l.Output, 1)}
	for i := range blocks {
		content := mix(uint64(len(w.Requests))<<32 | uint64(i) | 1<<63) // without hash_ids no prompt shares anything
		if len(l.Hashes) > 0 {
			content = mix(uint64(l.Hashes[i])) ^ uint64(model)
		}
		r.Blocks = w.tree.prompt(r.Blocks, content)
	}
	r.Key = w.tree.hashes[r.Blocks[min(2, len(r.Blocks))-1]] // the first messages are in the first 1,024 tokens
	return r, nil
}

// Window returns n requests of a workload, from a fraction of it on.
func (w *Workload) Window(from float64, n int) *Workload {
	part := *w
	first := min(int(from*float64(len(w.Requests))), max(0, len(w.Requests)-n))
	part.Requests = slices.Clone(w.Requests[first:min(first+n, len(w.Requests))])
	start := part.Requests[0].At
	for i := range part.Requests {
		part.Requests[i].At -= start
	}
	return &part
}

// Spread distributes the requests of one timestamp evenly at random until the next timestamp: traces have coarse ones.
func (w *Workload) Spread(random *rand.Rand) *Workload {
	spread := *w
	spread.Requests = slices.Clone(w.Requests)
	for i := 0; i < len(spread.Requests); {
		k, at := i, spread.Requests[i].At
		for k < len(spread.Requests) && spread.Requests[k].At == at {
			k++
		}
		if k == len(spread.Requests) {
			break // there is no next timestamp
		}
		until := spread.Requests[k].At
		times := make([]time.Duration, k-i)
		for j := range times {
			times[j] = at + time.Duration(random.Float64()*float64(until-at))
		}
		slices.Sort(times)
		for j, t := range times {
			spread.Requests[i+j].At = t
		}
		i = k
	}
	return &spread
}

// Source draws from a trace: each drawing is a window of n requests, and all of them overlap. Requests of one timestamp come
// at once, or are spread.
func (w *Workload) Source(name, about string, n int, spread bool) Source {
	return Source{name, about, func(rate float64, i int) *Workload {
		const windows = 5
		part := w.Window(float64((i-1)%windows)/windows*(1-float64(n)/float64(len(w.Requests))), n)
		if spread {
			part = part.Spread(rand.New(rand.NewPCG(uint64(i), 1)))
		}
		return part.At(rate / part.Rate())
	}}
}
