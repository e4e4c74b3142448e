package picker

import (
	"sync"
	"sync/atomic"
	"time"
)

// RelayTrouble is why relayed picks of a pool fail. The zero value says that they do not; else one of the two is set.
type RelayTrouble struct {
	Unanswered string // why the remote picker cannot be asked, without what changes from one attempt to the next
	Refused    string // an address that it named, outside of what is declared
}

const (
	// givenUp is when a gateway that ends its call has waited in vain for the remote picker; before, its client has left.
	givenUp = time.Second
	// refusedCalm is how long no address must be refused before it is said that none is: of a pool's pods some may lie
	// outside of what is declared.
	refusedCalm = 5 * time.Second
)

// standing is how relayed picks of a pool do.
type standing struct {
	now atomic.Pointer[RelayTrouble] // nil: they succeed

	mu      sync.Mutex // serialises changes
	refused time.Time  // when an address was refused last
}

// stands notes how a relayed pick did, and tells it if that is news.
func (p *Picker) stands(pool *pool, t RelayTrouble, at time.Time) {
	s := pool.standing
	if t == (RelayTrouble{}) && s.now.Load() == nil {
		return // as almost always
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var before RelayTrouble
	if b := s.now.Load(); b != nil {
		before = *b
	}
	if t.Refused != "" {
		s.refused = at
	}
	switch {
	case t == before, t.Refused != "" && before.Refused != "":
		return
	case t == (RelayTrouble{}) && before.Refused != "" && at.Sub(s.refused) < refusedCalm:
		return
	}
	if now := p.pools.Load().byName[pool.Name]; now == nil || now.standing != s {
		return // the pool is another one by now
	}
	s.now.Store(&t)
	if t == (RelayTrouble{}) {
		s.now.Store(nil)
	}
	p.tell(pool.Name, t)
}

// settle takes back what was told of a pool that is gone, or another one.
func (p *Picker) settle(pool *pool) {
	pool.standing.mu.Lock()
	defer pool.standing.mu.Unlock()
	if pool.standing.now.Swap(nil) != nil {
		p.tell(pool.Name, RelayTrouble{})
	}
}

func (p *Picker) tell(pool string, t RelayTrouble) {
	if p.trouble != nil {
		p.trouble(pool, t)
	}
}
