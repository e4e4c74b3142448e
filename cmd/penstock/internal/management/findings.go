package management

import (
	"cmp"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// reported takes over what is wrong in the files: an object with an error is used as it was before,
// so the hub goes on with another ClusterSet than its user has written. What is new is logged.
func (h *Hub) reported(reports []report.Report) {
	now, texts := map[string]*mistake{}, map[string]string{}
	for _, r := range reports {
		for _, f := range r.Findings {
			if f.Severity != report.Error {
				continue
			}
			object := f.Source // of a file in which there is no object
			if f.Owner != (report.Ref{}) {
				object = f.Owner.String()
			}
			key := strings.TrimSpace(object + " " + f.Field)
			if is := now[key]; is != nil {
				is.Problem += "; " + f.Problem
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
			h.log.Error("an object is not used as it is written", "finding", texts[key])
		}
	}
	for key, old := range before {
		if now[key] == nil {
			h.log.Info("a problem of the cluster set is resolved", "object", strings.TrimSuffix(key, " "+old.Field),
				"field", old.Field)
		}
	}
}
