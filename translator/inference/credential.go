package inference

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/access"
	"github.com/penstock-project/penstock/translator/model"
)

const fieldCredential = "spec.upstreamCredential.secretRef"

// noCredential stands for a missing key, in case a request reaches a server nevertheless.
const noCredential = "penstock-has-no-key"

func withCredential(r store.Reader, p *model.Pool, policy *v1alpha1.PoolPolicy) {
	if policy == nil || policy.Spec.UpstreamCredential == nil {
		return
	}
	spec := policy.Spec.UpstreamCredential
	id := model.SecretID{Kind: model.CredentialSecret, Namespace: policy.Namespace, Name: policy.Name}
	p.Credential = &model.Credential{Secret: id.String(), Header: cmp.Or(spec.Header, "authorization")}
	if _, problem, fix := access.TokenOf(r, store.PoolPolicies.Ref(policy), spec.SecretRef); problem != "" {
		p.Credential.Missing = true
		p.Findings = append(p.Findings, errorOn(store.PoolPolicies.Ref(policy), fieldCredential,
			fmt.Sprintf("%s: requests to the pool's servers are answered with 503", problem), fix))
	}
}

// Credential returns the SDS secret with the key of a PoolPolicy ("namespace/name") for the pool's
// servers.
func Credential(r store.Reader, key string) (*model.Secret, bool) {
	policy, ok := store.PoolPolicies.Get(r, key)
	if !ok || policy.Spec.UpstreamCredential == nil {
		return nil, false
	}
	id := model.SecretID{Kind: model.CredentialSecret, Namespace: policy.Namespace, Name: policy.Name}
	owner := store.PoolPolicies.Ref(policy)
	token, problem, _ := access.TokenOf(r, owner, policy.Spec.UpstreamCredential.SecretRef)
	if problem != "" {
		token = noCredential
	}
	return &model.Secret{Name: id.String(), Token: []byte(token), Owners: []report.Ref{owner}}, true
}

func invalidCredential(findings []report.Finding) bool {
	return slices.ContainsFunc(findings, func(f report.Finding) bool { return f.Field == fieldCredential })
}
