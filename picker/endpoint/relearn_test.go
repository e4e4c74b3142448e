package endpoint

import (
	"net/netip"
	"testing"
	"time"
)

// Each process learns by itself, but all together send a server only as many trials as one process
// would.
func TestSLO_ProcessesShareTrialsOfSpeed(t *testing.T) {
	registry := NewRegistry(Config{})
	e := &registry.Snapshot(Metrics{Off: true}, nil, []Spec{{Addr: netip.MustParseAddrPort("10.0.0.1:80")}}).
		Endpoints[0]
	registry.Share(3)
	lease := NewLeases("test", time.Hour).Open(e, Holder{}, Work{Stream: true, Features: Features{Prefill: 1}}, 0,
		epoch)
	lease.Begun(time.Second)
	lease.Release()
	outdated := func(after time.Duration) bool {
		s := at(e, after)
		return e.Outdated(&s, At(epoch.Add(after)))
	}
	if outdated(30*time.Second) || !outdated(31*time.Second) {
		t.Error("a trial does not come 30 s after the first byte")
	}
	registry.SetElsewhere(e.Addr, Elsewhere{InFlight: 1}, epoch)
	if outdated(time.Minute) {
		t.Error("a trial is sent while another process has one in flight")
	}
}
