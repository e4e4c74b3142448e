package prefix

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultBlocks is the default of Config.Blocks: about 250 MiB.
const DefaultBlocks = 4 << 20

// Config configures an Index.
type Config struct {
	Blocks int // 0 means DefaultBlocks
	// Seed must be random, so that no server can choose tokens whose reported keys collide with
	// other keys.
	Seed uint64
}

// Index tracks the KV caches of model servers. An address is one server, in all pools.
type Index struct {
	blocks    int
	seed      uint64
	holders   holders
	former    former
	count     atomic.Int64
	held      atomic.Int64
	reported  atomic.Int64 // reported blocks of all servers
	reporting atomic.Int64 // servers whose Knowledge is not Guessed

	mu      sync.Mutex
	servers map[netip.AddrPort]*Server
	ids     []*Server     // by ID; nil for a free ID
	cleared []*Server     // Run removes their blocks
	changed chan struct{} // signals cleared and pending

	pending      map[netip.AddrPort][]byte
	pendingBytes int
}

// New returns an empty Index.
func New(c Config) *Index {
	return &Index{blocks: cmp.Or(c.Blocks, DefaultBlocks), seed: c.Seed, servers: map[netip.AddrPort]*Server{},
		changed: make(chan struct{}, 1), pending: map[netip.AddrPort][]byte{}}
}

func (x *Index) share() int { return max(x.blocks/int(max(x.count.Load(), 1)), 1) }

// Server returns the server with an address, and adds it if needed. The caller must Release it.
func (x *Index) Server(key netip.AddrPort) *Server {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.servers[key]; s != nil {
		s.refs++
		return s
	}
	s := &Server{index: x, key: key, refs: 1, capacity: DefaultCapacity, id: x.freeID()}
	x.ids[s.id] = s
	x.servers[key] = s
	if x.pending[key] != nil {
		x.notify()
	}
	x.count.Store(int64(len(x.servers)))
	if x.held.Load() > int64(x.share()) { // otherwise no server can exceed its new share
		for _, other := range x.ids {
			if other != nil {
				other.compact()
			}
		}
	}
	return s
}

func (x *Index) freeID() uint32 {
	if len(x.servers)+len(x.cleared) < len(x.ids) {
		for id, s := range x.ids {
			if s == nil {
				return uint32(id)
			}
		}
	}
	x.ids = append(x.ids, nil)
	return uint32(len(x.ids) - 1)
}

// Release ends one use of a server. After the last Release, Add has no effect on the server.
func (x *Index) Release(s *Server) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.refs--; s.refs > 0 {
		return
	}
	delete(x.servers, s.key)
	x.count.Store(int64(len(x.servers)))
	x.cleared = append(x.cleared, s)
	x.notify()
}

func (x *Index) notify() {
	select {
	case x.changed <- struct{}{}:
	default:
	}
}

// Run removes the blocks of released servers, and restores snapshots, until ctx ends. Each takes
// milliseconds for a server with a full cache, too long for a pick.
func (x *Index) Run(ctx context.Context) error {
	late := time.NewTimer(pendingFor)
	defer late.Stop()
	late.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-late.C:
			x.dropPending()
		case <-x.changed:
			x.sweep()
			if x.restore() {
				late.Reset(pendingFor)
			}
		}
	}
}

func (x *Index) sweep() {
	x.mu.Lock()
	cleared := x.cleared
	x.mu.Unlock()
	for _, s := range cleared {
		s.mu.Lock()
		s.released = true
		s.clear()
		s.clearHolds(false)
		s.SetKnowledge(Guessed)
		s.mu.Unlock()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range cleared {
		x.ids[s.id] = nil
	}
	x.cleared = append([]*Server(nil), x.cleared[len(cleared):]...)
}

// Add records that a prompt was sent to a server, or will be sent at once.
func (x *Index) Add(s *Server, c Chain) {
	if len(c) > 0 {
		s.add(c)
	}
}

// Forget reverts an Add for a prompt that the server did not read. Blocks that the Add evicted stay
// evicted.
func (x *Index) Forget(s *Server, c Chain) {
	if len(c) > 0 {
		s.forget(c)
	}
}
