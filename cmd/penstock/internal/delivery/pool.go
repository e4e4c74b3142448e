package delivery

import (
	"net/netip"

	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

// pickerPool converts a pool.
func pickerPool(pp translator.PickerPool) picker.Pool {
	s := pp.Pool.Settings
	out := picker.Pool{
		Name:      pp.Pool.Name.String(),
		Strategy:  s.Strategy,
		Weights:   schedule.Weights{Queue: s.QueueWeight, KVCache: s.KVCacheWeight, InFlight: s.InFlightWeight},
		Full:      schedule.Full{Queue: s.FullQueue, KVCachePercent: s.FullKVCachePercent, InFlight: s.FullInFlight},
		Spills:    pp.Pool.Picker.Spills,
		Spill:     pp.Pool.Picker.Spill,
		Fallbacks: int(s.Fallbacks),
		Metrics:   endpoint.Metrics{Path: s.MetricsPath, Port: uint16(s.MetricsPort), Queue: s.QueueName, Running: s.RunningName, KVCache: s.KVCacheName, MaxPage: int64(s.MaxMetricsPage)},
	}
	if pp.Pool.Picker.Body == model.BodyBuffered {
		out.Body = picker.BodyBuffered
	}
	if at := pp.External; at != nil {
		out.Relay = &picker.Relay{Pickers: dialed(at.Addresses, !at.TLS), TLS: dial.TLS{ServerName: at.SNI}, Listed: true}
		return out
	}
	if r := pp.Pool.Relay; r != nil {
		out.Relay = &picker.Relay{Pickers: dialed(r.Pickers, !r.TLS), Ports: pp.Pool.Ports, Within: r.Within}
		return out // the remote picker knows its endpoints
	}
	for _, m := range pp.Members {
		out.Endpoints = append(out.Endpoints, endpoint.Spec{Addr: m.Address, Pod: m.Pod, Labels: m.Labels, Draining: m.Draining})
	}
	return out
}

func dialed(addrs []netip.AddrPort, cleartext bool) (out []dial.Address) {
	for _, a := range addrs {
		out = append(out, dial.Address{AddrPort: a, Cleartext: cleartext})
	}
	return out
}
