package endpoint

import "time"

// relearnAfter is how long what was learned of a server's speed decides alone that it gets no
// request. Then one request shows the speed again: a server that gets none teaches nothing, and
// would be slow for ever. A slow server delays one client in that time, so it is long against an
// answer that comes in time; a server that is fast again is idle for that time, so it is short
// against a restart.
const relearnAfter = 10 * time.Second

// Outdated reports whether a request may be sent to e to show its speed, whatever was learned of
// it: e, whose state at that moment is s, is idle, as far as is known, has no trial in flight, and
// nothing was learned of it for relearnAfter. Each process learns by itself, so several take turns:
// each waits as many times as long as there are processes.
func (e *Endpoint) Outdated(s *State, at Moment) bool {
	if !s.Trial || s.InFlight > 0 || s.Fresh && s.Queue+s.Running > 0 {
		return false
	}
	of := e.load.latency.Load()
	return of == nil || int64(at)-of.lesson.Load() >= int64(relearnAfter)*e.load.registry.budget.processes()
}

// teach learns from the time to the first byte of a response. lease.mu is held.
func (lease *Lease) teach(after time.Duration) {
	if !lease.measured() || !lease.work.Stream && !lease.work.Relearn {
		return
	}
	of := lease.load.learner()
	lease.reached += int64(after)
	of.lesson.Store(lease.reached)
	if lease.work.Stream {
		of.sentFirst(&lease.work.Features, after, lease.work.Relearn)
	} else {
		of.sentWhole(&lease.work.Features, after)
	}
}

// sentWhole takes the time to a response that is not streamed, and shows the server's speed again.
// Its first token took less: the time counts if more was predicted for that.
func (l *latency) sentWhole(f *Features, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ttft, _ := l.current.Load().Predict(f)
	if after.Seconds() >= ttft {
		return
	}
	l.first.scale(after.Seconds() / ttft)
	if l.sendsEarly() {
		l.rest.scale(after.Seconds() / ttft)
	}
	l.learn(&l.first, f.row(0), after)
}

// shorten scales the times of earlier samples if they predict more than y for x: the server is as
// many times as fast as it was. One sample among them would change little.
func (r *regression) shorten(x *[restTerms]float64, y float64) {
	w := r.solve()
	var predicted float64
	for i := range x {
		predicted += w[i] * x[i]
	}
	if y < predicted {
		r.scale(y / predicted)
	}
}

// scale multiplies the times of all samples.
func (r *regression) scale(by float64) {
	for i := range r.b {
		r.b[i] *= by
	}
}
