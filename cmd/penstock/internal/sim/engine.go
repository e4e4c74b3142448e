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
}

// engine decides who runs. It is vLLM's scheduler without its preemption: what a sequence may need is set aside when it
// starts, so nothing that runs is ever put back.
type engine struct {
	slots, blocks, maxLoRAs int // limits

	mu      sync.Mutex
	waiting []*sequence // first come, first served, but for adapters
	running []*sequence
	used    int // blocks held by running
}

func newEngine(slots, blocks, maxLoRAs int) *engine {
	return &engine{slots: slots, blocks: blocks, maxLoRAs: maxLoRAs}
}

// enter waits until seq may run; leave must follow. When ctx ends first, its error is returned and seq holds nothing.
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
		e.leave(seq) // it may have been admitted at this very moment
		return ctx.Err()
	}
}

// leave gives back what seq holds, be it a slot or a place in the queue.
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

// admit starts whom it can. A sequence whose adapter finds no place is passed over; one that lacks a slot or blocks
// holds up all behind it, or large ones would never run.
func (e *engine) admit() {
	for i := 0; i < len(e.waiting) && len(e.running) < e.slots; {
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

// load is what the engine looks like at one moment.
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

// adapters lists the adapters of seqs, sorted, each once.
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
