package endpoint

import "time"

// promptState is how a lease's prompt counts at its endpoint.
type promptState uint8

const (
	promptRead    promptState = iota // it does not
	promptUnread                     // as unread
	promptWaiting                    // as unread, confirmed by a report
)

// beginPrompt has the prompt count as unread at an endpoint. lease.mu is held, or the lease is new.
func (lease *Lease) beginPrompt(at *Load, now time.Time) {
	if lease.work.Tokens > 0 && lease.work.Rate > 0 {
		lease.ahead = at.prefill.begin(lease.work, sinceStart(now))
		lease.prompt = promptUnread
		at.markDirty()
	}
}

// endPrompt has the prompt count no more, and returns whether it did. lease.mu is held.
func (lease *Lease) endPrompt() bool {
	was := lease.prompt
	if lease.prompt = promptRead; was != promptRead {
		lease.load.prefill.end(int64(lease.work.Tokens), was == promptWaiting)
		lease.load.markDirty()
	}
	return was != promptRead
}

// endTrial lets the endpoint that was picked have another trial. lease.mu is held.
func (lease *Lease) endTrial() {
	if lease.trial {
		lease.trial = false
		lease.picked.health.trial.Store(false)
	}
}

// Begun records that the response's first token has been seen, and when the server sent it, counted
// from when it got the request; 0 if that is unknown.
func (lease *Lease) Begun(after time.Duration) {
	lease.mu.Lock()
	if lease.work.Early && after > 0 {
		lease.event(after)
		lease.mu.Unlock()
		return
	}
	if lease.load != nil && lease.load.motion.stopped(lease.sent) {
		after = 0 // it shows no speed
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

// Whole records that the response is no stream, whatever the request asks for: its first byte is
// not its first token.
func (lease *Lease) Whole() {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.work.Stream, lease.work.Measure, lease.work.Early = false, false, false
}

// Streams reports whether the server sends each token as soon as it has it.
func (lease *Lease) Streams() bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.work.Stream
}

// Early reports whether the first byte of the response is no first token.
func (lease *Lease) Early() bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.work.Early
}

// measured reports whether the request was sent to the server that serves it by a prediction of its
// latency. lease.mu is held.
func (lease *Lease) measured() bool {
	return lease.load != nil && lease.load == lease.picked && lease.work.Features != Features{}
}

// Wrote records that a response has ended: its size in bytes, and how long it took after its first
// one.
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
		of := lease.load.learner()
		of.lesson.Store(lease.reached + int64(took))
		of.sentRest(&lease.work.Features, took, tokens, lease.work.Relearn)
	}
}

// Waits records a report that the first token has not been seen. If the server sends it at once,
// the prompt is now known to be unread.
func (lease *Lease) Waits() {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.load != nil && lease.work.Stream && !lease.work.Early && lease.prompt == promptUnread {
		lease.prompt = promptWaiting
		lease.load.prefill.confirmed.Add(int64(lease.work.Tokens))
		lease.load.markDirty()
	}
}
