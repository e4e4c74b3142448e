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
	"github.com/penstock-project/penstock/translator/access"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Translator has the current translation. It is not safe for concurrent use.
type Translator struct {
	tables   *tables
	engine   *graph.Engine
	kept     map[rowID][]*resource.Resource
	panicked map[rowID]panicked
}

// New returns a Translator for an empty store.
func New(cfg Config) *Translator {
	t := declare(cfg)
	t.engine.Demand(cfg.OnDemand...)
	t.engine.Follow(store.Hosts.Kind())
	return &Translator{tables: t, engine: t.engine, kept: map[rowID][]*resource.Resource{},
		panicked: map[rowID]panicked{}}
}

// Delta lists the changes for a Gateway's Envoys.
type Delta struct {
	Gateway string               // "namespace/name"
	Gone    bool                 // the Gateway has no resource any more
	Upserts []*resource.Resource // sorted by type and name
	Removes []resource.Ref       // sorted
}

// Output lists the changes of an Update.
type Output struct {
	Deltas      []Delta         // sorted by gateway
	Reports     []report.Report // complete reports that changed
	ReportsGone []report.Ref    // objects without a report now
	Pools       []PickerPool    // changed pools of Penstock's picker
	PoolsGone   []objectid.Target
	// Parents lists pools with export mode ParentMode whose Gateways changed.
	Parents []PoolParents
	// Ordered lists changed imports whose clusters have an order (model.Import.Ordered).
	Ordered []OrderedImport
	// Unusable lists imports whose unusable exporting clusters changed.
	Unusable []UnusableClusters
	// Pickers lists external pickers that routes newly lead to, or that changed.
	Pickers     []model.ExternalPicker
	PickersGone []model.ClusterID // Cluster of each removed picker
	// Names lists host names that rows began to use; NamesGone lists names that no row uses any
	// more.
	Names, NamesGone []string
	// Gates lists AccessPolicies for which the Gateways with affected routes changed.
	Gates []PolicyGateways
	// Wanted lists keys, in the tables of Config.OnDemand, that rows began to read. Unwanted lists
	// keys that no row reads any more.
	Wanted, Unwanted []graph.Key
	// Err joins errors that bugs cause. Deltas excludes the affected resources.
	Err error
	// Panics lists rows whose computation panicked because of a bug. If a row panicked or
	// recovered, FailingChanged is set, and Failing has the reports about all affected objects.
	Panics         []Panic
	Failing        []report.Report
	FailingChanged bool
	// Work lists how many rows each table computed and changed.
	Work string
}

// PolicyGateways lists the Gateways that have routes with this AccessPolicy.
type PolicyGateways struct {
	Policy   string   // "namespace/name"
	Gateways []string // "namespace/name", sorted
}

// PoolParents lists the Gateways that route to an InferencePool with export mode ParentMode. The
// list is empty for other pools.
type PoolParents struct {
	Pool     objectid.Pool
	Gateways []model.ParentGateway
}

// OrderedImport is an InferencePoolImport whose clusters have an order.
type OrderedImport struct {
	Import objectid.Pool
	// Ready reports, by name, which clusters can take requests. It is nil if the import is gone or
	// no longer ordered.
	Ready map[string]bool
}

// UnusableClusters has the unusable exporting clusters of an import, by name.
type UnusableClusters struct {
	Import   objectid.Pool
	Clusters map[string]UnusableCluster // nil if all are usable
}

// UnusableCluster has the reason and message of the cluster's condition.
type UnusableCluster struct{ Reason, Problem string }

// Rows returns how many rows were computed since New. It is safe for concurrent use.
func (t *Translator) Rows() uint64 { return t.engine.Rows() }

// WaitForDemands makes rows wait for keys in Config.OnDemand's tables, as
// graph.Engine.WaitForDemands does.
func (t *Translator) WaitForDemands() { t.engine.WaitForDemands() }

// Update translates the difference between view and the last Update's view. The parameter `arrived`
// lists keys of Output.Wanted whose objects are in view now.
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
	for _, c := range t.tables.gates.Changes(d) {
		out.Gates = append(out.Gates, PolicyGateways{c.Key, c.New})
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
	fail := func(what string, key fmt.Stringer, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", what, key, err))
		}
	}
	for _, c := range t.tables.virtualHosts.Changes(d) {
		fail("virtual host", c.Key, c.New.err)
	}
	for _, c := range t.tables.hops.Changes(d) {
		fail("hop", c.Key, c.New.err)
	}
	for _, c := range t.tables.clusters.Changes(d) {
		fail("cluster", c.Key, c.New.err)
	}
	r := t.engine.Reader()
	for _, delta := range deltas {
		if _, ok := t.tables.gateways.Get(r, delta.Gateway); !ok && !delta.Gone {
			continue
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

// moved drops the removal of a listener that another table has upserted in the same update.
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

// routeReports adds the reports of changed routes, of routes whose rules went above or below a
// budget, and of routes on which AccessPolicies have a changed effect.
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
		rep := access.AffectParents(gatewayapi.RouteReport(a, c, over), t.tables.effectsAt(r, a.Route))
		out.Reports = append(out.Reports, t.tables.exposed(r, rep))
	}
	again := func(route string) {
		if a, ok := t.tables.attachments.Get(r, route); ok {
			add(route, a)
		}
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
			again(o.Route)
		}
	}
	for _, c := range t.tables.effects.Changes(d) {
		if again(c.Key); !strings.HasSuffix(c.Key, "/") {
			continue
		}
		// The key stands for all routes of a kind in a namespace.
		for route := range t.tables.attachments.All(r) {
			if strings.HasPrefix(route, c.Key) {
				again(route)
			}
		}
	}
	for _, c := range t.tables.exposures.Changes(d) {
		for _, p := range slices.Concat(c.Old.gated, c.Old.open, c.New.gated, c.New.open) {
			again(store.TargetOf(p.route))
		}
	}
}

// Gateways lists, sorted, the Gateways that this process configures.
func (t *Translator) Gateways() []string {
	out := []string{}
	for gw := range t.tables.gateways.All(t.engine.Reader()) {
		out = append(out, gw)
	}
	return out
}

// Resources lists the Envoy resources of a gateway, sorted by type and name.
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

// Listeners lists the listeners of a gateway and their route configurations, sorted.
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

// Port is a port that a Gateway binds.
type Port struct {
	Listener  string // name of the Envoy listener
	Number    uint16
	Addresses []string
	UDP       bool
	Scheme    string // scheme of client URLs: http, https, tls, tcp or udp
}

// Ports lists a gateway's ports by number, TCP before UDP.
func (t *Translator) Ports(gateway string) []Port {
	g, ok := t.tables.gateways.Get(t.engine.Reader(), gateway)
	if !ok {
		return nil
	}
	schemes := map[model.Socket]string{}
	for _, l := range g.Listeners {
		if l.Chain != "" && schemes[l.Socket()] != "https" {
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

// Fleet returns the configuration of a gateway's proxies. It is nil if this process does not
// configure the Gateway.
func (t *Translator) Fleet(gateway string) *v1alpha1.EnvoyFleetSpec {
	g, ok := t.tables.gateways.Get(t.engine.Reader(), gateway)
	if !ok {
		return nil
	}
	return g.Fleet
}

// PoolClusters returns the Envoy clusters of a pool of Penstock's picker, or nil for an unknown
// pool.
func (t *Translator) PoolClusters(pool objectid.Target) []model.ClusterID {
	p, ok := t.tables.pool(t.engine.Reader(), pool)
	if !ok {
		return nil
	}
	return []model.ClusterID{p.Cluster, p.Last}
}
