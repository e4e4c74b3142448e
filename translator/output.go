package translator

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Then merges o with later, the Output of the next Update. Opposite changes cancel out. The result
// has neither Wanted nor Unwanted.
func (o Output) Then(later Output) Output {
	out := Output{Work: o.Work + "; " + later.Work, Err: errors.Join(o.Err, later.Err)}
	out.Panics = slices.Concat(o.Panics, later.Panics)
	out.Failing, out.FailingChanged = o.Failing, o.FailingChanged || later.FailingChanged
	if later.FailingChanged {
		out.Failing = later.Failing
	}
	out.Deltas = joinDeltas(o.Deltas, later.Deltas)
	out.Reports, out.ReportsGone = joinSets(o.Reports, later.Reports,
		func(r report.Report) report.Ref { return r.Owner }, o.ReportsGone, later.ReportsGone, report.Ref.Compare)
	out.Pools, out.PoolsGone = joinSets(o.Pools, later.Pools, func(p PickerPool) objectid.Target { return p.Pool.Name },
		o.PoolsGone, later.PoolsGone, objectid.Target.Compare)
	out.Parents, _ = joinSets(o.Parents, later.Parents, func(p PoolParents) objectid.Pool { return p.Pool }, nil, nil,
		objectid.Pool.Compare)
	out.Ordered, _ = joinSets(o.Ordered, later.Ordered, func(i OrderedImport) objectid.Pool { return i.Import }, nil,
		nil, objectid.Pool.Compare)
	out.Unusable, _ = joinSets(o.Unusable, later.Unusable, func(u UnusableClusters) objectid.Pool { return u.Import },
		nil, nil, objectid.Pool.Compare)
	out.Gates, _ = joinSets(o.Gates, later.Gates, func(g PolicyGateways) string { return g.Policy }, nil, nil,
		strings.Compare)
	out.Pickers, out.PickersGone = joinSets(o.Pickers, later.Pickers,
		func(p model.ExternalPicker) model.ClusterID { return p.Cluster }, o.PickersGone, later.PickersGone,
		model.ClusterID.Compare)
	out.Names, out.NamesGone = joinSets(o.Names, later.Names, func(name string) string { return name }, o.NamesGone,
		later.NamesGone, strings.Compare)
	return out
}

func joinDeltas(first, later []Delta) []Delta {
	all := map[string]Delta{}
	for _, d := range first {
		all[d.Gateway] = d
	}
	for _, d := range later {
		old := all[d.Gateway]
		sum := Delta{Gateway: d.Gateway, Gone: d.Gone || old.Gone && len(d.Upserts) == 0}
		sum.Upserts, sum.Removes = joinSets(old.Upserts, d.Upserts,
			func(r *resource.Resource) resource.Ref { return r.Ref }, old.Removes, d.Removes, resource.Ref.Compare)
		all[d.Gateway] = sum
	}
	out := make([]Delta, 0, len(all))
	for _, gw := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[gw])
	}
	return out
}

func joinSets[T any, K comparable](put, laterPut []T, key func(T) K, out, laterOut []K,
	compare func(a, b K) int) (puts []T, outs []K) {
	if len(put)+len(out) == 0 {
		return laterPut, laterOut
	}
	have, gone := map[K]T{}, map[K]struct{}{}
	apply := func(put []T, out []K) {
		for _, k := range out {
			delete(have, k)
			gone[k] = struct{}{}
		}
		for _, v := range put {
			delete(gone, key(v))
			have[key(v)] = v
		}
	}
	apply(put, out)
	apply(laterPut, laterOut)
	for _, k := range slices.SortedFunc(maps.Keys(have), compare) {
		puts = append(puts, have[k])
	}
	return puts, slices.SortedFunc(maps.Keys(gone), compare)
}
