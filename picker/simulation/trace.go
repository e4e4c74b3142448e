package simulation

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// These limits bound the memory for a damaged trace.
const (
	maxTraceLine   = 16 << 20 // bytes
	maxTraceTokens = 1 << 20  // of a prompt or a response
	maxTraceTime   = 1e12     // milliseconds
	maxProblems    = 20       // invalid lines in an error
	maxPools       = 20
)

// line is a line of a trace: Mooncake's fields, and the fields of --record (package recording).
type line struct {
	Timestamp *float64 `json:"timestamp"` // ms
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	Hashes    []int64  `json:"hash_ids"` // one per block
	Model     string   `json:"model"`
	Pool      string   `json:"pool"`
	Status    int      `json:"status"` // 0 without a response
	Stream    bool     `json:"stream"`
	Took      *float64 `json:"took"` // nil without --record: the response then counts as a stream

	number int
}

// ReadTrace reads a trace: lines of JSON with timestamp (ms), input_length, output_length (tokens)
// and hash_ids. Two prompts whose first hash_ids are equal have an equal prefix. Arrival times are
// relative to the earliest timestamp. The error joins one error for each invalid line. For a trace
// of several pools, the error is a *PoolsError.
func ReadTrace(name string, from io.Reader) (*Workload, error) { return ReadPool(name, from, "") }

// ReadPool is ReadTrace for the requests of one pool. If pool is "", the trace must have only one
// pool. A missing or ambiguous pool gives a *PoolsError.
func ReadPool(name string, from io.Reader, pool string) (*Workload, error) {
	w := &Workload{Name: name}
	pools := map[string]int{}
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
		l, err := parse(lines.Bytes())
		if err != nil {
			if problems = append(problems, fmt.Errorf("%s:%d: %w", name, n, err)); len(problems) == maxProblems {
				problems = append(problems, fmt.Errorf("%s: further lines are not checked", name))
				break
			}
			continue
		}
		if pools[l.Pool]++; pool == "" || l.Pool == pool {
			l.number = n
			w.add(l, adapters)
		}
	}
	if err := lines.Err(); err != nil {
		problems = append(problems, fmt.Errorf("%s:%d: %w", name, n+1, err))
	}
	if len(problems) == 0 && len(pools) == 0 {
		problems = append(problems, fmt.Errorf("%s: the trace has no requests", name))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if pool == "" && len(pools) > 1 || pool != "" && pools[pool] == 0 {
		return nil, &PoolsError{Name: name, Pool: pool, Requests: pools}
	}
	slices.SortStableFunc(w.Requests, byArrival)
	for i := len(w.Requests) - 1; i >= 0; i-- {
		w.Requests[i].At -= w.Requests[0].At
	}
	return w, nil
}

func byArrival(a, b Request) int { return int(min(max(a.At-b.At, -1), 1)) }

// PoolsError rejects a trace with several pools, or without the requested pool.
type PoolsError struct {
	Name     string
	Pool     string
	Requests map[string]int // "" for requests without a pool
}

// Error names at most 20 pools.
func (e *PoolsError) Error() string {
	var texts []string
	for _, pool := range slices.Sorted(maps.Keys(e.Requests)) {
		if len(texts) == maxPools {
			texts = append(texts, fmt.Sprintf("and %d more", len(e.Requests)-maxPools))
			break
		}
		what := fmt.Sprintf("%.100s", pool)
		if pool == "" {
			what = "none"
		}
		texts = append(texts, fmt.Sprintf("%s (%d)", what, e.Requests[pool]))
	}
	if e.Pool == "" {
		return fmt.Sprintf("%s: the trace has requests of several pools: %s", e.Name, strings.Join(texts, ", "))
	}
	return fmt.Sprintf("%s: the trace has no request of pool %s, but of %s", e.Name, e.Pool, strings.Join(texts, ", "))
}

func parse(text []byte) (l line, err error) {
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("not a request: %w", err)
	}
	switch {
	case l.Timestamp == nil || *l.Timestamp < 0 || *l.Timestamp > maxTraceTime:
		return l, errors.New("timestamp must be the arrival in milliseconds, 0 or more")
	case l.Input == nil || *l.Input < 1 || *l.Input > maxTraceTokens:
		return l, fmt.Errorf("input_length must be the tokens of the prompt, 1 to %d", maxTraceTokens)
	case l.Output == nil || *l.Output < 0 || *l.Output > maxTraceTokens:
		return l, fmt.Errorf("output_length must be the tokens of the answer, 0 to %d", maxTraceTokens)
	}
	if blocks := l.blocks(); len(l.Hashes) > 0 && len(l.Hashes) != blocks {
		return l,
			fmt.Errorf("hash_ids has %d entries; %d tokens have %d blocks of %d", len(l.Hashes), *l.Input, blocks,
				BlockTokens)
	}
	return l, nil
}

func (l *line) blocks() int { return (*l.Input + BlockTokens - 1) / BlockTokens }

func (w *Workload) add(l line, models map[string]int) {
	model, ok := models[l.Model]
	if !ok {
		model = len(models)
		models[l.Model] = model
	}
	r := Request{
		At: time.Duration(*l.Timestamp * float64(time.Millisecond)), Input: *l.Input, Output: max(*l.Output, 1),
		Whole: l.Took != nil && !l.Stream, line: l.number, status: l.Status,
	}
	for i := range l.blocks() {
		content := mix(uint64(len(w.Requests))<<32 | uint64(i) | 1<<63) // a prompt without hash_ids shares no block
		if len(l.Hashes) > 0 {
			content = mix(uint64(l.Hashes[i])) ^ uint64(model)
		}
		r.Blocks = w.tree.prompt(r.Blocks, content)
	}
	r.Key = w.tree.hashes[r.Blocks[min(2, len(r.Blocks))-1]] // of the first messages: 1,024 tokens
	w.Requests = append(w.Requests, r)
}

// Window returns n successive requests of a workload. from is the first one's position, as a
// fraction (0 to 1) of all requests.
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

// Spread distributes the requests of each timestamp at random over the time until the next
// timestamp, because traces have coarse timestamps.
func (w *Workload) Spread(random *rand.Rand) *Workload {
	spread := *w
	spread.Requests = slices.Clone(w.Requests)
	for i := 0; i < len(spread.Requests); {
		k, at := i, spread.Requests[i].At
		for k < len(spread.Requests) && spread.Requests[k].At == at {
			k++
		}
		if k == len(spread.Requests) {
			break
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

// Source returns a Source that draws overlapping windows of n requests from a trace, with Spread if
// spread is true.
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
