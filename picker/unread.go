package picker

import (
	"net/http"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// After a pick, all processes assume that the server caches the prompt. If the server denies the
// request or never gets it, they drop this assumption. Its effects remain: evicted prompts, and
// reports to other clusters (Config.Observer).

// sentTo records that the prompt was sent to a server. It returns false if the prompt does not fit
// the server's cache, because the server then denies it.
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

// denied reports whether the last access log entry shows that the server did not read the prompt.
// Without streaming, response headers arrive only at the end of the response. A request that is
// canceled or times out before any headers then counts as read.
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

// endUnread drops the assumption that servers cache the prompt: at all servers of the pick if the
// prompt was denied, or at the first one if another server responded (passed).
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
