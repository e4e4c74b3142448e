package hub

import (
	"cmp"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

func (h *Hub) reported(reports []report.Report) {
	now, texts := map[string]*mistake{}, map[string]string{}
	for _, r := range reports {
		for _, f := range r.Findings {
			if f.Severity != report.Error {
				continue
			}
			object := f.Source
			if f.Owner != (report.Ref{}) {
				object = f.Owner.String()
			}
			key := strings.TrimSpace(object + " " + f.Field)
			if m := now[key]; m != nil {
				m.Problem += "; " + f.Problem
				texts[key] += "; " + f.Problem
				continue
			}
			now[key], texts[key] = &mistake{Field: cmp.Or(f.Field, object), Problem: f.Problem, Fix: f.Fix}, f.String()
		}
	}
	h.mu.Lock()
	before := h.findings
	h.findings = now
	h.mu.Unlock()
	for key, m := range now {
		if old := before[key]; old == nil || *old != *m {
			h.log.Error("an object has errors; its previous version stays in use", "finding", texts[key])
		}
	}
	for key, old := range before {
		if now[key] == nil {
			h.log.Info("a problem of the cluster set is resolved", "object", strings.TrimSuffix(key, " "+old.Field),
				"field", old.Field)
		}
	}
}
