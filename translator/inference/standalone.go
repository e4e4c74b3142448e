package inference

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// StandAlone configures a picker for gateways that Penstock does not configure.
type StandAlone struct {
	// Pool is the only InferencePool of the picker. The zero value means all pools.
	Pool objectid.Pool
	// Source locates the servers' metrics pages, if neither the pool's policy nor the
	// EndpointPickerConfig does.
	Source endpointpicker.PageSource
}

// StandAlonePool translates an InferencePool whose endpointPickerRef names a stand-alone picker.
// The process's EndpointPickerConfig replaces the policy's strategy. The pool does not spill,
// because spilling needs Envoys that Penstock configures.
func StandAlonePool(r store.Reader, key string, only *StandAlone) (*model.Pool, bool) {
	obj, ok := store.InferencePools.Get(r, key)
	if !ok || !only.Pool.IsZero() && only.Pool != objectid.PoolOf(obj) {
		return nil, false
	}
	written, ignored := policyFor(r, "InferencePool", obj.Namespace, obj.Name)
	policy := written
	if _, ok := store.EndpointPickerConfigs.Get(r, store.OwnPickerConfig); ok {
		policy = withOwnConfig(obj.Namespace, written)
	}
	p := describe(obj, policy, ignored)
	p.Settings.ReadsModels, p.Settings.RewritesModels = modelUse(r, obj.Namespace, obj.Name)
	p.Owners = []report.Ref{p.Ref}
	if written != nil {
		p.Owners = append(p.Owners, store.PoolPolicies.Ref(written))
	}
	plugins(r, p, policy)
	p.Settings.MetricsPath = cmp.Or(p.Settings.MetricsPath, only.Source.Path)
	p.Settings.UnverifiedTLS = only.Source.TLS || p.Settings.Plugins != nil && p.Settings.Plugins.Source.TLS
	withProcessor(r, p, written)
	ourPicker(p, policy)
	if policy == nil || policy.Spec.Picker.Fallbacks == nil {
		p.Settings.Fallbacks = 0 // a gateway's ORIGINAL_DST cluster uses only one address
	}
	p.Last = p.Cluster
	if policy != written {
		for i := range p.Findings {
			if f := &p.Findings[i]; f.Field == fieldConfigRef && f.Owner == store.PoolPolicies.Ref(policy) {
				f.Owner, f.Field = p.Ref, store.OwnPickerConfig
			}
		}
	}
	p.Findings = append(p.Findings, ineffective(p, written)...)
	if written != nil && len(written.Spec.Spill) > 0 {
		p.Findings = append(p.Findings, warningOn(store.PoolPolicies.Ref(written), "spec.spill",
			"has no effect: a stand-alone picker names endpoints of its own pool alone",
			"remove it, or serve the pool with penstock serve"))
	}
	if written != nil && written.Spec.Subset != nil {
		p.Findings = append(p.Findings, warningOn(store.PoolPolicies.Ref(written), fieldSubset,
			"has no effect: a stand-alone picker chooses among the endpoints that the gateway lists",
			"remove it, or have Penstock configure the gateway"))
	}
	if written != nil && written.Spec.Picker.HeadersTimeout == v1alpha1.HeadersTimeoutLearned &&
		p.Settings.Fallbacks > 0 {
		p.Findings = append(p.Findings, unused(written, []string{"spec.picker.headersTimeout"},
			"a gateway that Penstock does not configure may not obey it",
			"remove it, or have Penstock configure the gateway"))
	}
	slices.SortFunc(p.Owners, report.Ref.Compare)
	return p, true
}

func withOwnConfig(namespace string, written *v1alpha1.PoolPolicy) *v1alpha1.PoolPolicy {
	policy := &v1alpha1.PoolPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	if written != nil {
		policy = deepcopy.Of(written)
	}
	policy.Spec.Picker.Strategy, policy.Spec.Picker.Plugins = v1alpha1.StrategyPlugins, nil
	policy.Spec.Picker.ConfigRef = &v1alpha1.ConfigRef{Kind: endpointpicker.Kind, Name: store.OwnPickerConfig}
	return policy
}
