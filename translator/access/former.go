package access

import (
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func formerRef(t v1alpha1.FormerTarget) report.Ref {
	p := &v1alpha1.AccessPolicy{}
	p.Namespace = t.Namespace
	return targetRef(p, t.AccessTarget)
}

// former returns the names of a policy's former targets to which the policy still applies.
func former(r store.Reader, p *v1alpha1.AccessPolicy) (names []string) {
	if len(p.Spec.Former) == 0 || !store.Astray(r, p) {
		return nil
	}
	for _, t := range p.Spec.Former {
		if !store.TargetExists(r, t) { // the former target was renamed or removed
			continue
		}
		name := t.Kind + " " + objectid.Join(t.Namespace, t.Name)
		if t.SectionName != "" {
			name += " (section " + t.SectionName + ")"
		}
		names = append(names, name)
	}
	return names
}
