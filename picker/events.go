package picker

import (
	"iter"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/kvevents"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/schedule"
)

// sources returns where each endpoint publishes its KV events. Servers at one IP address publish at
// consecutive ports. endpoints must be sorted by address.
func (e *KVEvents) sources(endpoints []endpoint.Endpoint) []kvevents.Source {
	out := make([]kvevents.Source, 0, len(endpoints))
	for at, rank := range ranked(endpoints) {
		s := kvevents.Source{Server: at.Addr, Pod: at.Pod}
		if e.Port != 0 {
			s.Publisher, s.Topic = publisherAt(at.Addr.Addr(), e.Port, rank), e.Topic
			s.Pod = "" // only needed for servers that connect to the picker
		}
		if e.ReplayPort != 0 {
			s.Replay = publisherAt(at.Addr.Addr(), e.ReplayPort, rank)
		}
		out = append(out, s)
	}
	return out
}

func ranked(endpoints []endpoint.Endpoint) iter.Seq2[*endpoint.Endpoint, int] {
	return func(yield func(*endpoint.Endpoint, int) bool) {
		rank := 0
		for i := range endpoints {
			if rank++; i == 0 || endpoints[i-1].Addr.Addr() != endpoints[i].Addr.Addr() {
				rank = 0
			}
			if !yield(&endpoints[i], rank) {
				return
			}
		}
	}
}

func loadSources(port uint16, endpoints []endpoint.Endpoint) (out []kvevents.LoadSource) {
	for at, rank := range ranked(endpoints) {
		out = append(out, kvevents.LoadSource{Server: at.Addr, Publisher: publisherAt(at.Addr.Addr(), port, rank)})
	}
	return out
}

func (p *Picker) pushed(server netip.AddrPort, l kvevents.Load) {
	r := endpoint.Reading{Queue: float64(l.Waiting), Running: float64(l.Running), CacheTokens: l.Fit}
	if l.Fit > 0 {
		r.KV = min(1, float64(l.Tokens)/float64(l.Fit))
	}
	if err := p.registry.Push(server, r, time.Now()); err != nil {
		p.config.Log.Debug("a model server publishes a load that it cannot have", "server", server, "error", err)
	}
}

func (pool *pool) reports() bool {
	for i := range pool.snapshot.Endpoints {
		if pool.snapshot.Endpoints[i].Load().Prefixes().Knowledge() != prefix.Guessed {
			return true
		}
	}
	return false
}

func (pool *pool) reported(at netip.AddrPort) string {
	if pool.events == nil || pool.Body == BodyNone || !schedule.UsesPrefixes(&pool.options) {
		return ""
	}
	problem, known := pool.events.Problem(at)
	if problem == "" {
		return known.String()
	}
	return known.String() + " (" + problem + ")"
}

func (pool *pool) knowledge() (counts [3]int) {
	for i := range pool.snapshot.Endpoints {
		counts[pool.snapshot.Endpoints[i].Load().Prefixes().Knowledge()]++
	}
	return counts
}

func publisherAt(host netip.Addr, port uint16, rank int) netip.AddrPort {
	return netip.AddrPortFrom(host, uint16(min(int(port)+rank, 65535)))
}
