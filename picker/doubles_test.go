package picker

import (
	"context"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// The types of this file implement the interfaces in Config. Each method calls a function in a
// field; nil has no effect.

type callers struct {
	unrestricted
	gateway  func(context.Context) string
	exported func(pool, member string) bool
	member   string // the member of all calls
}

func (c callers) Member(context.Context) string { return c.member }

func (c callers) Gateway(ctx context.Context) string {
	if c.gateway == nil {
		return ""
	}
	return c.gateway(ctx)
}

func (c callers) Exported(pool objectid.Target, member string) bool {
	return c.exported == nil || c.exported(pool.String(), member)
}

type shared struct {
	sent    func(Sent)
	session func(Session)
}

func (s shared) Sent(sent Sent) {
	if s.sent != nil {
		s.sent(sent)
	}
}

func (s shared) Session(session Session) {
	if s.session != nil {
		s.session(session)
	}
}

func (shared) Page(netip.AddrPort, uint64, endpoint.Reading) {}

type forwarding struct {
	discarded
	forward func(accesslog.Entry)
}

func (f forwarding) Forward(e accesslog.Entry) { f.forward(e) }

type relayTroubles struct {
	discarded
	failed func(pool string, f RelayFailure)
}

func (r relayTroubles) RelayFailed(pool objectid.Target, f RelayFailure) { r.failed(pool.String(), f) }

type stops func(time.Time) time.Duration

func (s stops) Behind(now time.Time) time.Duration { return s(now) }

type outsideOf struct {
	unrestricted
	prefix netip.Prefix
}

func (o outsideOf) Outside(ip netip.Addr) string {
	if o.prefix.Contains(ip.Unmap()) {
		return "is outside the allowed ranges"
	}
	return ""
}

func poolID(text string) objectid.Target { return objectid.MustParseTarget(text) }
