package modelserver

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// blockSize is the number of tokens in a KV cache block: vLLM's default.
const blockSize = 16

type sequence struct {
	lora    string // "" for the base model
	blocks  int    // to reserve for the prompt and the longest possible answer
	running chan struct{}
	read    bool

	// The other fields are for an engine that serves in steps.
	answer    int        // tokens to generate; at least 1
	begin     func() int // returns the number of uncached prompt tokens
	left      int
	tokens    atomic.Int64
	more      chan struct{}
	began     time.Time
	prefilled time.Duration // time from began to the first token
}

// engine schedules sequences like vLLM's scheduler without preemption: a sequence reserves all
// blocks that it may need before it starts.
type engine struct {
	slots, blocks, maxLoRAs int
	partial                 int // maximum of prompts read at the same time; 0 means no limit
	steps                   *steps

	mu      sync.Mutex
	waiting []*sequence
	running []*sequence
	used    int
}

func newEngine(slots, blocks, maxLoRAs, partial int) *engine {
	return &engine{slots: slots, blocks: blocks, maxLoRAs: maxLoRAs, partial: partial}
}

// enter waits until seq runs. The caller then calls leave at the end of seq, but not after an
// error.
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
		e.leave(seq) // the engine may have admitted seq concurrently
		return ctx.Err()
	}
}

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

func (e *engine) changed() {
	switch {
	case e.steps == nil:
		e.admit(math.MaxInt)
	case !e.steps.running:
		e.step(time.Now())
	}
}

func (e *engine) prefilled(seq *sequence) {
	if e.partial == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	seq.read = true
	e.changed()
}

func (e *engine) reading() bool {
	n := 0
	for _, seq := range e.running {
		if !seq.read {
			n++
		}
	}
	return e.partial > 0 && n >= e.partial
}

// admit starts waiting sequences. It skips a sequence whose adapter has no slot. If a sequence
// lacks a slot or blocks, admit starts no later one: otherwise large sequences might never run.
// With steps, the started sequences read up to budget prompt tokens; admit returns their number.
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
	waitingLoRAs, runningLoRAs []string
	kvCache                    float64 // used share, 0 to 1
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
