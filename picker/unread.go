package picker

import (
	"net/http"
	"net/netip"
	"sync"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

// A prompt counts as cached at a server from the pick on, so that the next one with the same beginning follows it. If the server denies
// the request, or is never sent it, this is taken back, in the other processes too. Two things stay: the evictions of other prompts, and
// what the reports to other clusters have of the prompt (Config.Observe): they have no retraction.

// unread is a prompt that a pick has sent to servers, until the first of them begins to answer.
type unread struct {
	pool   string
	stream bool        // the answer is one
	to     [2]unreadAt // the endpoint that the pick names first, and the server that reads the prompt for it
	blocks int         // of chain
	chain  [prefix.MaxBlocks]uint64
}

// unreadAt is a server that was sent the prompt; the zero value is none.
type unreadAt struct {
	at     netip.AddrPort
	server *prefix.Server
}

var unreads = sync.Pool{New: func() any { return new(unread) }}

// sentTo records that a server is sent the prompt. It returns false if the server's cache is too small for it: the server denies it.
func (k *pick) sentTo(e *endpoint.Endpoint, place int) bool {
	server := e.Load().Prefixes()
	if !server.Fits(k.query.Tokens) {
		return false
	}
	k.picker.prefixes.Add(server, k.query.Chain)
	k.picker.prefixes.Expect(server, &k.query.Exact, k.query.Model, k.at)
	if len(k.query.Chain) == 0 {
		return true
	}
	if k.unread == nil {
		k.unread = unreads.Get().(*unread)
		k.unread.pool, k.unread.stream = k.pool.Name, k.query.Stream
		k.unread.blocks = copy(k.unread.chain[:], k.query.Chain)
	}
	k.unread.to[place] = unreadAt{e.Addr, server}
	return true
}

// denied reports whether the server has not read the prompt, by the last entry of the access log. An answer that is not streamed begins
// at its end: a client or a timeout that does not wait for it shows nothing about the prompt.
func (u *unread) denied(e accesslog.Entry) bool {
	switch {
	case e.Status > 0 && e.Status < 400:
		return false
	case e.FirstByte > 0:
		return e.Status >= 400
	case e.Sent > 0 && !u.stream:
		return !e.Canceled && e.Status != http.StatusGatewayTimeout
	}
	return true
}

// endUnread ends the wait for the answer to a lease's prompt. The servers that have not read it lose it: all of them if the request is
// denied, and the one that the pick names first if the request has passed it.
func (p *Picker) endUnread(lease *endpoint.Lease, e accesslog.Entry, passed bool) {
	u, _ := lease.TakeUnread().(*unread)
	if u == nil {
		return
	}
	denied := u.denied(e)
	for i, to := range u.to {
		if to.server == nil || !denied && (!passed || i > 0) {
			continue
		}
		p.prefixes.Forget(to.server, u.chain[:u.blocks])
		if p.publish != nil {
			p.publish(Sent{Pool: u.pool, Server: to.at, Chain: u.chain[:u.blocks], Denied: true})
		}
	}
	u.to = [2]unreadAt{}
	unreads.Put(u)
}
