package translator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Translator holds what has been translated so far. It is not safe for concurrent use.
type Translator struct {
	tables *tables
	engine *graph.Engine
	// kept is what proxies still have of rows that cannot be encoded now.
	kept map[rowID][]*resource.Resource
	// panicked are the rows whose last computation panicked.
	panicked map[rowID]panicked
}

// New makes a Translator of an empty store.
func New(cfg Config) *Translator {
	t := declare(cfg)
	t.engine.Demand(cfg.OnDemand...)
	t.engine.Follow(store.Hosts.Kind())
	return &Translator{tables: t, engine: t.engine, kept: map[rowID][]*resource.Resource{},
		panicked: map[rowID]panicked{}}
}

// Delta is what changed for the Envoys of one Gateway.
type Delta struct {
	Gateway string               // "namespace/name"
	Gone    bool                 // the Gateway is gone, with all of its resources
	Upserts []*resource.Resource // sorted by type and name
	Removes []resource.Ref       // sorted
}

// Output is what an Update changed.
type Output struct {
	Deltas      []Delta         // sorted by gateway
	Reports     []report.Report // whole reports of objects whose report changed
	ReportsGone []report.Ref    // objects that have no report any more
	Pools       []PickerPool    // pools that our picker should know otherwise than before
	PoolsGone   []objectid.Target
	// Parents are the Gateways that route to pools with export mode ParentMode, of those pools
	// where they changed.
	Parents []PoolParents
	// Ordered are the imports whose clusters serve in an order, of those where something changed.
	Ordered []OrderedImport
	// Unusable are the exporting clusters that cannot be used, of those imports where that changed.
	Unusable []UnusableClusters
	// Pickers are those external ones, and where they are, that routes lead to now and not before,
	// or that are elsewhere now.
	Pickers     []model.ExternalPicker
	PickersGone []model.ClusterID // model.ExternalPicker.Cluster
	// Names are host names that rows use now and did not before, NamesGone those that none uses any
	// more. Both are sorted.
	Names, NamesGone []string
	// Wanted and Unwanted are the keys of Config.OnDemand's tables that begin and cease to be read.
	Wanted, Unwanted []graph.Key
	// Err joins what could not be encoded or failed the checks: bugs of ours. The resources in
	// question keep out of Deltas, so that what Envoy has stays.
	Err error
	// Panics are rows whose computation panicked: bugs of ours. If that changes the objects at
	// which rows panic, FailingChanged is set, and Failing has the reports on all of them.
	Panics         []Panic
	Failing        []report.Report
	FailingChanged bool
	// Work lists how many rows each table computed and changed, for logs.
	Work string
}

// PoolParents are the Gateways that route to an InferencePool; none if it has another export mode.
type PoolParents struct {
	Pool     objectid.Pool
	Gateways []model.ParentGateway
}

// OrderedImport is an InferencePoolImport whose clusters serve in an order.
type OrderedImport struct {
	Import objectid.Pool
	// Ready has each cluster, and whether it can take requests; nil: the import is gone, or has no
	// order any more.
	Ready map[string]bool
}

// UnusableClusters are the exporting clusters of an InferencePoolImport that cannot be used as they
// are, by name.
type UnusableClusters struct {
	Import   objectid.Pool
	Clusters map[string]UnusableCluster // nil: all can be used, or the import is gone
}

// UnusableCluster is why an exporting cluster cannot be used: a reason for conditions, and a
// sentence.
type UnusableCluster struct{ Reason, Problem string }

// Rows counts the rows that were computed since New. It is safe to call while Update runs.
func (t *Translator) Rows() uint64 { return t.engine.Rows() }

// WaitForDemands makes rows wait for the keys of Config.OnDemand's tables that they begin to read
// from now on, until Update gets them as arrived. See graph.Engine.
func (t *Translator) WaitForDemands() { t.engine.WaitForDemands() }

// Update translates a change: view is the world now, changes what is different from the last
// Update's. arrived are keys of Output.Wanted whose objects are in view now.
func (t *Translator) Update(view *store.View, changes []store.Change, arrived ...graph.Key) Output {
	d := t.engine.Update(view, changes, arrived...)
	out := Output{Work: d.Work()}
	out.Names, out.Wanted = usedNames(d.Wanted)
	out.NamesGone, out.Unwanted = usedNames(d.Unwanted)
	t.resources(d, &out)
	t.reports(d, &out)
	t.panics(d, &out)
	for _, c := range t.tables.members.Changes(d) {
		if c.Has {
			out.Pools = append(out.Pools, c.New)
		} else {
			out.PoolsGone = append(out.PoolsGone, c.Key)
		}
	}
	for _, c := range t.tables.parents.Changes(d) {
		out.Parents = append(out.Parents, PoolParents{poolAt(c.Key), c.New})
	}
	for _, c := range t.tables.imports.Changes(d) {
		if c.Had && c.Old.Ordered || c.Has && c.New.Ordered {
			out.Ordered = append(out.Ordered, ordered(poolAt(c.Key), c.New))
		}
		if now := unusable(c.New); !maps.Equal(unusable(c.Old), now) {
			out.Unusable = append(out.Unusable, UnusableClusters{poolAt(c.Key), now})
		}
	}
	for _, c := range t.tables.externalPickers.Changes(d) {
		if c.Has {
			out.Pickers = append(out.Pickers, c.New)
		} else {
			out.PickersGone = append(out.PickersGone, c.Key)
		}
	}
	return out
}

// usedNames splits demands into those of host names, by name, and the others.
func usedNames(demands []graph.Key) (names []string, others []graph.Key) {
	for _, d := range demands {
		switch {
		case d.Table != store.Hosts.Kind():
			others = append(others, d)
		case d.Index == store.ByID:
			names = append(names, d.Key)
		}
	}
	return names, others
}

// resources sorts out what the changed rows mean for each gateway.
func (t *Translator) resources(d *graph.Diff, out *Output) {
	deltas := map[string]*Delta{}
	delta := func(gw string) *Delta {
		if deltas[gw] == nil {
			deltas[gw] = &Delta{Gateway: gw}
		}
		return deltas[gw]
	}
	var errs []error
	for _, c := range t.tables.gateways.Changes(d) {
		delta(c.Key).Gone = !c.Has
	}
	for _, table := range t.tables.resources {
		table.changes(d, func(row rowID, gw string, c graph.Change[string, encoded]) {
			had := c.Old.resources
			if c.Old.err != nil {
				had = t.kept[row]
				delete(t.kept, row)
			}
			if c.New.err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", row.table, row.key, c.New.err))
				if len(had) > 0 {
					t.kept[row] = had
				}
				return
			}
			delta(gw).add(had, c.New.resources)
		})
	}
	for _, c := range t.tables.virtualHosts.Changes(d) {
		if c.New.err != nil {
			errs = append(errs, fmt.Errorf("virtual host %s: %w", c.Key, c.New.err))
		}
	}
	for _, c := range t.tables.hops.Changes(d) {
		if c.New.err != nil {
			errs = append(errs, fmt.Errorf("hop %s: %w", c.Key, c.New.err))
		}
	}
	for _, c := range t.tables.clusters.Changes(d) {
		if c.New.err != nil {
			errs = append(errs, fmt.Errorf("cluster %s: %w", c.Key, c.New.err))
		}
	}
	r := t.engine.Reader()
	for _, delta := range deltas {
		if _, ok := t.tables.gateways.Get(r, delta.Gateway); !ok && !delta.Gone {
			continue // rows that waited for what they read, and outlived it: what they had is gone with it
		}
		delta.moved()
		slices.SortFunc(delta.Upserts, func(a, b *resource.Resource) int { return a.Compare(b.Ref) })
		slices.SortFunc(delta.Removes, resource.Ref.Compare)
		out.Deltas = append(out.Deltas, *delta)
	}
	slices.SortFunc(out.Deltas, func(a, b Delta) int { return strings.Compare(a.Gateway, b.Gateway) })
	out.Err = errors.Join(errs...)
}

func (d *Delta) add(old, now []*resource.Resource) {
	for _, r := range now {
		if !slices.ContainsFunc(old, r.Equal) {
			d.Upserts = append(d.Upserts, r)
		}
	}
	for _, r := range old {
		if !slices.ContainsFunc(now, func(o *resource.Resource) bool { return o.Ref == r.Ref }) {
			d.Removes = append(d.Removes, r.Ref)
		}
	}
}

// moved leaves out the removal of what another table has now: the listener of a port.
func (d *Delta) moved() {
	d.Removes = slices.DeleteFunc(d.Removes, func(ref resource.Ref) bool {
		return ref.Type == resource.Listener && slices.ContainsFunc(d.Upserts,
			func(r *resource.Resource) bool { return r.Ref == ref })
	})
}

func (t *Translator) reports(d *graph.Diff, out *Output) {
	for _, table := range t.tables.reports {
		changes := table.Changes(d)
		out.Reports = slices.Grow(out.Reports, len(changes))
		for _, c := range changes {
			if c.Has {
				out.Reports = append(out.Reports, c.New)
			} else {
				out.ReportsGone = append(out.ReportsGone, c.Old.Owner)
			}
		}
	}
	t.routeReports(d, out)
	slices.SortFunc(out.Reports, func(a, b report.Report) int { return a.Owner.Compare(b.Owner) })
	slices.SortFunc(out.ReportsGone, report.Ref.Compare)
}

// routeReports are of routes that changed, and of those some of whose rules went above a budget or
// came below it.
func (t *Translator) routeReports(d *graph.Diff, out *Output) {
	r := t.engine.Reader()
	done := map[string]bool{}
	add := func(route string, a *model.Attachment) {
		if done[route] {
			return
		}
		done[route] = true
		over := t.tables.overrunsOf(r, route)
		c, _ := t.tables.candidates.Get(r, route)
		out.Reports = append(out.Reports, gatewayapi.RouteReport(a, c, over))
	}
	for _, c := range t.tables.attachments.Changes(d) {
		if c.Has {
			add(c.Key, c.New)
		} else {
			out.ReportsGone = append(out.ReportsGone, c.Old.Route)
		}
	}
	for _, c := range t.tables.overruns.Changes(d) {
		for _, o := range slices.Concat(c.Old, c.New) {
			if a, ok := t.tables.attachments.Get(r, o.Route); ok {
				add(o.Route, a)
			}
		}
	}
}

// Gateways lists the Gateways that are ours, sorted.
func (t *Translator) Gateways() []string {
	out := []string{}
	for gw := range t.tables.gateways.All(t.engine.Reader()) {
		out = append(out, gw)
	}
	return out
}

// Resources lists everything that the Envoys of a gateway get, sorted by type and name.
func (t *Translator) Resources(gateway string) []*resource.Resource {
	var out []*resource.Resource
	r := t.engine.Reader()
	for _, table := range t.tables.resources {
		for gw, row := range table.all(r) {
			if gw == gateway {
				out = append(out, row.resources...)
			}
		}
	}
	slices.SortFunc(out, func(a, b *resource.Resource) int { return a.Compare(b.Ref) })
	return out
}

// Listeners names the listeners of a gateway and their route configurations, sorted.
func (t *Translator) Listeners(gateway string) []resource.Ref {
	var out []resource.Ref
	r := t.engine.Reader()
	add := func(gw string, row encoded) {
		if gw != gateway {
			return
		}
		for _, res := range row.resources {
			out = append(out, res.Ref)
		}
	}
	for key, row := range t.tables.listeners.All(r) {
		add(key.gateway, row)
	}
	for key, row := range t.tables.routeConfigurations.All(r) {
		add(key.gateway, row)
	}
	slices.SortFunc(out, resource.Ref.Compare)
	return out
}

// Port is what a Gateway binds, for people and supervisors.
type Port struct {
	Listener  string // name of the Envoy listener
	Number    uint16
	Addresses []string
	UDP       bool
	Scheme    string // of what clients write: http, https, tls, tcp or udp
}

// Ports lists the ports of a gateway, sorted by number, those of TCP first.
func (t *Translator) Ports(gateway string) []Port {
	g, ok := t.tables.gateways.Get(t.engine.Reader(), gateway)
	if !ok {
		return nil
	}
	schemes := map[model.Socket]string{}
	for _, l := range g.Listeners {
		if l.Chain != "" && schemes[l.Socket()] != "https" { // TLS beside HTTPS
			schemes[l.Socket()] = strings.ToLower(l.Protocol)
		}
	}
	var out []Port
	for _, p := range gatewayapi.Ports(g) {
		s := p.Socket()
		out = append(out, Port{s.Listener(), p.Number, p.Addresses, s.UDP, schemes[s]})
	}
	return out
}

// Fleet is how a gateway's proxies run; nil if the Gateway is not accepted or not ours.
func (t *Translator) Fleet(gateway string) *v1alpha1.EnvoyFleetSpec {
	g, ok := t.tables.gateways.Get(t.engine.Reader(), gateway)
	if !ok {
		return nil
	}
	return g.Fleet
}

// PoolClusters are the clusters of a pool that our picker serves; none if the pool is gone.
func (t *Translator) PoolClusters(pool objectid.Target) []model.ClusterID {
	p, ok := t.tables.pool(t.engine.Reader(), pool)
	if !ok {
		return nil
	}
	return []model.ClusterID{p.Cluster, p.Last}
}
