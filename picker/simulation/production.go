package simulation

import (
	"errors"
	"net/netip"
	"strconv"
	"time"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Production returns the strategies of package schedule, with leases as package picker opens them.
// "llm-d" is the strategy "plugins" with the default configuration of llm-d's router.
func Production() []Strategy {
	var all []Strategy
	for _, name := range schedule.Names() {
		if name == schedule.Plugins {
			profile, _ := endpointpicker.Parse(llmdDefault)
			all = append(all, produced("llm-d", schedule.Options{Name: name, Profile: profile}))
			continue
		}
		all = append(all, produced(name, schedule.Options{Name: name}))
	}
	return all
}

// llmdDefault is the configuration of llm-d's router if the user gives none.
const llmdDefault = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: prefix-cache-scorer},
  {type: max-score-picker}]
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
`

func produced(name string, o schedule.Options) Strategy {
	return Strategy{Name: name, Unpaged: !schedule.UsesMetrics(&o),
		New: func(p Pool) Policy { return newProduction(o, p) }}
}

type production struct {
	strategy  *schedule.Strategy
	metrics   endpoint.Metrics
	registry  *endpoint.Registry
	snapshot  *endpoint.Snapshot
	leases    *endpoint.Leases
	prefixes  *prefix.Index
	sessions  *schedule.Sessions[netip.AddrPort] // nil if the strategy reads none
	tree      *tree
	shedAfter time.Duration
	cache     int // of a server's KV cache, in tokens

	scratch schedule.Scratch
	request schedule.Request
	scrapes []endpoint.Scrape
	open    map[*Pick]*endpoint.Lease
}

// epoch is the start of virtual time. It is after this process's start, from which package endpoint
// counts time.
var epoch = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

const sessionTTL = 5 * time.Minute // picker.DefaultSessionTTL

var errGone = errors.New("the metrics page is gone")

func newProduction(o schedule.Options, p Pool) Policy {
	prefixes := prefix.New(prefix.Config{})
	o.Random, o.Prefixes, o.ShedAfter = p.Random.Uint64, prefixes, p.ShedAfter
	s, err := schedule.New(o)
	if err != nil {
		panic(err) // unreachable: the name is in schedule.Names
	}
	d := &production{
		strategy: s, metrics: endpoint.Metrics{Off: !schedule.UsesMetrics(&o)},
		registry: endpoint.NewRegistry(endpoint.Config{Prefixes: prefixes, Jitter: p.Random.Float64}),
		leases:   endpoint.NewLeases("simulated", time.Hour),
		prefixes: prefixes, tree: &p.Workload.tree, shedAfter: p.ShedAfter, cache: p.Config.Blocks * BlockTokens,
		scrapes: make([]endpoint.Scrape, p.Room), open: map[*Pick]*endpoint.Lease{},
	}
	if schedule.UsesSessions(&o) {
		d.sessions = new(schedule.Sessions[netip.AddrPort])
	}
	d.resize(p.Servers)
	return d
}

func (d *production) resize(n int) {
	specs := make([]endpoint.Spec, n)
	for i := range specs {
		specs[i].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8000)
	}
	old := d.snapshot
	d.snapshot = d.registry.Snapshot(d.metrics, nil, specs)
	d.registry.Release(old)
	for i := range d.snapshot.Endpoints {
		d.snapshot.Endpoints[i].Load().Prefixes().SetCapacity(d.cache)
	}
}

func number(e *endpoint.Endpoint) int {
	a := e.Addr.Addr().As4()
	return int(a[2])<<8 | int(a[3])
}

func (d *production) Choose(now time.Duration, r *Request) Choice {
	d.set(r)
	if d.sessions != nil {
		d.request.Session.At = d.sessions.Find(d.request.Session.ID, epoch.Add(now), sessionTTL)
	}
	c := d.strategy.Rank(&d.request, epoch.Add(now), d.snapshot.Endpoints, nil, 1, &d.scratch)
	if len(c) == 0 {
		return Choice{Server: -1}
	}
	work := c[0].Work(&d.request)
	wait := time.Duration(c[0].TTFT * float64(time.Second))
	if work.Relearn { // sent even if the predicted time is too long
		wait = 0
	}
	return Choice{Server: number(c[0].Endpoint), Uncached: work.Tokens, Wait: wait, Work: work}
}

func (d *production) set(r *Request) {
	d.request = schedule.Request{Tokens: r.Input, Stream: !r.Whole, Chain: d.request.Chain[:0],
		Spread: max(1, mix(r.Key))}
	d.request.Session.ID = d.request.Spread
	if d.shedAfter > 0 {
		d.request.Criticality = schedule.Sheddable
	}
	if r.Adapter != 0 {
		d.request.Model = adapterName(r.Adapter)
	}
	for i := 0; i < prefix.MaxBlocks && prefix.End(i) <= r.Input; i++ {
		end := prefix.End(i)
		block := r.Blocks[(end-1)/BlockTokens]
		d.request.Chain = append(d.request.Chain, max(1, mix(d.tree.hashes[block]+uint64(end))))
	}
}

func (d *production) Learn(now time.Duration, f Fact) {
	at := epoch.Add(now)
	switch f.Kind {
	case Picked:
		work := f.Pick.Work.(endpoint.Work)
		if f.Peer {
			work.Measure, work.Trial = false, false
		}
		e := &d.snapshot.Endpoints[f.Server]
		if lease := d.leases.Open(e, endpoint.Holder{}, work, 0, at); lease != nil {
			d.open[f.Pick] = lease
		}
		d.set(f.Pick.Request)
		d.prefixes.Add(e.Load().Prefixes(), d.request.Chain)
		if d.sessions != nil && !f.Peer {
			d.sessions.Keep(d.request.Session.ID, e.Addr, at, sessionTTL)
		}
	case FirstByte:
		if lease := d.open[f.Pick]; lease != nil {
			lease.Answered(f.Headers, f.After)
			lease.Begun(f.After)
		}
	case Waits:
		if lease := d.open[f.Pick]; lease != nil {
			lease.Waits()
		}
	case Ended:
		if lease := d.open[f.Pick]; lease != nil {
			lease.Wrote(int64(f.Pick.Request.Output*f.Pick.Work.(endpoint.Work).TokenBytes), f.Took)
			lease.Release()
			delete(d.open, f.Pick)
		}
		if !f.Peer {
			d.snapshot.Endpoints[f.Server].Load().Record(f.After, at)
		}
	case ScrapeBegan:
		d.scrapes[f.Server] = d.snapshot.Endpoints[f.Server].BeginScrape()
	case Scraped:
		d.scrapes[f.Server].Succeed(reading(f.Page), at)
	case Failed:
		d.scrapes[f.Server].Fail(errGone)
	case Joined:
		d.resize(f.Server + 1)
	}
}

func reading(p Page) endpoint.Reading {
	r := endpoint.Reading{Queue: float64(p.Waiting), Running: float64(p.Running), KV: p.KV,
		PrefillSeconds: p.PrefillSeconds, PrefillTokens: p.PrefillTokens}
	if len(p.Active)+len(p.Awaited) > 0 {
		r.Adapters = &endpoint.Adapters{Max: p.Slots}
		for _, a := range p.Active {
			r.Adapters.Running = append(r.Adapters.Running, adapterName(a))
		}
		for _, a := range p.Awaited {
			r.Adapters.Waiting = append(r.Adapters.Waiting, adapterName(a))
		}
	}
	return r
}

func adapterName(a int) string { return "adapter-" + strconv.Itoa(a) }
