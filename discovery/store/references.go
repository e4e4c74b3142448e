package store

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
)

func gatewayParents(namespace string, refs []gatewayv1.ParentReference) (keys []string) {
	for _, p := range refs {
		if p.Kind != nil && *p.Kind != "Gateway" {
			continue
		}
		ns := namespace
		if p.Namespace != nil {
			ns = string(*p.Namespace)
		}
		if k := objectid.Join(ns, string(p.Name)); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func listenerSetParent(s *gatewayv1.ListenerSet) []string {
	p := s.Spec.ParentRef
	if p.Kind != nil && *p.Kind != "Gateway" || p.Group != nil && *p.Group != gatewayv1.GroupName {
		return nil
	}
	ns := s.Namespace
	if p.Namespace != nil && *p.Namespace != "" {
		ns = string(*p.Namespace)
	}
	return []string{objectid.Join(ns, string(p.Name))}
}

type backendKeys struct {
	namespace string
	keys      []string
}

func (b *backendKeys) add(ref gatewayv1.BackendRef) {
	kind, ns := "Service", b.namespace
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	if ref.Namespace != nil {
		ns = string(*ref.Namespace)
	}
	if k := TargetKey(kind, ns, string(ref.Name)); !slices.Contains(b.keys, k) {
		b.keys = append(b.keys, k)
	}
}

// rewrittenModels returns the ModelKeys of an InferenceModelRewrite. A rule without matches applies
// to all models, and has the key of the model "".
func rewrittenModels(m *llmd.InferenceModelRewrite) (keys []string) {
	if m.Spec.PoolRef == nil {
		return nil
	}
	for _, rule := range m.Spec.Rules {
		if len(rule.Matches) == 0 {
			keys = append(keys, ModelKey(m.Namespace, m.Spec.PoolRef.Name, ""))
		}
		for _, match := range rule.Matches {
			if match.Model != nil {
				keys = append(keys, ModelKey(m.Namespace, m.Spec.PoolRef.Name, match.Model.Value))
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
