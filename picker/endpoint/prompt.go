package endpoint

import "time"

type promptState uint8

const (
	promptRead promptState = iota
	promptUnread
	promptWaiting // a later access log entry showed that the prompt still waits
)

// The caller holds lease.mu, or the lease is new.
func (lease *Lease) beginPrompt(at *Load, now time.Time) {
	if lease.work.Tokens > 0 && lease.work.Rate > 0 {
		lease.ahead = at.prefill.begin(lease.work, sinceStart(now))
		lease.prompt = promptUnread
		at.markDirty()
	}
}

// The caller holds lease.mu.
func (lease *Lease) endPrompt() bool {
	before := lease.prompt
	if lease.prompt = promptRead; before != promptRead {
		lease.load.prefill.end(int64(lease.work.Tokens), before == promptWaiting)
		lease.load.markDirty()
	}
	return before != promptRead
}

// The caller holds lease.mu.
func (lease *Lease) endTrial() {
	if lease.trial {
		lease.trial = false
		lease.picked.health.trial.Store(false)
	}
}

// Begun records the response's first token. after is the time since the server got the request; 0
// if unknown.
func (lease *Lease) Begun(after time.Duration) {
	lease.mu.Lock()
	if lease.work.Early && after > 0 {
		lease.event(after)
		lease.mu.Unlock()
		return
	}
	if lease.load != nil && lease.load.motion.stopped(lease.sent) {
		after = 0 // the server was silent meanwhile, so the time shows no speed
	}
	parts, first := lease.takeParts(), after
	if !lease.work.Stream {
		first = 0
	}
	defer func() {
		lease.mu.Unlock()
		endParts(parts, first)
	}()
	if !lease.begun && after > 0 {
		if lease.load != nil && lease.load == lease.picked {
			lease.load.prefill.begun(lease.reached, after, int64(lease.work.Tokens), !lease.work.Stream)
		}
		lease.teach(after)
	}
	lease.begun = true
	if lease.load != nil && lease.endPrompt() {
		lease.measure(after)
	}
}

// Whole records that the server sends the response as a whole.
func (lease *Lease) Whole() {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.work.Stream, lease.work.Measure, lease.work.Early = false, false, false
}

// Streams reports whether the server sends each token when it is generated.
func (lease *Lease) Streams() bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.work.Stream
}

// Early reports whether the response's first byte is not its first token.
func (lease *Lease) Early() bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.work.Early
}

// The caller holds lease.mu.
func (lease *Lease) measured() bool {
	return lease.load != nil && lease.load == lease.picked && lease.work.Features != Features{}
}

// Wrote records the end of a response of this size, and the time from its first byte to its end.
func (lease *Lease) Wrote(bytes int64, took time.Duration) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.work.Early && lease.first > 0 && lease.load != nil && lease.load == lease.picked {
		lease.load.prefill.begun(lease.reached, lease.first+took, int64(lease.work.Tokens), true)
		lease.first = 0
	}
	if lease.work.TokenBytes <= 0 || took <= 0 || !lease.work.Stream || lease.work.Early || !lease.measured() {
		return
	}
	tokens := bytes / int64(lease.work.TokenBytes)
	if most := int64(lease.work.MaxTokens); most > 0 {
		tokens = min(tokens, most)
	}
	if tokens > 0 {
		learned := lease.load.learner()
		learned.lesson.Store(lease.reached + int64(took))
		learned.sentRest(&lease.work.Features, took, tokens, lease.work.Relearn)
	}
}

// Waits records a report of a request whose response has not begun. For a stream that begins with
// its first token, the report confirms that the server has not read the prompt yet.
func (lease *Lease) Waits() {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.load != nil && lease.work.Stream && !lease.work.Early && lease.prompt == promptUnread {
		lease.prompt = promptWaiting
		lease.load.prefill.confirmed.Add(int64(lease.work.Tokens))
		lease.load.markDirty()
	}
}
