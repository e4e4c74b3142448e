package flow_test

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/flow"
)

type pool struct {
	registry *endpoint.Registry
	snapshot *endpoint.Snapshot
	leases   *endpoint.Leases
}

func newPool(pages ...*endpoint.Reading) *pool {
	p := &pool{registry: endpoint.NewRegistry(endpoint.Config{Jitter: func() float64 { return 0 }}),
		leases: endpoint.NewLeases("me", time.Hour)}
	var specs []endpoint.Spec
	for i := range pages {
		specs = append(specs, endpoint.Spec{Addr: address(i)})
	}
	p.snapshot = p.registry.Snapshot(endpoint.Metrics{}, nil, specs)
	for i, page := range pages {
		if page != nil {
			p.snapshot.Endpoints[i].BeginScrape().Succeed(*page, time.Now())
		}
	}
	return p
}

func address(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 8000)
}

func (p *pool) send(server, n, tokens int) {
	for range n {
		p.leases.Open(&p.snapshot.Endpoints[server], endpoint.Holder{}, endpoint.Work{Tokens: tokens, Rate: 4000}, 0,
			time.Now())
	}
}

func (p *pool) measure(s flow.Saturation) flow.Room {
	return s.Measure(p.snapshot.Endpoints, time.Now())
}

func TestSaturation_IsTheMeanOfQueueAndKVCache(t *testing.T) {
	for name, c := range map[string]struct {
		pages     []*endpoint.Reading
		want      float64
		room, low int
	}{
		"idle":                        {[]*endpoint.Reading{{}, {}}, 0, 10, 2},
		"queue and cache":             {[]*endpoint.Reading{{Queue: 5, KV: 0.1}, {Queue: 1, KV: 0.4}}, 0.75, 2, 0},
		"one has more than its share": {[]*endpoint.Reading{{Queue: 20}, {}}, 2, 0, 0},
		"the cache is full":           {[]*endpoint.Reading{{KV: 0.8}}, 1, 0, 0},
		"only running requests":       {[]*endpoint.Reading{{Running: 200}}, 0, 5, 1},
		"one waits":                   {[]*endpoint.Reading{{Queue: 1}, {}}, 0.1, 9, 1},
	} {
		got := newPool(c.pages...).measure(flow.Saturation{})
		if math.Abs(got.Saturation-c.want) > 1e-9 || got.Requests != c.room || got.Sheddable != c.low ||
			got.Endpoints != len(c.pages) {
			t.Errorf("%s: %+v, want saturation %v and room for %d, %d of them sheddable", name, got, c.want, c.room,
				c.low)
		}
	}
}

func TestSaturation_CountsWhatPagesDoNotShow(t *testing.T) {
	p := newPool(&endpoint.Reading{Queue: 1})
	p.send(0, 3, 4000) // 3 s of prompts
	if got := p.measure(flow.Saturation{}); got.Requests != 1 {
		t.Errorf("one waits and 3 were sent since: room for %d, want 1 of 5", got.Requests)
	}
	p = newPool(&endpoint.Reading{Queue: 1, Running: 2})
	p.send(0, 3, 4)
	later := time.Now().Add(time.Second)
	if got := (flow.Saturation{}).Measure(p.snapshot.Endpoints, later); got.Requests != 1 {
		t.Errorf("one waits, and 3 short ones were sent since, which could have been read: room for %d, want 1 of 5",
			got.Requests)
	}
	p = newPool(&endpoint.Reading{})
	p.registry.SetElsewhere(address(0), endpoint.Elsewhere{InFlight: 4}, time.Now())
	if got := p.measure(flow.Saturation{}); got.Requests != 1 {
		t.Errorf("a peer has sent 4: room for %d, want 1 of 5", got.Requests)
	}
}

func TestSaturation_StaleServersCountByOwnLoad(t *testing.T) {
	p := newPool(nil, nil)
	if got := p.measure(flow.Saturation{}); got.Requests != 10 {
		t.Errorf("idle servers without pages have room for %d, want 10", got.Requests)
	}
	p.send(0, 12, 4000)
	if got := p.measure(flow.Saturation{}); got.Requests != 0 || got.Saturation < 1 {
		t.Errorf("12 long prompts at one of two: %+v, want it saturated", got)
	}
	p = newPool(nil)
	p.send(0, 40, 4)
	if got := p.measure(flow.Saturation{}); got.Requests != 0 {
		t.Errorf("40 prompts that are not read yet: %+v, want it saturated", got)
	}
	if got := (flow.Saturation{}).Measure(p.snapshot.Endpoints,
		time.Now().Add(50*time.Millisecond)); got.Requests != 5 {
		t.Errorf("when they are read: %+v, want room for 5", got)
	}
}

func TestSaturation_ServersWithoutAPlaceHaveNoRoom(t *testing.T) {
	p := newPool(&endpoint.Reading{Running: 3}, &endpoint.Reading{})
	p.send(0, 4, 0)
	p.send(1, 3, 0)
	if got := p.measure(flow.Saturation{InFlight: 4}); got.Requests != 1 {
		t.Errorf("one of 8 places is free: room for %d, want 1", got.Requests)
	}
	p.send(1, 1, 0)
	if got := p.measure(flow.Saturation{InFlight: 4, Queue: 100}); got.Requests != 0 {
		t.Errorf("no place is free: room for %d, want 0", got.Requests)
	}
}

func TestSaturation_ServersThatDrainDoNotCount(t *testing.T) {
	r := endpoint.NewRegistry(endpoint.Config{Jitter: func() float64 { return 0 }})
	s := r.Snapshot(endpoint.Metrics{}, nil, []endpoint.Spec{{Addr: address(1), Draining: true}})
	if got := (flow.Saturation{}).Measure(s.Endpoints, time.Now()); got.Endpoints != 0 || got.Requests != 0 {
		t.Errorf("%+v, want no endpoint and no room", got)
	}
}
