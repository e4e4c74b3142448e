package app

import (
	"context"
	"net/netip"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/xds/identity"
)

// around implements picker.Callers, picker.Reports, picker.Sharing and picker.Troubles.
type around struct{ app *App }

func (around) Gateway(ctx context.Context) string { return identity.Gateway(ctx) }

func (around) Member(ctx context.Context) string { return identity.Member(ctx) }

func (r around) Exported(pool objectid.Target, member string) bool {
	if r.app.set == nil {
		return member == ""
	}
	return r.app.set.Exported(pool, member)
}

func (r around) Forward(e accesslog.Entry) { r.app.entries.Add(e) }

func (r around) Attempt(a accesslog.Attempt) {
	r.app.parentHosts.Count(a)
	r.app.attempts.Count(a)
}

func (r around) Used(list []accesslog.Used) {
	for i := range list {
		if u := &list[i]; u.Unavailable {
			r.app.unanswered.Request(authz.Unanswered{Route: u.Route, Caller: u.Caller, Took: u.Took})
		}
	}
	r.app.usage.Log(list)
}

func (r around) Sent(s picker.Sent) { r.app.shared.Add(s) }

func (r around) Session(s picker.Session) { r.app.sessions.Add(s) }

func (r around) Page(addr netip.AddrPort, page uint64, reading endpoint.Reading) {
	r.app.pages.Add(addr, page, reading)
}

func (r around) Panicked(page string, value any, stack []byte) {
	r.app.panics.of(partScrape)(page, value, stack)
}

func (r around) RelayFailed(pool objectid.Target, f picker.RelayFailure) {
	r.app.relays.Trouble(pool, f)
}

func (r around) Unserved(pool objectid.Target, u picker.Unserved) {
	reportUnserved(r.app.board, pool, u)
}

func (r around) Changed(pool objectid.Target, c picker.Change) {
	text := "pool " + pool.String() + ": " + c.String()
	if r.app.onServers != nil {
		r.app.onServers(text)
		return
	}
	r.app.log.Info(text)
}
