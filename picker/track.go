package picker

import (
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
)

// tracker follows a request on its ext_proc stream. A gateway that Penstock configures ends the
// stream soon after the pick, and reports the request's end in its access log. Other gateways keep
// the stream open until the request's end.
type tracker struct {
	picker   *Picker
	lease    *endpoint.Lease
	untilEnd bool
	shown    bool // with untilEnd: the gateway also sends the response's body
	imported bool
	pool     *pool
	session  uint64
	texts    [maxEndpoints]string

	// These fields are set only with untilEnd. sent is the time of the answer, served has the
	// counters of the serving endpoint, and entry replaces the missing access log entry.
	sent   time.Time
	served *endpoint.Load
	entry  accesslog.Entry
}

var trackers = sync.Pool{New: func() any { return new(tracker) }}

func newTracker() *tracker { return trackers.Get().(*tracker) }

// Response moves the lease and the session to the serving endpoint.
func (t *tracker) Response(r extproc.Response) (set extproc.Header) {
	status, served := r.Status, r.Served
	load, now := t.picker.loadOf(t.lease.Holder().Pool, served), time.Now()
	if load == nil {
		return set
	}
	load = t.lease.Served(load)
	t.lease.MoveTo(load, now)
	if t.untilEnd {
		t.headers(load, r, now)
	}
	if t.pool.sessions == nil || !t.pool.readsSessions() || status >= 500 {
		return set
	}
	if at, err := netip.ParseAddrPort(served); err == nil {
		t.picker.keepSession(t.pool, t.session, at, now)
	}
	return extproc.Header{Name: sessionTokenHeader, Value: sessionToken(served, now)}
}

// headers records the response headers, for a gateway without an access log. For a response that
// is not streamed, the headers arrive at its end.
func (t *tracker) headers(load *endpoint.Load, r extproc.Response, now time.Time) {
	t.served = load
	t.entry = accesslog.Entry{Open: true, Served: r.Served, Status: r.Status, Headers: now.Sub(t.sent)}
	if t.entry.Whole = accesslog.Whole(string(r.ContentType)); t.entry.Whole {
		t.lease.Whole()
	}
	if r.Status >= 400 || !t.lease.Streams() {
		t.lease.Begun(0)
	}
	if r.Status < 500 {
		load.Works()
	}
	t.picker.records.notes.ended(t.lease.Tag().Number, t.entry, now)
	t.picker.endUnread(t.lease, t.entry, false)
}

func (t *tracker) Begun() {
	if t.served == nil {
		return
	}
	now := time.Now()
	t.entry.Body, t.entry.FirstByte = true, now.Sub(t.sent)
	if t.entry.Status < 400 {
		t.lease.Begun(t.entry.FirstByte)
	}
	t.progress(endpoint.Progress{Bytes: 1, First: t.entry.FirstByte}, now)
	t.picker.records.notes.ended(t.lease.Tag().Number, t.entry, now)
}

func (t *tracker) progress(p endpoint.Progress, now time.Time) {
	p.Status, p.Sent, p.Streams = t.entry.Status, 1, t.entry.Status > 0 && !t.entry.Whole
	t.lease.Progress(p, now)
}

func (t *tracker) End() {
	if t.shown && !t.entry.Body {
		t.progress(endpoint.Progress{Ended: true, Canceled: true}, time.Now())
	}
	if t.served != nil {
		e, tag, now := t.entry, t.lease.Tag(), time.Now()
		e.Open, e.Took = false, now.Sub(t.sent)
		t.picker.records.notes.ended(tag.Number, e, now)
		t.picker.showsModel(tag, t.lease.Holder().Pool, &e, now)
		t.picker.records.usage.ended(t.lease.Holder().Pool, tag, e)
		t.picker.recorded(tag, e, now)
		record(t.served, &e, now)
	}
	if t.untilEnd {
		t.lease.Release()
	}
	if t.imported {
		t.picker.others.imported.Add(-1)
	}
	t.lease.Done()
	*t = tracker{}
	trackers.Put(t)
}

// Imported returns the number of other clusters' requests in flight.
func (p *Picker) Imported() int64 { return p.others.imported.Load() }

var _ accesslog.Sink = (*Picker)(nil)

// Log implements accesslog.Sink. It renews or releases the request's lease. If another picker
// opened the lease, Log forwards the entry to that picker, or opens an own lease if that picker has
// ended.
func (p *Picker) Log(e accesslog.Entry) {
	if p.leases.Owns(e.Lease) {
		p.LogOwn(e)
		return
	}
	adopted := p.leases.Find(e.Lease)
	if adopted != nil {
		defer adopted.Done()
	}
	alive := p.config.Peers.Alive(endpoint.Owner(e.Lease))
	switch {
	case adopted != nil && adopted.Holder().Gateway != e.Gateway:
		return
	case adopted != nil && alive: // the other picker was only temporarily unreachable
		adopted.Release()
	case adopted != nil:
		p.follow(adopted, e)
		return
	case !alive && e.Open:
		if served := p.loadOf(e.Pool, e.Served); served != nil && p.allowed(e.Gateway, targetOf(e.Pool)) {
			if lease := p.leases.Adopt(e.Lease, endpoint.Holder{Gateway: e.Gateway, Pool: e.Pool}, served,
				time.Now()); lease != nil {
				lease.Done()
			}
		}
		return
	}
	p.config.Reports.Forward(e)
}

// LogOwn is Log for entries that another picker forwarded. It drops entries of other pickers'
// leases, and entries from a different Gateway than the lease's.
func (p *Picker) LogOwn(e accesslog.Entry) {
	lease := p.leases.Find(e.Lease)
	switch {
	case lease == nil && e.Open:
		lease = p.leases.Resume(e.Lease, e.Gateway,
			func(pool string) *endpoint.Load { return p.loadOf(pool, e.Served) }, time.Now())
	case lease != nil && lease.Holder().Gateway == e.Gateway:
		p.follow(lease, e)
	}
	if lease != nil {
		lease.Done()
	}
}

func (p *Picker) follow(lease *endpoint.Lease, e accesslog.Entry) {
	served := lease.Served(p.loadOf(lease.Holder().Pool, e.Served))
	ok, now := failure(&e) == "", time.Now()
	status := max(e.Status, e.Error)
	picked := lease.Picked()
	// passed means that the picked endpoint, which Envoy tried first, did not respond.
	passed := picked != nil && picked != served && e.Status > 0
	p.records.notes.ended(lease.Tag().Number, e, now)
	p.keepResponse(lease.Holder().Pool, &e)
	if c := lease.Tag().Charge; c != nil {
		c.Follow(e)
	}
	p.exceeds(lease, e, passed, now)
	switch {
	case served != nil:
		lease.MoveTo(served, now)
	// A removed endpoint serves, or a hop, behind which another picker counts the request.
	case e.Open && e.Served != "":
		lease.MoveTo(p.others.nowhere, now)
	}
	switch {
	case e.Body && ok && status >= 400: // the server has not read the prompt
		lease.Begun(0)
	case e.Body && ok:
		if e.Whole {
			lease.Whole()
		}
		if e.Headers > 0 && e.FirstByte > 0 {
			lease.Answered(max(e.Headers-e.Sent, 0), e.Begun())
		}
		lease.Begun(e.Begun())
		p.endUnread(lease, e, passed)
	case e.Open:
		lease.Waits()
	}
	lease.Progress(endpoint.Progress{
		Status: status, Bytes: e.Bytes, Sent: e.Sent, First: e.Begun(), Streams: e.Status > 0 && !e.Whole,
		Ended:    !e.Open,
		Canceled: e.Canceled || e.Status == http.StatusGatewayTimeout,
	}, now)
	if e.Open {
		lease.Renew(now)
		if e.Body && ok && served != nil {
			served.Works()
		}
		return
	}
	if ok && status < 400 && e.FirstByte > 0 && !e.Canceled {
		lease.Wrote(e.Bytes, e.LastByte-e.FirstByte)
	}
	if !lease.Release() {
		return
	}
	tag := lease.Tag()
	p.showsModel(tag, lease.Holder().Pool, &e, now)
	p.records.usage.ended(lease.Holder().Pool, tag, e)
	p.recorded(tag, e, now)
	if passed && !lease.Frozen() {
		picked.RecordFailed("no response", now)
	}
	p.endUnread(lease, e, passed)
	switch {
	case served != nil && e.Canceled && e.Status == 0:
		served.RecordCanceled()
	case served != nil:
		record(served, &e, now)
	}
}

func record(served *endpoint.Load, e *accesslog.Entry, now time.Time) {
	if why := failure(e); why != "" {
		served.RecordFailed(why, now)
		return
	}
	served.Record(e.FirstByte, now)
}

func failure(e *accesslog.Entry) string {
	switch {
	case e.Status == 0:
		return "no response"
	case e.Status >= 500:
		return "status " + strconv.Itoa(e.Status)
	case e.Error >= 500:
		return "a response of status 200 ended in error " + strconv.Itoa(e.Error)
	case e.Cut:
		return "the server has cut a response"
	}
	return ""
}

func targetOf(text string) objectid.Target {
	target, _ := objectid.ParseTarget(text)
	return target
}

func (p *Picker) loadOf(name, text string) *endpoint.Load {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil
	}
	pool := p.pools.now.Load().byName[name]
	if pool == nil {
		return nil
	}
	return pool.snapshot.Find(addr)
}
