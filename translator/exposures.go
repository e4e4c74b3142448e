package translator

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/access"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

// policyTables are the tables for reports about AccessPolicies on other objects.
type policyTables struct {
	// policed has a row for each kind that an AccessPolicy targets. Its index has one key, "", with
	// which other rows read whether any AccessPolicy exists.
	policed    *graph.Table[string, struct{}]
	policedAny *graph.Index[string, struct{}, string]
	effects    *graph.Table[string, []access.Effect] // keyed by target (store.TargetKey)

	// exposures has the pools that some routes reach behind an AccessPolicy, and others without
	// one. The keys are elements of model.Route.Reaches.
	exposures        *graph.Table[string, exposure]
	exposuresByRoute *graph.Index[string, exposure, string] // keyed by store.TargetKey
	hostsByGatedPool *graph.Index[hostKey, virtualHost, string]
	hostsByOpenPool  *graph.Index[hostKey, virtualHost, string]
}

// exposure lists the routes to a pool, with and without an AccessPolicy. Both lists are sorted and
// not empty.
type exposure struct{ gated, open []passage }

// passage is a route at a Gateway.
type passage struct {
	route   report.Ref
	gateway string
	policy  string // the outermost AccessPolicy; "" if no policy applies
}

func (p passage) String() string { return p.route.String() + " of Gateway " + p.gateway }

func (p passage) compare(o passage) int {
	return cmp.Or(p.route.Compare(o.route), strings.Compare(p.gateway, o.gateway), strings.Compare(p.policy, o.policy))
}

func (t *tables) declarePolicies() {
	t.policed = graph.Declare(t.engine, graph.Table[string, struct{}]{
		Name:    "policed",
		Order:   order,
		Sources: []graph.Source[string]{t.engine.Stored(store.AccessPolicies.Kind(), store.ByTargetKind)},
		Compute: func(*graph.Reader, string) (struct{}, bool) { return struct{}{}, true },
	})
	t.policedAny = graph.NewIndex(t.policed, "any", func(string, struct{}) []string { return []string{""} })
	t.effects = graph.Declare(t.engine, graph.Table[string, []access.Effect]{
		Name:    "effects",
		Order:   order,
		Sources: []graph.Source[string]{t.engine.Stored(store.AccessPolicies.Kind(), store.ByTarget)},
		Compute: func(r *graph.Reader, key string) ([]access.Effect, bool) {
			kind, id := store.ParseTargetKey(key)
			namespace, name := store.ParseID(id)
			if all, ok := objectid.All(id); ok {
				namespace, name = all, ""
			}
			effects := access.Effects(r, report.Ref{Kind: kind, Namespace: namespace, Name: name})
			return effects, len(effects) > 0
		},
	})
}

func (t *tables) effectsAt(r *graph.Reader, target report.Ref) []access.Effect {
	effects, found := t.effects.Get(r, store.TargetOf(target))
	if found {
		return effects
	}
	if _, all := t.effects.Get(r, store.TargetKey(target.Kind, target.Namespace, "")); all {
		return access.Effects(r, target)
	}
	return nil
}

func (t *tables) isPoliced(r *graph.Reader) bool {
	kinds, _ := t.policedAny.Each(r, "")
	return kinds > 0
}

func (t *tables) declareExposures() {
	pools := func(gated bool) func(hostKey, virtualHost) []string {
		return func(_ hostKey, vh virtualHost) (keys []string) {
			if vh.model == nil {
				return nil
			}
			for i := range vh.model.Routes {
				if route := &vh.model.Routes[i]; len(route.Gates) > 0 == gated {
					keys = append(keys, route.Reaches...)
				}
			}
			slices.Sort(keys)
			return slices.DeleteFunc(slices.Compact(keys), func(key string) bool { return key == model.AnythingElse })
		}
	}
	t.hostsByGatedPool = graph.NewIndex(t.virtualHosts, "gatedPool", pools(true))
	t.hostsByOpenPool = graph.NewIndex(t.virtualHosts, "openPool", pools(false))
	t.exposures = graph.Declare(t.engine, graph.Table[string, exposure]{
		Name:    "exposures",
		Order:   order,
		Sources: []graph.Source[string]{t.hostsByGatedPool},
		Compute: func(r *graph.Reader, pool string) (exposure, bool) {
			gated, gatedHosts := t.hostsByGatedPool.Each(r, pool)
			open, openHosts := t.hostsByOpenPool.Each(r, pool)
			if gated == 0 || open == 0 {
				return exposure{}, false
			}
			return exposure{passages(gatedHosts, pool, true), passages(openHosts, pool, false)}, true
		},
		Equal: func(a, b exposure) bool { return slices.Equal(a.gated, b.gated) && slices.Equal(a.open, b.open) },
	})
	t.exposuresByRoute = graph.NewIndex(t.exposures, "route", func(_ string, e exposure) (keys []string) {
		for _, p := range slices.Concat(e.gated, e.open) {
			keys = append(keys, store.TargetOf(p.route))
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	})
}

func passages(hosts iter.Seq2[hostKey, virtualHost], pool string, gated bool) (list []passage) {
	for key, vh := range hosts {
		for i := range vh.model.Routes {
			route := &vh.model.Routes[i]
			if len(route.Gates) > 0 != gated || !slices.Contains(route.Reaches, pool) {
				continue
			}
			p := passage{route: route.Owner, gateway: key.gateway}
			if gated {
				p.policy = route.Gates[0]
			}
			list = append(list, p)
		}
	}
	slices.SortFunc(list, passage.compare)
	return slices.Compact(list)
}

// exposed adds a warning to a route's report for each pool that some routes, including this one,
// reach behind an AccessPolicy, and others without one.
func (t *tables) exposed(r *graph.Reader, rep report.Report) report.Report {
	warn := func(problem, fix string) {
		rep.Findings = append(slices.Clip(rep.Findings), report.Finding{Severity: report.Warning, Owner: rep.Owner,
			Field: "spec.rules", Problem: problem + keyless, Fix: fix})
	}
	own := func(p passage) bool { return p.route == rep.Owner }
	for _, row := range t.exposuresByRoute.By(r, store.TargetOf(rep.Owner)) {
		pool, fix := poolAndFix(row.Key)
		gated, open := row.Value.gated, row.Value.open
		if i := slices.IndexFunc(open, own); i >= 0 {
			warn(fmt.Sprintf("no AccessPolicy gates it at Gateway %s, and it reaches %s, which %s reaches behind "+
				"AccessPolicy %s", open[i].gateway, pool, gated[0], gated[0].policy), "gate this route, too"+fix)
		} else if slices.ContainsFunc(gated, own) {
			warn(fmt.Sprintf("it is gated, and %s reaches %s, too, without an AccessPolicy", open[0], pool),
				"gate that route, too"+fix)
		}
	}
	return rep
}

// exposedPool returns a finding about a pool or import that some routes reach behind an
// AccessPolicy, and others without one.
func (t *tables) exposedPool(r *graph.Reader, owner report.Ref, pool objectid.Target) []report.Finding {
	e, ok := t.exposures.Get(r, pool.String())
	if !ok {
		return nil
	}
	_, fix := poolAndFix(pool.String())
	return []report.Finding{{Severity: report.Warning, Owner: owner,
		Problem: fmt.Sprintf("%s reaches it behind AccessPolicy %s, and %s without one", e.gated[0], e.gated[0].policy,
			e.open[0]) + keyless,
		Fix: "gate " + e.open[0].route.String() + ", too" + fix}}
}

const keyless = ": clients without a key reach its servers"

func poolAndFix(key string) (name, fix string) {
	if pool, _ := objectid.ParseTarget(key); pool.Import {
		return "InferencePoolImport " + pool.Pool.String(), ""
	}
	return "InferencePool " + key, ", or write an AccessPolicy for the InferencePool"
}
