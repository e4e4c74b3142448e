package inference

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	fieldSubset = "spec.subset"
	// nothing is a selector that matches no endpoint.
	nothing = "penstock.dev/none,!penstock.dev/none"
	// maxSelector is in bytes. Each call of Penstock's picker contains the selector.
	maxSelector = 4 << 10
)

func subsetSelector(policy *v1alpha1.PoolPolicy) (text, problem string) {
	if policy == nil || policy.Spec.Subset == nil {
		return "", ""
	}
	selector, err := metav1.LabelSelectorAsSelector(policy.Spec.Subset)
	switch {
	case err != nil:
		return nothing, err.Error()
	case len(selector.String()) > maxSelector:
		return nothing, fmt.Sprintf("the selector has %d bytes; the limit is %d", len(selector.String()), maxSelector)
	}
	return selector.String(), ""
}

func subsetFinding(policy *v1alpha1.PoolPolicy) (report.Finding, bool) {
	_, problem := subsetSelector(policy)
	return errorOn(store.PoolPolicies.Ref(policy), fieldSubset, problem+"; requests for the subset are answered 503",
		"write matchLabels or matchExpressions as in a Deployment's selector"), problem != ""
}

func withSubset(r store.Reader, p *model.Pool, text string) {
	if text == "" {
		return
	}
	if s := p.Picker.Subset; s != nil {
		text = s.Selector + "," + text
	}
	p.Picker.Subset = &model.Subset{Selector: text}
	if !p.External {
		return
	}
	selector, err := labels.Parse(text)
	if err != nil {
		selector = labels.Nothing()
	}
	p.Picker.Subset.Addresses = []string{}
	for _, m := range Members(r, p) {
		if !m.Draining && selector.Matches(labels.Set(m.Labels)) {
			p.Picker.Subset.Addresses = append(p.Picker.Subset.Addresses, m.Address.String())
		}
	}
}

// Restrict implements gatewayapi.Backends.
func (b Backends) Restrict(r store.Reader, ref report.Ref, policy *v1alpha1.PoolPolicy) gatewayapi.Resolution {
	whole, ok := b.Tables.Pool(r, ref.Key())
	if !ok {
		return missing(r, ref)
	}
	p := *whole
	text, _ := subsetSelector(policy)
	if withSubset(r, &p, text); p.ViaHops() {
		// The hop to the subset picks, not this cluster.
		p.Cluster.Member = model.SubsetMember(policy.Namespace, policy.Name)
	}
	if p.PicksAgain() && p.Picker.Subset != whole.Picker.Subset {
		p.Picker.Subset.Elsewhere = true
	}
	res := gatewayapi.Resolution{Ref: store.TargetOf(p.Ref)}
	addPool(&res, &p, 1)
	useSpillNames(r, &p)
	return finish(res)
}
