package simulation

import "time"

// books are a picker's records of its own and its peers' picks, from which the strategies of Rivals
// predict waits.
type books struct {
	servers  int
	capacity int // assumed cached blocks per server
	accounts []account
}

type account struct {
	inFlight int
	rate     float64 // tokens a second
	unserved float64 // Q: uncached tokens of requests without a first byte
	backlog  float64 // W: tokens left to read at the time at; falls by rate tokens a second
	at       time.Duration
	cached   recency
}

func newBooks(p Pool, capacity int) *books {
	b := &books{servers: p.Servers, capacity: capacity, accounts: make([]account, p.Room)}
	for i := range b.accounts {
		b.accounts[i].rate = p.Config.PrefillRate
		b.accounts[i].cached = newRecency(len(p.Workload.tree.hashes))
	}
	return b
}

func (b *books) match(server int, r *Request) int {
	cached := &b.accounts[server].cached
	blocks := r.full()
	for i, block := range blocks {
		if !cached.has(block) {
			return i
		}
	}
	return len(blocks)
}

func (b *books) uncached(server int, r *Request) int {
	return max(1, r.Input-BlockTokens*b.match(server, r))
}

func (a *account) leaked(now time.Duration) float64 {
	a.backlog = max(0, a.backlog-a.rate*(now-a.at).Seconds())
	a.at = now
	return a.backlog
}

func (b *books) work(server int, now time.Duration) float64 {
	a := &b.accounts[server]
	return min(max(a.leaked(now), a.unserved/2), a.unserved)
}

func (b *books) wait(server int, now time.Duration, uncached int) time.Duration {
	return time.Duration((b.work(server, now) + float64(uncached)) / b.accounts[server].rate * float64(time.Second))
}

func (b *books) choice(server int, now time.Duration, r *Request) Choice {
	uncached := b.uncached(server, r)
	return Choice{Server: server, Uncached: uncached, Wait: b.wait(server, now, uncached)}
}

func (b *books) Learn(now time.Duration, f Fact) {
	if f.Kind == Joined {
		b.servers = f.Server + 1
	}
	if f.Pick == nil {
		return
	}
	a := &b.accounts[f.Pick.Server]
	switch f.Kind {
	case Picked:
		a.inFlight++
		a.unserved += float64(f.Pick.Uncached)
		a.backlog = a.leaked(now) + float64(f.Pick.Uncached)
		b.remember(a, f.Pick.Request)
	case FirstByte:
		a.unserved -= float64(f.Pick.Uncached)
	case Ended:
		a.inFlight--
	}
}

func (b *books) remember(a *account, r *Request) {
	blocks := r.full()
	for i := len(blocks) - 1; i >= 0; i-- {
		a.cached.add(blocks[i])
	}
	for a.cached.size > b.capacity {
		a.cached.remove(a.cached.oldest())
	}
}
