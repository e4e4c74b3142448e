package picker

import (
	"net/netip"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
)

// A server caches the prompts of all pickers' requests. So each process publishes its picks, and
// the other processes record which server received the prompt and the adapter.

const maxSender = 128 // in bytes

func sender(r *extproc.Request) string {
	if name := r.Headers.Header(SenderHeader); len(name) <= maxSender {
		return string(name)
	}
	return ""
}

func (k *pick) sent() {
	share, observe := k.picker.config.Sharing, k.picker.config.Observer
	to := &k.ranked[0]
	if e := k.further.prefill; e != nil && k.sentTo(e, 1) { // both servers will cache the prompt
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

// Learn records a pick of another process.
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

// Snapshot calls each with every server and a snapshot of its cached prefixes. All snapshots
// together take at most limit bytes.
func (p *Picker) Snapshot(limit int, each func(server netip.AddrPort, snapshot []byte)) {
	p.prompts.prefixes.Snapshot(limit, each)
}

// Restore adds another process's snapshot of a server's prefixes.
func (p *Picker) Restore(server netip.AddrPort, snapshot []byte) error {
	return p.prompts.prefixes.Restore(server, snapshot)
}

// Owner returns this picker's name for Peers.
func (p *Picker) Owner() string { return p.leases.Owner() }

// Loads returns the registry with each address's requests in flight.
func (p *Picker) Loads() *endpoint.Registry { return p.registry }
