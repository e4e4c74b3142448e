package modelserver

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// blockSize is vLLM's default number of tokens in a block of the KV cache.
const blockSize = 16

type sequence struct {
	lora    string        // the adapter it asks for; "" for the base model
	blocks  int           // of the KV cache, for the prompt and the longest answer
	running chan struct{} // closed when it may run
	read    bool          // its prompt is read

	// Fields for an engine that serves in steps.
	answer    int           // tokens of the answer, at least 1
	begin     func() int    // called when it may run; returns how many tokens of its prompt are to be read
	left      int           // of these
	tokens    atomic.Int64  // of the answer, so far
	more      chan struct{} // receives after tokens has grown; room for 1
	began     time.Time     // when it could run
	prefilled time.Duration // from then to the first token
}

// engine schedules sequences. It is vLLM's scheduler without preemption: a sequence reserves all
// that it may need when it starts, so no running one is ever moved back to the queue.
type engine struct {
	slots, blocks, maxLoRAs int // limits
	partial                 int // limit of prompts that are read at a time; 0: none
	steps                   *steps

	mu      sync.Mutex
	waiting []*sequence // first come, first served, except for adapters
	running []*sequence
	used    int // blocks held by running
}

func newEngine(slots, blocks, maxLoRAs, partial int) *engine {
	return &engine{slots: slots, blocks: blocks, maxLoRAs: maxLoRAs, partial: partial}
}

// enter waits until seq may run; the caller then calls leave. If ctx ends first, enter returns its
// error and seq holds nothing.
func (e *engine) enter(ctx context.Context, seq *sequence) error {
	seq.running, seq.more = make(chan struct{}), make(chan struct{}, 1)
	e.mu.Lock()
	e.waiting = append(e.waiting, seq)
	e.changed()
	e.mu.Unlock()
	select {
	case <-seq.running:
		return nil
	case <-ctx.Done():
		e.leave(seq) // it may have been admitted concurrently
		return ctx.Err()
	}
}

// leave releases seq's slot and blocks, or its place in the queue.
func (e *engine) leave(seq *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.running, seq); i >= 0 {
		e.running = slices.Delete(e.running, i, i+1)
		e.used -= seq.blocks
	} else if i := slices.Index(e.waiting, seq); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	e.changed()
}

// changed starts sequences that can run now. An engine in steps does so with its next step.
func (e *engine) changed() {
	switch {
	case e.steps == nil:
		e.admit(math.MaxInt)
	case !e.steps.running:
		e.step(time.Now())
	}
}

// prefilled records that the prompt of seq is read, so that the next one can be.
func (e *engine) prefilled(seq *sequence) {
	if e.partial == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	seq.read = true
	e.changed()
}

// reading reports whether the limit of prompts that are read at a time is reached.
func (e *engine) reading() bool {
	n := 0
	for _, seq := range e.running {
		if !seq.read {
			n++
		}
	}
	return e.partial > 0 && n >= e.partial
}

// admit starts all sequences that can run. It skips a sequence whose adapter has no slot. A
// sequence that lacks a slot or blocks stops all after it, because large ones would never run
// otherwise. In steps, no sequence starts once the step has a number of tokens of prompts; admit
// returns how many it has started to read.
func (e *engine) admit(budget int) (prompts int) {
	for i := 0; i < len(e.waiting) && len(e.running) < e.slots && !e.reading() && prompts < budget; {
		seq := e.waiting[i]
		if active := adapters(e.running); seq.lora != "" && !slices.Contains(active, seq.lora) &&
			len(active) >= e.maxLoRAs {
			i++
			continue
		}
		if e.used+seq.blocks > e.blocks {
			return prompts
		}
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.running = append(e.running, seq)
		e.used += seq.blocks
		if e.steps != nil {
			seq.left, seq.began = seq.begin(), e.steps.ends
			prompts += seq.prefill(budget - prompts)
		}
		close(seq.running)
	}
	return prompts
}

type load struct {
	waiting, running           int
	waitingLoRAs, runningLoRAs []string // sorted, each once
	kvCache                    float64  // the share in use, 0 to 1
}

func (e *engine) load() load {
	e.mu.Lock()
	defer e.mu.Unlock()
	return load{
		waiting: len(e.waiting), running: len(e.running),
		waitingLoRAs: adapters(e.waiting), runningLoRAs: adapters(e.running),
		kvCache: float64(e.used) / float64(e.blocks),
	}
}

// adapters returns the adapters of seqs, sorted, each once.
func adapters(seqs []*sequence) []string {
	var names []string
	for _, seq := range seqs {
		if seq.lora != "" {
			names = append(names, seq.lora)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
