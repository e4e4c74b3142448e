package endpoint

import "time"

// After relearnAfter without requests, one request measures a server's speed again. Otherwise a
// server that was slow once would get no requests and stay slow forever.
const relearnAfter = 10 * time.Second

// Outdated reports whether a request may measure the speed of e, whose state is s. e must be idle
// and have no trial in flight. Its speed must not have been measured for relearnAfter times the
// number of processes, because each process measures by itself.
func (e *Endpoint) Outdated(s *State, at Moment) bool {
	if !s.Trial || s.InFlight > 0 || s.Fresh && s.Queue+s.Running > 0 {
		return false
	}
	learned := e.load.latency.Load()
	return learned == nil || int64(at)-learned.lesson.Load() >= int64(relearnAfter)*e.load.registry.budget.processes()
}

// lease.mu is held.
func (lease *Lease) teach(after time.Duration) {
	if !lease.measured() || !lease.work.Stream && !lease.work.Relearn {
		return
	}
	learned := lease.load.learner()
	lease.reached += int64(after)
	learned.lesson.Store(lease.reached)
	if lease.work.Stream {
		learned.sentFirst(&lease.work.Features, after, lease.work.Relearn)
	} else {
		learned.sentWhole(&lease.work.Features, after)
	}
}

// sentWhole learns from a response that is not streamed. The first token came before the response's
// end, so the time counts only if it is below the prediction.
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

// If earlier samples predict more than y for x, shorten scales them down: the server has become
// faster, and one new sample would change little.
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

func (r *regression) scale(by float64) {
	for i := range r.b {
		r.b[i] *= by
	}
}
