package endpoint

import (
	"net/netip"
	"sync"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/prefix"
)

// Unread is a prompt that was sent to a server, which may not have read it yet.
type Unread struct {
	Pool   objectid.Target
	Stream bool
	// To has the pick's first endpoint, and the server that reads the prompt for this endpoint;
	// zero for none.
	To     [2]UnreadAt
	blocks int
	chain  [prefix.MaxBlocks]uint64
}

// UnreadAt is a server that the prompt was sent to.
type UnreadAt struct {
	At     netip.AddrPort
	Server *prefix.Server
}

var unreads = sync.Pool{New: func() any { return new(Unread) }}

// NewUnread returns a prompt that was sent to servers of a pool. It copies chain.
func NewUnread(pool objectid.Target, stream bool, chain prefix.Chain) *Unread {
	u := unreads.Get().(*Unread)
	u.Pool, u.Stream, u.To, u.blocks = pool, stream, [2]UnreadAt{}, copy(u.chain[:], chain)
	return u
}

// Chain returns the prompt's chain, valid until End.
func (u *Unread) Chain() prefix.Chain { return u.chain[:u.blocks] }

// End releases u's memory. The caller must not use u any longer.
func (u *Unread) End() {
	u.To = [2]UnreadAt{}
	unreads.Put(u)
}
