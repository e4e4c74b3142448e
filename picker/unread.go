package picker

import (
	"net/http"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// A prompt counts as cached at a server from the pick on, so that the next one with the same
// beginning follows it. If the server denies the request, or is never sent it, this is taken back,
// in the other processes too. Two things stay: the evictions of other prompts, and what the reports
// to other clusters have of the prompt (Config.Observe): they have no retraction.

// sentTo records that a server is sent the prompt. It returns false if the server's cache is too
// small for it: the server denies it.
func (k *pick) sentTo(e *endpoint.Endpoint, place int) bool {
	server := e.Load().Prefixes()
	if !server.Fits(k.query.Tokens) {
		return false
	}
	k.picker.prompts.prefixes.Add(server, k.query.Chain)
	k.picker.prompts.prefixes.Expect(server, &k.query.Exact, k.query.Model, k.at)
	if len(k.query.Chain) == 0 {
		return true
	}
	if k.unread == nil {
		k.unread = endpoint.NewUnread(k.pool.ID, k.query.Stream, k.query.Chain)
	}
	k.unread.To[place] = endpoint.UnreadAt{At: e.Addr, Server: server}
	return true
}

// denied reports whether the server has not read the prompt, by the last entry of the access log.
// An answer that is not streamed begins at its end: a client or a timeout that does not wait for it
// shows nothing about the prompt.
func denied(u *endpoint.Unread, e accesslog.Entry) bool {
	switch {
	case e.Status > 0 && e.Status < 400:
		return false
	case e.Headers > 0:
		return e.Status >= 400
	case e.Sent > 0 && !u.Stream:
		return !e.Canceled && e.Status != http.StatusGatewayTimeout
	}
	return true
}

// endUnread ends the wait for the answer to a lease's prompt. The servers that have not read it
// lose it: all of them if the request is denied, and the one that the pick names first if the
// request has passed it.
func (p *Picker) endUnread(lease *endpoint.Lease, e accesslog.Entry, passed bool) {
	u := lease.TakeUnread()
	if u == nil {
		return
	}
	denied := denied(u, e)
	for i, to := range u.To {
		if to.Server == nil || !denied && (!passed || i > 0) {
			continue
		}
		p.prompts.prefixes.Forget(to.Server, u.Chain())
		if p.config.Sharing != nil {
			p.config.Sharing.Sent(Sent{Pool: u.Pool, Server: to.At, Chain: u.Chain(), Denied: true})
		}
	}
	u.End()
}
