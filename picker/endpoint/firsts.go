package endpoint

import "time"

// First tokens that servers have sent show how long a server that works takes at most, where its
// rate is unknown. A prompt is compared with prompts that are a quarter as long at least: short
// ones do not show how fast a server reads, and on a CPU a long one takes minutes. A server without
// enough first tokens of its own is compared with the pool's others, of which the slowest counts.
const (
	// keptFirsts is how many of a server's first tokens count, and enoughFirsts how many are
	// needed.
	keptFirsts, enoughFirsts = 32, 5
	// longer is how many times as long a prompt may be as one that it is compared with, where those
	// of up to shortPrompt tokens take equally long.
	longer, shortPrompt = 4, 64
	// slower is how many times as slow as the pool's slowest other server a server may be, within
	// the time that is given without first tokens.
	slower = 4
)

// firstTokens are the last first tokens of a server. A motion's lock guards them.
type firstTokens struct {
	ring  [keptFirsts]firstByte
	count int
}

// first takes the time to the first token of a prompt of so many tokens.
func (m *motion) first(tokens int, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.firsts.ring[m.firsts.count%keptFirsts] = firstByte{int64(tokens), after}
	m.firsts.count++
}

// slowest returns how many first tokens show how long the one of a prompt takes, and the longest
// time by these. With the prompts that the server reads with it, it is all tokens long.
func (m *motion) slowest(prompt, all int64) (n int, most time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, is := range m.firsts.ring[:min(m.firsts.count, keptFirsts)] {
		tokens := max(is.tokens, shortPrompt)
		if prompt > longer*tokens {
			continue
		}
		n++
		most = max(most, time.Duration(float64(is.after)*max(1, float64(all)/float64(tokens))))
	}
	return n, most
}

// expected is how long a request's first token takes at most, if the server serves.
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

// unseen is expected where too few first tokens were seen: a request waits long enough for the
// slowest of servers to read its prompt.
func (w *Work) unseen() time.Duration {
	const most = unknownWait / beyond
	slowest := w.Slowest
	if slowest == 0 {
		slowest = max(most, time.Duration(w.Prompt)*time.Second/minRate)
	}
	return max(min(slowest, most), slowest/beyond)
}

// slowest returns the longest time to the first token of a prompt by the first tokens of all
// servers; 0: too few were seen. A nil Snapshot has no servers.
func (s *Snapshot) slowest(prompt, all int64) (most time.Duration) {
	if s == nil {
		return 0
	}
	seen := 0
	for i := range s.Endpoints {
		n, is := s.Endpoints[i].load.motion.slowest(prompt, all)
		seen, most = seen+n, max(most, is)
	}
	if seen < enoughFirsts {
		return 0
	}
	return most
}
