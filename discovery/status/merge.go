package status

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// merge merges the reports of all sources about an object. If several parts have the same
// condition, the last part wins. The result shares no slices with parts.
func merge(parts []*entry) report.Report {
	out := report.Report{Owner: parts[0].report.Owner}
	for _, e := range parts {
		p := &e.report
		out.Conditions = mergeConditions(out.Conditions, p.Conditions)
		for _, parent := range p.Parents {
			i := slices.IndexFunc(out.Parents, func(o report.Parent) bool { return o.Ref == parent.Ref })
			if i < 0 {
				out.Parents = append(out.Parents, report.Parent{Ref: parent.Ref})
				i = len(out.Parents) - 1
			}
			out.Parents[i].Conditions = mergeConditions(out.Parents[i].Conditions, parent.Conditions)
		}
		for _, l := range p.Listeners {
			i := slices.IndexFunc(out.Listeners, func(o report.Listener) bool { return o.Name == l.Name })
			if i < 0 {
				l.Conditions = slices.Clone(l.Conditions)
				out.Listeners = append(out.Listeners, l)
				continue
			}
			out.Listeners[i].Conditions = mergeConditions(out.Listeners[i].Conditions, l.Conditions)
		}
		if len(p.Addresses) > 0 {
			out.Addresses = slices.Clone(p.Addresses)
		}
		out.AttachedListenerSets = max(out.AttachedListenerSets, p.AttachedListenerSets)
		for _, f := range p.Findings {
			if !slices.Contains(out.Findings, f) {
				out.Findings = append(out.Findings, f)
			}
		}
	}
	spread(&out)
	return out
}

func mergeConditions(list, later []report.Condition) []report.Condition {
	list = slices.Clone(list)
	for _, c := range later {
		list = report.Set(list, c)
	}
	return list
}

// spread copies the conditions of an object to each of its parents, because the status of a route
// or pool has conditions only for each parent.
func spread(r *report.Report) {
	if len(r.Parents) == 0 || len(r.Conditions) == 0 {
		return
	}
	for i := range r.Parents {
		r.Parents[i].Conditions = mergeConditions(r.Parents[i].Conditions, r.Conditions)
	}
	r.Conditions = nil
}
