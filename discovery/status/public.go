package status

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/credential"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// public removes credentials from the texts of a report, because reports are logged and shown.
func public(r report.Report) report.Report {
	r.Conditions = publicConditions(r.Conditions)
	r.Findings = replaced(r.Findings, func(f report.Finding) report.Finding {
		f.Problem, f.Fix = credential.Text(f.Problem), credential.Text(f.Fix)
		return f
	})
	r.Listeners = withPublicConditions(r.Listeners,
		func(l *report.Listener) *[]report.Condition { return &l.Conditions })
	r.Parents = withPublicConditions(r.Parents, func(p *report.Parent) *[]report.Condition { return &p.Conditions })
	return r
}

func publicConditions(list []report.Condition) []report.Condition {
	return replaced(list, func(c report.Condition) report.Condition {
		c.Message = credential.Text(c.Message)
		return c
	})
}

func replaced[T comparable](list []T, change func(T) T) []T {
	out := list
	for i, before := range list {
		if after := change(before); after != before {
			if &out[0] == &list[0] {
				out = slices.Clone(list)
			}
			out[i] = after
		}
	}
	return out
}

func withPublicConditions[T any](list []T, conditions func(*T) *[]report.Condition) []T {
	out := list
	for i := range list {
		before := *conditions(&list[i])
		after := publicConditions(before)
		if len(before) == 0 || &before[0] == &after[0] {
			continue
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		*conditions(&out[i]) = after
	}
	return out
}
