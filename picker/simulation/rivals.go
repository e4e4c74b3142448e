package simulation

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
)

// Rivals returns the default strategies of other routers, reimplemented from their documentation
// (November 2026), and the strategy "reference", an ideal for comparison: it picks the least cost
// in seconds, and receives the begin of a response at once.
func Rivals() []Strategy {
	return []Strategy{
		{Name: "exact-least-request", Immediate: true, Unpaged: true,
			New: func(p Pool) Policy { return &leastRequest{newBooks(p, p.Config.Blocks), p} }},
		{Name: "dynamo", Immediate: true, Unpaged: true, New: newDynamo},
		{Name: "sglang", Immediate: true, Unpaged: true,
			New: func(p Pool) Policy { return &sglang{newBooks(p, sglangTree), p} }},
		{Name: "smg", Immediate: true, Unpaged: true,
			New: func(p Pool) Policy { return &smg{newBooks(p, sglangTree/p.Room), p} }},
		{Name: "bounded-hash", Immediate: true, Unpaged: true, New: newBoundedHash},
		{Name: "reference", Immediate: true, Unpaged: true,
			New: func(p Pool) Policy { return &reference{newBooks(p, p.Config.Blocks), p} }},
	}
}

type leastRequest struct {
	*books
	pool Pool
}

func (l *leastRequest) Choose(now time.Duration, r *Request) Choice {
	server := argmin(l.servers, l.pool.Random, func(s int) float64 { return float64(l.pool.Oracle.InFlight(s)) })
	return l.choice(server, now, r)
}

// dynamo is the default strategy of NVIDIA Dynamo's KV router (1.6). The cost of a server is the
// number of blocks of its prompts without a first token, including this prompt's uncached blocks,
// plus the number of distinct blocks of its prompts in flight, including this prompt. KV events
// make the cached blocks exact.
type dynamo struct {
	*books
	pool   Pool
	active []map[int32]int // by server: the number of requests that use each block
}

func newDynamo(p Pool) Policy {
	d := &dynamo{books: newBooks(p, p.Config.Blocks), pool: p, active: make([]map[int32]int, p.Room)}
	for i := range d.active {
		d.active[i] = map[int32]int{}
	}
	return d
}

func (d *dynamo) Choose(now time.Duration, r *Request) Choice {
	server := argmin(d.servers, d.pool.Random, func(s int) float64 {
		prefill := max(d.accounts[s].unserved+float64(r.Input-d.pool.Oracle.Cached(s, r)), 0) / BlockTokens
		decode := len(d.active[s])
		for _, block := range r.Blocks {
			if d.active[s][block] == 0 {
				decode++
			}
		}
		return prefill + float64(decode)
	})
	c := d.choice(server, now, r)
	c.Uncached = max(1, r.Input-d.pool.Oracle.Cached(server, r))
	return c
}

func (d *dynamo) Learn(now time.Duration, f Fact) {
	d.books.Learn(now, f)
	if f.Pick == nil {
		return
	}
	active := d.active[f.Pick.Server]
	for _, block := range f.Pick.Request.Blocks {
		switch f.Kind {
		case Picked:
			active[block]++
		case Ended:
			if active[block]--; active[block] == 0 {
				delete(active, block)
			}
		}
	}
}

// sglang is the cache-aware policy of SGLang's router. It picks the server with the longest cached
// prefix if the prefix exceeds cacheThreshold of the prompt, else the server with the smallest
// tree. While the highest and the lowest load differ by more than balanceAbsolute and
// balanceRelative, it picks the least loaded server.
type sglang struct {
	*books
	pool Pool
}

const (
	cacheThreshold   = 0.3
	balanceAbsolute  = 64
	balanceRelative  = 1.5
	sglangTree       = 1 << 26 / 4 / BlockTokens // 2^26 characters in each tree
	hashReplicas     = 100                       // virtual nodes of each server
	hashLoadFactor   = 1.25
	referenceWeight  = 3
	referenceRequest = 0.02 // seconds
)

func (g *sglang) Choose(now time.Duration, r *Request) Choice {
	least, most := g.accounts[0].inFlight, g.accounts[0].inFlight
	for s := range g.servers {
		least, most = min(least, g.accounts[s].inFlight), max(most, g.accounts[s].inFlight)
	}
	var cost func(s int) float64
	longest := 0
	for s := range g.servers {
		longest = max(longest, g.match(s, r))
	}
	switch {
	case most-least > balanceAbsolute && float64(most) > balanceRelative*float64(least):
		cost = func(s int) float64 { return float64(g.accounts[s].inFlight) }
	case float64(longest*BlockTokens) > cacheThreshold*float64(r.Input):
		cost = func(s int) float64 { return -float64(g.match(s, r)) }
	default:
		cost = func(s int) float64 { return float64(g.accounts[s].cached.size) }
	}
	return g.choice(argmin(g.servers, g.pool.Random, cost), now, r)
}

// smg is the default policy of smg (1.13): SGLang's policy with another rule for load. If the
// server with the longest cached prefix has more requests in flight than 1.5 times the mean and
// than the mean plus spillMargin, smg picks the least loaded server. All trees together have the
// limit of one tree of SGLang.
type smg struct {
	*books
	pool Pool
}

func spillMargin(mean float64) float64 { return min(max(2*math.Sqrt(mean), 4), balanceAbsolute) }

func (g *smg) Choose(now time.Duration, r *Request) Choice {
	longest, total := 0, 0
	for s := range g.servers {
		longest = max(longest, g.match(s, r))
		total += g.accounts[s].inFlight
	}
	if float64(longest*BlockTokens) <= cacheThreshold*float64(r.Input) {
		return g.choice(argmin(g.servers, g.pool.Random,
			func(s int) float64 { return float64(g.accounts[s].cached.size) }), now, r)
	}
	server := argmin(g.servers, g.pool.Random, func(s int) float64 { return -float64(g.match(s, r)) })
	mean := float64(total) / float64(g.servers)
	if load := float64(g.accounts[server].inFlight); load > balanceRelative*mean && load-mean > spillMargin(mean) {
		server = argmin(g.servers, g.pool.Random, func(s int) float64 { return float64(g.accounts[s].inFlight) })
	}
	return g.choice(server, now, r)
}

// boundedHash is consistent hashing with bounded loads. From the key's hash on, it picks the first
// server on the ring that has fewer requests in flight than hashLoadFactor times the mean.
type boundedHash struct {
	*books
	ring []node
}

type node struct {
	at     uint64
	server int
}

func newBoundedHash(p Pool) Policy {
	b := &boundedHash{books: newBooks(p, p.Config.Blocks)}
	for s := range p.Servers {
		b.join(s)
	}
	return b
}

func (b *boundedHash) join(server int) {
	for i := range hashReplicas {
		sum := md5.Sum(fmt.Appendf(nil, "10.0.0.%d:8000:%d", server, i))
		b.ring = append(b.ring, node{binary.BigEndian.Uint64(sum[:]), server})
	}
	slices.SortFunc(b.ring, func(a, b node) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
}

func (b *boundedHash) Learn(now time.Duration, f Fact) {
	if f.Kind == Joined {
		b.join(f.Server)
	}
	b.books.Learn(now, f)
}

func (b *boundedHash) Choose(now time.Duration, r *Request) Choice {
	first, _ := slices.BinarySearchFunc(b.ring, mix(r.Key), func(n node, key uint64) int {
		if n.at < key {
			return -1
		}
		return 1
	})
	total := 0
	for s := range b.servers {
		total += b.accounts[s].inFlight
	}
	limit := hashLoadFactor * float64(total+1) / float64(b.servers)
	for i := range b.ring {
		if s := b.ring[(first+i)%len(b.ring)].server; float64(b.accounts[s].inFlight) < limit {
			return b.choice(s, now, r)
		}
	}
	return b.choice(b.ring[first%len(b.ring)].server, now, r)
}

// reference picks the server with the least cost in seconds: for the server's work before this
// request, the prompt's uncached tokens, and the requests in flight.
type reference struct {
	*books
	pool Pool
}

func (f *reference) Choose(now time.Duration, r *Request) Choice {
	return f.choice(argmin(f.servers, f.pool.Random, func(s int) float64 { return f.cost(s, now, r) }), now, r)
}

func (b *books) cost(server int, now time.Duration, r *Request) float64 {
	a := &b.accounts[server]
	tokens := b.work(server, now) + referenceWeight*float64(b.uncached(server, r))
	return tokens/a.rate + referenceRequest*float64(a.inFlight)
}
