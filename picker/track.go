package picker

import (
	"net/netip"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// tracker follows a request on its ext_proc stream.
//
// A gateway that Penstock configures ends the stream soon after the pick and reports the request's end in its access log.
// Other gateways send no access log, but by the protocol keep the stream until the response: the stream's end is the best
// known end of their requests.
type tracker struct {
	picker   *Picker
	lease    *endpoint.Lease
	untilEnd bool
}

// Response implements extproc.Tracker. It moves the lease to the endpoint that served the request.
func (t tracker) Response(status int, served string) {
	load := t.picker.loadOf(served)
	if load == nil {
		return
	}
	t.lease.MoveTo(load)
	if t.untilEnd {
		load.Record(status < 500, 0)
	}
}

// End implements extproc.Tracker.
func (t tracker) End() {
	if t.untilEnd {
		t.lease.Release()
	}
}

var _ accesslog.Sink = (*Picker)(nil)

// Release implements accesslog.Sink: it releases the lease of a request that ended, or forwards the entry to the picker
// that owns the lease.
func (p *Picker) Release(e accesslog.Entry) {
	if p.forward != nil && !p.leases.Owns(e.Lease) {
		p.forward(e)
		return
	}
	p.ReleaseOwn(e)
}

// ReleaseOwn is Release for entries that another process forwarded: it never forwards them again.
func (p *Picker) ReleaseOwn(e accesslog.Entry) {
	lease := p.leases.Find(e.Lease)
	if lease == nil {
		return // another picker's, or reported twice, or expired
	}
	picked, served := lease.Release(), p.loadOf(e.Served)
	if picked != nil && picked != served && e.Status > 0 {
		picked.Record(false, 0) // Envoy tried it first, and another endpoint or none answered
	}
	if served != nil {
		served.Record(e.Status > 0 && e.Status < 500, e.FirstByte)
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
