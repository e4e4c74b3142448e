package endpoint

import "time"

// If no request measured a server's speed for relearnAfter, one request measures it again.
// Otherwise a server that was slow once would get no requests, and so count as slow forever.
const relearnAfter = 10 * time.Second

// Outdated reports whether a request should measure the speed of e, with state s, again. e must be
// idle and have no trial in flight. The last measurement must be older than relearnAfter times the
// number of processes, because each process measures by itself.
func (e *Endpoint) Outdated(s *State, at Moment) bool {
	if !s.Trial || s.InFlight > 0 || s.Fresh && s.Queue+s.Running > 0 {
		return false
	}
	learned := e.load.latency.Load()
	return learned == nil || int64(at)-learned.lesson.Load() >= int64(relearnAfter)*e.load.registry.budget.processes()
}

// The caller holds lease.mu.
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

// sentWhole learns from a response that is not streamed, which took after. Its first token came
// before its end. So sentWhole lowers a prediction above after, and otherwise learns nothing.
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

// shorten scales earlier samples down if they predict more than y for x: the server has become
// faster, and one new sample alone would change little.
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
