package file

import (
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// If a user adds an invalid spec.access to a ModelDeployment, the previous version without
// spec.access stays in use. Its model would be open, so a closed policy with the name NAME#access
// closes its InferencePool.
const addsAccess = "#access"

// writesAccess reports whether a document has the key spec.access, even with the value null.
func writesAccess(obj map[string]any) bool {
	spec, _ := obj["spec"].(map[string]any)
	_, ok := spec["access"]
	return ok
}

// closeDeployment adds or removes the closed policy NAME#access of a ModelDeployment.
func (r *Reader) closeDeployment(ref report.Ref, now keptObject) []store.Op {
	if ref.Kind != store.ModelDeployments.Kind() || ref.Group != store.ModelDeployments.Group() {
		return nil
	}
	policy := report.Ref{Group: store.AccessPolicies.Group(), Kind: store.AccessPolicies.Kind(),
		Namespace: ref.Namespace, Name: ref.Name + addsAccess}
	var closed store.Object
	if now.good != nil && r.addsAccess(ref, now) {
		if closed = r.closed[policy]; closed == nil {
			target := map[string]any{"kind": store.InferencePools.Kind(), "name": ref.Name}
			closed = closedPolicy(ref.Namespace, policy.Name, map[string]any{"targetRefs": []any{target}},
				v1alpha1.ClosedDeployment)
		}
	}
	return r.putClosed(nil, policy, closed)
}

// addsAccess reports whether the version of a ModelDeployment in use has no spec.access, although a
// document that is not in use has it.
func (r *Reader) addsAccess(ref report.Ref, now keptObject) bool {
	if d, ok := now.object().(*v1alpha1.ModelDeployment); !ok || d.Spec.Access != nil {
		return false
	}
	list := r.claims[ref]
	for i, c := range list {
		if (i > 0 || c.object.good == nil) && c.object.access {
			return true
		}
	}
	if src := r.files[now.path]; len(list) == 0 && src != nil {
		for _, doc := range src.docs {
			if doc.access {
				return true
			}
		}
	}
	return false
}

// withoutAccess maps a policy NAME#access to its ModelDeployment and the field spec.access, for
// reports to users. It returns any other ref and field unchanged.
func withoutAccess(ref report.Ref, field string) (report.Ref, string) {
	name, ok := strings.CutSuffix(ref.Name, addsAccess)
	if !ok || ref.Kind != store.AccessPolicies.Kind() {
		return ref, field
	}
	return report.Ref{Group: ref.Group, Kind: store.ModelDeployments.Kind(), Namespace: ref.Namespace, Name: name},
		"spec.access"
}
