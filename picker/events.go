package picker

import (
	"net/netip"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/kvevents"
)

// sources returns where each endpoint publishes KV events. endpoints are sorted by address: of several with one IP address each
// further one has the next port.
func (e *KVEvents) sources(endpoints []endpoint.Endpoint) []kvevents.Source {
	out := make([]kvevents.Source, 0, len(endpoints))
	rank := 0
	for i := range endpoints {
		at := &endpoints[i]
		if rank++; i == 0 || endpoints[i-1].Addr.Addr() != at.Addr.Addr() {
			rank = 0
		}
		s := kvevents.Source{Server: at.Addr, Pod: at.Pod}
		if e.Port != 0 {
			s.Publisher, s.Topic = publisherAt(at.Addr.Addr(), e.Port, rank), e.Topic
			s.Pod = "" // it does not matter there
		}
		if e.ReplayPort != 0 {
			s.Replay = publisherAt(at.Addr.Addr(), e.ReplayPort, rank)
		}
		out = append(out, s)
	}
	return out
}

func publisherAt(host netip.Addr, port uint16, rank int) netip.AddrPort {
	return netip.AddrPortFrom(host, uint16(min(int(port)+rank, 65535)))
}
