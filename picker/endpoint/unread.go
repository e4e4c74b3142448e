package endpoint

import (
	"net/netip"
	"sync"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/prefix"
)

// Unread is a prompt that a pick has sent to servers, until the first of them begins to answer.
type Unread struct {
	Pool   objectid.Target
	Stream bool // the answer is one
	// To are the endpoint that the pick names first, and the server that reads the prompt for it.
	// The zero value is none.
	To     [2]UnreadAt
	blocks int // of chain
	chain  [prefix.MaxBlocks]uint64
}

// UnreadAt is a server that was sent the prompt.
type UnreadAt struct {
	At     netip.AddrPort
	Server *prefix.Server
}

var unreads = sync.Pool{New: func() any { return new(Unread) }}

// NewUnread returns a prompt of a pool with a chain, which it copies.
func NewUnread(pool objectid.Target, stream bool, chain prefix.Chain) *Unread {
	u := unreads.Get().(*Unread)
	u.Pool, u.Stream, u.To, u.blocks = pool, stream, [2]UnreadAt{}, copy(u.chain[:], chain)
	return u
}

// Chain returns the prompt's chain, until End.
func (u *Unread) Chain() prefix.Chain { return u.chain[:u.blocks] }

// End ends the use of the prompt.
func (u *Unread) End() {
	u.To = [2]UnreadAt{}
	unreads.Put(u)
}
