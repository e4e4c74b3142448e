package endpoint

import "time"

// While a server's prefill rate is unknown, past times to the first token predict the next one.
// Only requests with similar or longer prompts count: on a CPU, a long prompt takes minutes.
const (
	keptFirsts, enoughFirsts = 32, 5
	// A prompt is similar to prompts of at least 1/longer of its length. All prompts of up to
	// shortPrompt tokens count as equally long.
	longer, shortPrompt = 4, 64
	slower              = 4
)

type firstTokens struct {
	ring  []firstByte
	count int
}

func (m *motion) first(tokens int, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.firsts.ring = ring(m.firsts.ring, m.firsts.count, keptFirsts, firstByte{int64(tokens), after})
	m.firsts.count++
}

// slowest returns the number n of past requests with prompts similar to or longer than prompt (in
// tokens), and their longest time to the first token. Each time is scaled up from the request's
// tokens to all, the tokens that the server must read.
func (m *motion) slowest(prompt, all int64) (n int, most time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.firsts.ring {
		tokens := max(f.tokens, shortPrompt)
		if prompt > longer*tokens {
			continue
		}
		n++
		most = max(most, time.Duration(float64(f.after)*max(1, float64(all)/float64(tokens))))
	}
	return n, most
}

func (l *Load) expected(w *Work) time.Duration {
	if w.First > 0 && w.Slowest == 0 {
		return w.First
	}
	prompt := int64(w.Prompt)
	all := max(prompt, l.prefill.unread.Load()+l.prefill.elsewhere.unread.Load())
	n, own := l.motion.slowest(prompt, all)
	if n >= enoughFirsts {
		return max(w.First, own)
	}
	unseen := w.unseen()
	if seen := w.Pool.slowest(prompt, all); seen > 0 {
		unseen = max(seen, min(slower*seen, unseen))
	}
	return max(w.First, own, unseen)
}

func (w *Work) unseen() time.Duration {
	const most = unknownWait / beyond
	slowest := w.Slowest
	if slowest == 0 {
		slowest = max(most, time.Duration(w.Prompt)*time.Second/minRate)
	}
	return max(min(slowest, most), slowest/beyond)
}

func (s *Snapshot) slowest(prompt, all int64) (most time.Duration) {
	if s == nil {
		return 0
	}
	seen := 0
	for i := range s.Endpoints {
		n, longest := s.Endpoints[i].load.motion.slowest(prompt, all)
		seen, most = seen+n, max(most, longest)
	}
	if seen < enoughFirsts {
		return 0
	}
	return most
}
