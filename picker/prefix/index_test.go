package prefix

import (
	"container/list"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

// model is the reference: a server as a map and a list.
type model struct {
	blocks   map[uint64]*list.Element
	order    *list.List // list of *modelBlock, last used first
	tokens   int
	capacity int
}

type modelBlock struct {
	hash   uint64
	tokens int
	uses   *int
}

func newModel() *model {
	return &model{blocks: map[uint64]*list.Element{}, order: list.New(), capacity: DefaultCapacity}
}

func (m *model) evict(share int) {
	for m.order.Len() > 0 && (m.tokens > m.capacity || m.order.Len() > share) {
		block := m.order.Remove(m.order.Back()).(modelBlock)
		delete(m.blocks, block.hash)
		m.tokens -= block.tokens
	}
}

// add skips blocks that do not fit, because they would be evicted at once.
func (m *model) add(c Chain, share int) {
	for len(c) > 0 && (End(len(c)-1) > m.capacity || len(c) > share) {
		c = c[:len(c)-1]
	}
	for i := len(c) - 1; i >= 0; i-- {
		if e := m.blocks[c[i]]; e != nil {
			m.order.MoveToFront(e)
			*e.Value.(modelBlock).uses++
			continue
		}
		uses := 1
		block := modelBlock{c[i], End(i) - End(i-1), &uses}
		m.blocks[c[i]] = m.order.PushFront(block)
		m.tokens += block.tokens
	}
	m.evict(share)
}

func (m *model) forget(c Chain) {
	for i := range c {
		e := m.blocks[c[i]]
		if e == nil {
			return
		}
		block := e.Value.(modelBlock)
		if *block.uses--; *block.uses == 0 {
			m.order.Remove(e)
			delete(m.blocks, block.hash)
			m.tokens -= block.tokens
		}
	}
}

func (m *model) match(c Chain) int32 {
	n := 0
	for n < len(c) && m.blocks[c[n]] != nil {
		n++
	}
	return int32(End(n - 1))
}

type world struct {
	t       testing.TB
	index   *Index
	servers []*Server
	models  []*model
	chains  []Chain
	next    uint64
}

func newWorld(t testing.TB, blocks int) *world {
	return &world{t: t, index: New(Config{Blocks: blocks}), chains: []Chain{nil}}
}

func key(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 8000)
}

func (w *world) join() {
	w.next++
	w.servers = append(w.servers, w.index.Server(key(int(w.next))))
	w.models = append(w.models, newModel())
	for _, m := range w.models {
		m.evict(w.index.share())
	}
}

func (w *world) leave(n int) {
	w.index.Release(w.servers[n])
	w.index.sweep()
	w.servers = append(w.servers[:n:n], w.servers[n+1:]...)
	w.models = append(w.models[:n:n], w.models[n+1:]...)
}

func (w *world) grow(from, keep, more int) Chain {
	parent := w.chains[from%len(w.chains)]
	c := append(Chain(nil), parent[:keep%(len(parent)+1)]...)
	for range min(more, MaxBlocks-len(c)) {
		w.next++
		c = append(c, max(mix(w.next, w.next), 1))
	}
	w.chains = append(w.chains, c)
	return c
}

func (w *world) add(n int, c Chain) {
	w.index.Add(w.servers[n], c)
	w.models[n].add(c, w.index.share())
}

func (w *world) check(c Chain) {
	w.t.Helper()
	cached := make([]int32, len(w.servers))
	w.index.Match(c, w.servers, cached)
	held := 0
	for i, m := range w.models {
		held += m.order.Len()
		if want := m.match(c); cached[i] != want {
			w.t.Fatalf("server %d of %d, chain of %d blocks: %d tokens cached, the model has %d", i, len(w.servers),
				len(c), cached[i], want)
		}
	}
	if got := w.index.held.Load(); got != int64(held) {
		w.t.Fatalf("%d blocks, want %d as the model has", got, held)
	}
}

func (w *world) step(a, b, c byte) {
	switch n := len(w.servers); {
	case n == 0 || a < 12 && n < 200:
		w.join()
	case a < 16 && n > 1:
		w.leave(int(b) % n)
	case a < 20:
		i := int(b) % n
		w.servers[i].SetCapacity(int(c) * 200)
		if w.models[i].capacity = int(c) * 200; c == 0 {
			w.models[i].capacity = DefaultCapacity
		}
		w.models[i].evict(w.index.share())
	case a < 40:
		n, chain := int(b)%n, w.chains[int(c)%len(w.chains)]
		w.add(n, chain)
		w.index.Forget(w.servers[n], chain)
		w.models[n].forget(chain)
	case a < 100:
		w.add(int(b)%n, w.chains[int(c)%len(w.chains)])
	default:
		w.add(int(b)%n, w.grow(int(a), int(c), int(b)*int(c)/600))
	}
	w.check(w.chains[(int(a)+int(b)+int(c))%len(w.chains)])
}

func TestPrefix_IndexEqualsModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, 300<<rng.IntN(6))
			for range 800 {
				w.step(byte(rng.IntN(256)), byte(rng.IntN(256)), byte(rng.IntN(256)))
			}
			for len(w.servers) > 0 {
				w.leave(0)
			}
			for i := range w.index.holders.shards {
				if w.index.holders.shards[i].table.Load() != nil {
					t.Fatal("the table keeps blocks of servers that are gone")
				}
			}
		})
	}
}

func FuzzIndex_EqualsModel(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 200, 255, 255, 200, 1, 255, 50, 1, 1, 14, 0, 0, 18, 1, 9})
	f.Fuzz(func(t *testing.T, steps []byte) {
		w := newWorld(t, 700)
		for ; len(steps) >= 3 && w.next < 100_000; steps = steps[3:] {
			w.step(steps[0], steps[1], steps[2])
		}
	})
}

func TestPrefix_EachServerHasAnEqualShare(t *testing.T) {
	w := newWorld(t, 4096)
	w.join()
	for range 20 {
		w.add(0, w.grow(0, 0, MaxBlocks))
	}
	if got := w.index.held.Load(); got != 4096 {
		t.Errorf("one server has %d blocks, want 4096", got)
	}
	for range 7 {
		w.join()
	}
	if got := w.index.held.Load(); got != 512 {
		t.Errorf("the first of eight servers keeps %d blocks, want 512", got)
	}
	w.check(w.chains[len(w.chains)-1])
}

// TestPrefix_ReadsDuringWrites is for the race detector. Readers must never see more than was
// added.
func TestPrefix_ReadsDuringWrites(t *testing.T) {
	w := newWorld(t, 1<<14)
	for range 40 {
		w.join()
	}
	shared := w.grow(0, 0, 40)
	for i := range w.servers {
		if i%2 == 0 {
			w.add(i, shared)
		}
	}
	own := make([][]Chain, 8)
	for i := range own {
		for range 30 {
			own[i] = append(own[i], w.grow(0, 0, 60))
		}
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for i := range own {
		writers.Go(func() {
			for n := range 600 {
				w.index.Add(w.servers[(i+n)%40], own[i][n%30])
				w.index.Add(w.servers[(i+n)%40/2*2], shared)
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			cached := make([]int32, len(w.servers))
			for {
				select {
				case <-done:
					return
				default:
				}
				w.index.Match(shared, w.servers, cached)
				for i, n := range cached {
					if i%2 == 1 && n != 0 {
						t.Errorf("server %d has %d tokens that it was never sent, want none", i, n)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}
