package simulation

import "time"

// Request is one request of a workload.
type Request struct {
	At            time.Duration // since the start of the workload
	Input, Output int           // tokens, at least 1 each
	Adapter       int           // 0 for the base model
	// Whole means that the response is not streamed.
	Whole bool
	// Priority and Fairness are for flow control.
	Priority int
	Fairness string
	// Key is the key for the strategy "chwbl": a hash of the system prompt and the user's first
	// messages.
	Key uint64
	// Blocks are the prompt's blocks in the workload's tree, of BlockTokens tokens each. The last
	// block may be partial.
	Blocks       []int32
	line, status int
}

func (r *Request) full() []int32 { return r.Blocks[:r.Input/BlockTokens] }

// Workload has requests in order of arrival. It is immutable.
type Workload struct {
	Name     string
	Requests []Request
	tree     tree
}

// tree gives each block a number. Two blocks have the same number if their content and all content
// before them is equal, as in prefix caches.
type tree struct {
	numbers map[branch]int32
	hashes  []uint64
}

type branch struct {
	parent  int32 // the block before; root for a prompt's first block
	content uint64
}

const root = -1

func (t *tree) block(parent int32, content uint64) int32 {
	at := branch{parent, content}
	n, ok := t.numbers[at]
	if !ok {
		if t.numbers == nil {
			t.numbers = map[branch]int32{}
		}
		n = int32(len(t.hashes))
		t.numbers[at] = n
		before := uint64(0)
		if parent != root {
			before = t.hashes[parent]
		}
		t.hashes = append(t.hashes, mix(before^mix(content)))
	}
	return n
}

func (t *tree) prompt(blocks []int32, contents ...uint64) []int32 {
	for _, c := range contents {
		parent := int32(root)
		if len(blocks) > 0 {
			parent = blocks[len(blocks)-1]
		}
		blocks = append(blocks, t.block(parent, c))
	}
	return blocks
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// At returns the workload with all arrival times divided by speed.
func (w *Workload) At(speed float64) *Workload {
	faster := *w
	faster.Requests = make([]Request, len(w.Requests))
	for i, r := range w.Requests {
		r.At = time.Duration(float64(r.At) / speed)
		faster.Requests[i] = r
	}
	return &faster
}

// Label returns a copy of the workload without the requests for which label returns false. label
// gets each request and its number, and may change the request.
func (w *Workload) Label(label func(i int, r *Request) bool) *Workload {
	out := *w
	out.Requests = make([]Request, 0, len(w.Requests))
	for i, r := range w.Requests {
		if label(i, &r) {
			out.Requests = append(out.Requests, r)
		}
	}
	return &out
}

// Rate returns the mean number of requests per second.
func (w *Workload) Rate() float64 {
	if len(w.Requests) == 0 || w.Requests[len(w.Requests)-1].At == 0 {
		return 0
	}
	return float64(len(w.Requests)) / w.Requests[len(w.Requests)-1].At.Seconds()
}

// Chain appends to out one hash for each full block of a prompt. A hash covers the block and all
// blocks before.
func (w *Workload) Chain(r *Request, out []uint64) []uint64 {
	for _, block := range r.full() {
		out = append(out, w.tree.hashes[block])
	}
	return out
}
