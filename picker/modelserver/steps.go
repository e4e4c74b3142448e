package modelserver

import (
	"context"
	"time"
)

// steps makes an engine serve in steps, as vLLM does. A step computes a chunk of the prompts, and
// one token for each request whose prompt is read. So a prompt delays other requests' answers.
type steps struct {
	least, perSequence time.Duration // of a step, and of each running sequence in it
	rate               float64       // prompt tokens a second; 0 means no limit
	chunk              int

	running bool
	ends    time.Time
}

// The caller holds e.mu.
func (e *engine) step(began time.Time) {
	s := e.steps
	prompts := 0
	for _, seq := range e.running {
		prompts += seq.prefill(s.chunk - prompts)
	}
	s.ends = began
	prompts += e.admit(s.chunk - prompts)
	if s.running = len(e.running) > 0; !s.running {
		return
	}
	took := s.least
	if s.rate > 0 {
		took = max(took, time.Duration(float64(prompts)/s.rate*float64(time.Second)))
	}
	s.ends = began.Add(took + time.Duration(len(e.running))*s.perSequence)
	time.AfterFunc(time.Until(s.ends), e.stepped)
}

// stepped ends a step and begins the next at the planned end of the last one. If the timer was late
// by a whole step, the next step begins now.
func (e *engine) stepped() {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.running
	e.running = nil
	for _, seq := range all {
		if seq.left == 0 {
			seq.computed(e.steps.ends)
		}
		if int(seq.tokens.Load()) >= seq.answer {
			e.used -= seq.blocks
			continue
		}
		e.running = append(e.running, seq)
	}
	began := e.steps.ends
	if now := time.Now(); now.Sub(began) > e.steps.least {
		began = now
	}
	e.step(began)
}

func (seq *sequence) prefill(n int) int {
	n = min(n, seq.left)
	seq.left -= n
	return n
}

func (seq *sequence) computed(now time.Time) {
	if seq.tokens.Load() == 0 {
		seq.prefilled = now.Sub(seq.began)
	}
	seq.tokens.Add(1)
	select {
	case seq.more <- struct{}{}:
	default:
	}
}

func (seq *sequence) await(ctx context.Context, n int) error {
	for int(seq.tokens.Load()) < n {
		select {
		case <-seq.more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
