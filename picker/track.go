package picker

import (
	"net/netip"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// tracker follows a request on its ext_proc stream.
//
// A gateway that we configure ends the stream soon after the pick and reports by its access log. A foreign gateway sends
// no access log, but by the protocol keeps the stream until the response: its end is the request's end as well as we can
// know it.
type tracker struct {
	picker   *Picker
	lease    *endpoint.Lease
	untilEnd bool
}

// Response implements extproc.Tracker: the endpoint that served is the one that has the request.
func (t tracker) Response(status int, served string) {
	load := t.picker.loadOf(served)
	if load == nil {
		return
	}
	t.lease.MoveTo(load)
	if t.untilEnd {
		load.Served(status < 500, 0)
	}
}

// End implements extproc.Tracker.
func (t tracker) End() {
	if t.untilEnd {
		t.lease.Settle()
	}
}

var _ accesslog.Books = (*Picker)(nil)

// Settle implements feedback.Books: a request ended.
func (p *Picker) Settle(e accesslog.Entry) {
	if p.elsewhere != nil && !p.ledger.Owns(e.Lease) {
		p.elsewhere(e)
		return
	}
	p.SettleOwn(e)
}

// SettleOwn is Settle for what another process was told: it goes no further.
func (p *Picker) SettleOwn(e accesslog.Entry) {
	lease := p.ledger.Find(e.Lease)
	if lease == nil {
		return // another picker's, or reported twice, or expired
	}
	picked, served := lease.Settle(), p.loadOf(e.Served)
	if picked != nil && picked != served && e.Status > 0 {
		picked.Served(false, 0) // it was tried first, and somebody else or nobody answered
	}
	if served != nil {
		served.Served(e.Status > 0 && e.Status < 500, e.FirstByte)
	}
}

// loadOf finds the counters of an address as text; nil for hops, unknown endpoints and "".
func (p *Picker) loadOf(text string) *endpoint.Load {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil
	}
	return p.registry.Find(addr)
}
