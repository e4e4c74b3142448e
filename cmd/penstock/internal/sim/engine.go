package sim

import (
	"context"
	"slices"
	"sync"
)

// blockSize is how many tokens a block of the KV cache holds: vLLM's default.
const blockSize = 16

// sequence is one request in the engine.
type sequence struct {
	lora    string        // the adapter it asks for; "" for the base model
	blocks  int           // of the KV cache, for the prompt and the longest answer
	running chan struct{} // closed when it may run
	read    bool          // its prompt is read
}

// engine schedules sequences. It is vLLM's scheduler without preemption: a sequence reserves all that it may need when it
// starts, so no running one is ever moved back to the queue.
type engine struct {
	slots, blocks, maxLoRAs int // limits
	partial                 int // limit of prompts that are read at a time; 0: none

	mu      sync.Mutex
	waiting []*sequence // first come, first served, except for adapters
	running []*sequence
	used    int // blocks held by running
}

func newEngine(slots, blocks, maxLoRAs, partial int) *engine {
	return &engine{slots: slots, blocks: blocks, maxLoRAs: maxLoRAs, partial: partial}
}

// enter waits until seq may run; the caller then calls leave. If ctx ends first, enter returns its error and seq holds nothing.
func (e *engine) enter(ctx context.Context, seq *sequence) error {
	seq.running = make(chan struct{})
	e.mu.Lock()
	e.waiting = append(e.waiting, seq)
	e.admit()
	e.mu.Unlock()
	select {
	case <-seq.running:
		return nil
	case <-ctx.Done():
		e.leave(seq) // it may have been admitted concurrently
		return ctx.Err()
	}
}

// leave releases what seq holds: its slot and blocks, or its place in the queue.
func (e *engine) leave(seq *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.running, seq); i >= 0 {
		e.running = slices.Delete(e.running, i, i+1)
		e.used -= seq.blocks
	} else if i := slices.Index(e.waiting, seq); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	e.admit()
}

// prefilled records that the prompt of seq is read, so that the next one can be.
func (e *engine) prefilled(seq *sequence) {
	if e.partial == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	seq.read = true
	e.admit()
}

// reading reports whether as many prompts are being read as may be at a time.
func (e *engine) reading() bool {
	n := 0
	for _, seq := range e.running {
		if !seq.read {
			n++
		}
	}
	return e.partial > 0 && n >= e.partial
}

// admit starts all sequences that can run. It skips a sequence whose adapter has no slot. One that lacks a slot or blocks
// stops all after it, because large ones would never run otherwise.
func (e *engine) admit() {
	for i := 0; i < len(e.waiting) && len(e.running) < e.slots && !e.reading(); {
		seq := e.waiting[i]
		if active := adapters(e.running); seq.lora != "" && !slices.Contains(active, seq.lora) && len(active) >= e.maxLoRAs {
			i++
			continue
		}
		if e.used+seq.blocks > e.blocks {
			return
		}
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.running = append(e.running, seq)
		e.used += seq.blocks
		close(seq.running)
	}
}

// load is the state of the engine at one moment.
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
