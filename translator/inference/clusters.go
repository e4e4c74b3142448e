package inference

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// withDocument returns the policy of a whole import, with the selection from its
// EndpointPickerConfig. The document applies only if it chooses among clusters. If the document is
// invalid, the policy's own selection stays.
func withDocument(r store.Reader, policy *v1alpha1.PoolPolicy) (*v1alpha1.PoolPolicy, []report.Finding) {
	if policy == nil || policy.Spec.Picker.Strategy != v1alpha1.StrategyPlugins || policy.Spec.Picker.ConfigRef == nil {
		return policy, nil
	}
	var findings []report.Finding
	owner := store.PoolPolicies.Ref(policy)
	profile := document(r, policy, problemsOf(owner, &findings))
	if profile != nil && profile.Clusters == nil {
		return policy, nil
	}
	clusterPolicy := *policy
	clusterPolicy.Spec.Picker.Strategy, clusterPolicy.Spec.Picker.ConfigRef = "", nil
	if profile == nil {
		return &clusterPolicy, findings
	}
	selection := v1alpha1.SelectionSpec{}
	if s := policy.Spec.Selection; s != nil {
		selection = *s
	}
	if p := selection.Policy; p != "" && p != v1alpha1.SelectWeighted && p != v1alpha1.SelectLeastLoad ||
		selection.Affinity != "" {
		return &clusterPolicy,
			append(findings, warningOn(owner, fieldConfigRef,
				"the document has no effect: spec.selection has a policy or an affinity of its own",
				"remove picker.configRef and picker.strategy, or selection.policy and selection.affinity"))
	}
	selection.Policy, selection.Affinity = v1alpha1.SelectLeastLoad, v1alpha1.AffinityNone
	switch {
	case profile.Clusters.Session:
		selection.Affinity = v1alpha1.AffinitySession
	case profile.Clusters.Prefix:
		selection.Affinity = v1alpha1.AffinityPrefix
	}
	clusterPolicy.Spec.Selection = &selection
	return &clusterPolicy, findings
}
