package endpoint

import (
	"net/netip"
	"testing"
	"time"
)

// A server without a known rate is compared with the pool's other servers. It becomes silent soon
// after they would have answered such a prompt, but not while it may only be slow.
func TestSilent_ServerWithoutARateIsComparedWithOthers(t *testing.T) {
	const ms = time.Millisecond
	unknown := func(tokens int) Work {
		return Work{
			Generates: true, Stream: true, First: 250 * ms, Prompt: tokens, Tokens: tokens, Rate: 4000,
			Slowest: time.Duration(tokens) * 10 * ms,
		}
	}
	type firsts struct {
		n, tokens int
		after     time.Duration
	}
	for name, tt := range map[string]struct {
		others, own []firsts
		work        []Work
		tokens      float64 // further tokens on the page each second
		want        float64 // seconds until silent; 0 means not within a minute
	}{
		"others that are quick": {others: []firsts{{5, 8000, 100 * ms}}, work: []Work{unknown(8000)}, want: 2},
		"without a page": {
			others: []firsts{{5, 8000, 100 * ms}}, work: []Work{unknown(8000)}, tokens: noPage, want: 6},
		"a strategy that predicts nothing": {
			others: []firsts{{5, 8000, 100 * ms}}, work: []Work{{Generates: true, Stream: true, Prompt: 8000}},
			want: 2},
		"a server that is 16 times as slow": {others: []firsts{{5, 8000, time.Second}}, work: []Work{unknown(8000)},
			want: 16},
		"others that are slow": {others: []firsts{{5, 8000, 50 * time.Second}},
			work: []Work{unknown(8000)}},
		"one of them": {others: []firsts{{9, 8000, ms}, {1, 8000, time.Minute}},
			work: []Work{unknown(8000)}},
		"others that have read short prompts": {
			others: []firsts{{9, 1000, 100 * ms}}, work: []Work{unknown(8000)}},
		"prompts of a quarter of the length": {
			others: []firsts{{9, 2000, 100 * ms}}, work: []Work{unknown(8000)}, want: 6},
		"few others":                {others: []firsts{{4, 8000, 100 * ms}}, work: []Work{unknown(8000)}},
		"nothing is known":          {work: []Work{unknown(8000)}},
		"nothing, a shorter prompt": {work: []Work{unknown(400)}, want: 16},
		"prompts that wait for each other": {
			others: []firsts{{5, 8000, time.Second}}, own: []firsts{{5, 8000, time.Second}},
			work: []Work{unknown(8000), unknown(8000), unknown(8000)}, want: 12},
		"it was quick itself": {own: []firsts{{5, 8000, 100 * ms}}, work: []Work{unknown(8000)}, want: 2},
		"it was slow itself": {
			others: []firsts{{9, 8000, ms}}, own: []firsts{{5, 8000, 10 * time.Second}}, work: []Work{unknown(8000)},
			want: 40},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMotionRig()
			pool := m.Snapshot(Metrics{}, nil, []Spec{
				{Addr: netip.MustParseAddrPort("10.0.0.1:80")}, {Addr: netip.MustParseAddrPort("10.0.0.2:80")},
			})
			for i, seen := range [][]firsts{tt.own, tt.others} {
				for _, group := range seen {
					for range group.n {
						pool.Endpoints[i].load.motion.first(group.tokens, group.after)
					}
				}
			}
			if tt.tokens >= 0 {
				m.page(0, 0)
			}
			var leases []*Lease
			for _, w := range tt.work {
				w.Pool = pool
				leases = append(leases, m.send(0, w))
			}
			got := m.follow(60, tt.tokens, answered, leases...)
			if got < tt.want || got > tt.want+1 || (got == 0) != (tt.want == 0) {
				t.Errorf("silent after %v s, want %v", got, tt.want)
			}
		})
	}
}

// First tokens of other servers count even if they arrive while requests wait at this server.
func TestSilent_FirstTokensOfOthersCountAtOnce(t *testing.T) {
	m := newMotionRig()
	pool := m.Snapshot(Metrics{}, nil, []Spec{
		{Addr: netip.MustParseAddrPort("10.0.0.1:80")}, {Addr: netip.MustParseAddrPort("10.0.0.2:80")},
	})
	m.page(0, 0)
	w := Work{Generates: true, Stream: true, First: time.Second, Prompt: 8000, Slowest: 80 * time.Second, Pool: pool}
	waits := m.send(0, w)
	if got := m.follow(10, 0, answered, waits); got != 0 {
		t.Fatalf("silent after %v s, want never: no server answers", got)
	}
	for range enoughFirsts {
		other := m.leases.Open(&pool.Endpoints[1], Holder{}, w, 0, m.at(10))
		other.Progress(Progress{Status: 200, Sent: 1, First: time.Second, Bytes: 9, Streams: true}, m.at(11))
		other.Release()
	}
	waits.Progress(answered, m.at(18))
	m.page(18, 0)
	if !m.silent(18) {
		t.Error("it is not silent")
	}
}
