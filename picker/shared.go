package picker

import (
	"net/netip"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
)

// What one picker sends to a server is cached there for all of them. So each pick is published to
// the pickers of other processes, which count its prompt and its adapter as cached as if they had
// picked. Requests in flight are published by their sums (endpoint.Registry.Counts).

// maxSender bounds a sender's name, in bytes.
const maxSender = 128

// sender is the process of another cluster that has sent a request here; "" for none.
func sender(r *extproc.Request) string {
	if name := r.Headers.Header(SenderHeader); len(name) <= maxSender {
		return string(name)
	}
	return ""
}

// sent records what the first of a pick's endpoints is sent.
func (k *pick) sent() {
	share, observe := k.picker.config.Sharing, k.picker.config.Observer
	to := &k.ranked[0]
	if e := k.further.prefill; e != nil && k.sentTo(e, 1) { // both will have the prompt's cache
		if share != nil && len(k.query.Chain) > 0 {
			share.Sent(Sent{Pool: k.pool.ID, Server: e.Addr, Chain: k.query.Chain})
		}
	}
	chain := k.query.Chain
	if !k.sentTo(to.Endpoint, 0) {
		chain = nil
	}
	if share == nil && observe == nil {
		return
	}
	work := to.Work(&k.query)
	s := Sent{Pool: k.pool.ID, Sender: sender(k.request), Server: to.Endpoint.Addr, Chain: chain, Adapter: work.Adapter,
		Slots: work.Slots}
	if len(s.Chain) == 0 && s.Adapter == 0 && s.Sender == "" {
		return
	}
	if share != nil {
		share.Sent(s)
	}
	if observe != nil {
		observe.Sent(s)
	}
}

// Learn records a pick of another process. Servers that no pool of this one has are ignored.
func (p *Picker) Learn(s Sent) {
	if observe := p.config.Observer; observe != nil && !s.Denied {
		observe.Sent(s)
	}
	load := p.registry.Find(s.Server)
	if load == nil {
		return
	}
	if s.Denied {
		p.prompts.prefixes.Forget(load.Prefixes(), s.Chain)
		return
	}
	p.prompts.prefixes.Add(load.Prefixes(), s.Chain)
	if s.Adapter != 0 {
		load.AddAdapter(s.Adapter, s.Slots)
	}
}

// Snapshot calls each with what is known of the prefixes that each server has cached, in at most
// limit bytes, for a process that starts.
func (p *Picker) Snapshot(limit int, each func(server netip.AddrPort, snapshot []byte)) {
	p.prompts.prefixes.Snapshot(limit, each)
}

// Restore takes over what another process knows of a server's prefixes.
func (p *Picker) Restore(server netip.AddrPort, snapshot []byte) error {
	return p.prompts.prefixes.Restore(server, snapshot)
}

// Owner identifies this picker to other processes; see Peers.
func (p *Picker) Owner() string { return p.leases.Owner() }

// Loads returns the requests in flight, by address.
func (p *Picker) Loads() *endpoint.Registry { return p.registry }
