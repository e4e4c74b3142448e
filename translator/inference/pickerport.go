package inference

import (
	"encoding/base64"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	tokenKey    = "token"
	usernameKey = corev1.BasicAuthUsernameKey
	passwordKey = corev1.BasicAuthPasswordKey
)

// PickerPort returns how to call a port of an exporting cluster's picker. Without a secretRef,
// calls are in cleartext. With a secretRef, they have the Secret's credential, and use TLS that the
// picker's BackendTLSPolicy verifies. If no call is possible, problem and fix describe why; without
// a grant, they disclose nothing about the Secret.
func PickerPort(r store.Reader, owner report.Ref, cluster string, at *inferenceapi.EndpointImport) (p model.PickerPort,
	problem, fix string) {
	switch {
	case at == nil:
		return p, "", ""
	case at.SecretRef == nil:
		return model.PickerPort{Port: uint16(at.Port)}, "", ""
	}
	secret := report.Ref{Kind: store.Secrets.Kind(), Namespace: owner.Namespace, Name: at.SecretRef.Name}
	if at.SecretRef.Namespace != "" {
		secret.Namespace = at.SecretRef.Namespace
	}
	policy := gatewayapi.BackendPolicy(r, model.ImportPickerCluster(owner.Namespace, owner.Name, cluster))
	switch {
	case secret.Name == "":
		return p, "secretRef has no name",
			"name a Secret with a token, with a username and a password, or with tls.crt and tls.key"
	case !gatewayapi.Granted(r, owner, secret):
		return p,
			fmt.Sprintf("no ReferenceGrant in namespace %s lets %ss of namespace %s use %s", secret.Namespace,
				owner.Kind, owner.Namespace, secret),
			fmt.Sprintf("write that ReferenceGrant, or name a Secret of namespace %s", owner.Namespace)
	case policy == nil:
		return p, "no BackendTLSPolicy verifies the picker, and a credential is sent over verified TLS only",
			fmt.Sprintf("write a BackendTLSPolicy for %s with sectionName %s.picker", owner, cluster)
	case !policy.Trusts():
		return p,
			fmt.Sprintf("%s has no valid CA certificate, and a credential is sent over verified TLS only",
				policy.Policy), "correct the policy"
	}
	p = model.PickerPort{Port: uint16(at.Port), TLS: policy.TLS}
	if problem, fix = credential(r, secret, &p); problem != "" {
		return model.PickerPort{}, problem, fix
	}
	return p, "", ""
}

func credential(r store.Reader, ref report.Ref, p *model.PickerPort) (problem, fix string) {
	s, ok := store.Secrets.Get(r, ref.Key())
	if !ok {
		return gatewayapi.NotExist(r, ref, ref), "create it, or name another one"
	}
	if s.Type == corev1.SecretTypeServiceAccountToken {
		return ref.String() + " has a token of this cluster's API server, which no other cluster gets",
			"name a Secret with the credential of the picker's port"
	}
	token, user, password := gatewayapi.SecretData(s, tokenKey), gatewayapi.SecretData(s, usernameKey),
		gatewayapi.SecretData(s, passwordKey)
	switch {
	case len(token) > 0:
		text := strings.TrimSpace(string(token)) // files end with a newline
		if text == "" || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return fmt.Sprintf("%s of %s cannot be sent in a header", tokenKey, ref),
				"write a token of printable ASCII characters, without spaces"
		}
		p.Authorization = "Bearer " + text
	case len(user) > 0 && len(password) > 0:
		if strings.Contains(string(user), ":") { // RFC 7617, section 2
			return fmt.Sprintf("%s of %s has a colon, which no user of HTTP's Basic authentication can have",
				usernameKey, ref), "write another name"
		}
		p.Authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(string(user)+":"+string(password)))
	}
	if len(gatewayapi.SecretData(s, corev1.TLSCertKey))+len(gatewayapi.SecretData(s, corev1.TLSPrivateKeyKey)) > 0 {
		own, problem := gatewayapi.Certificate(r, ref.Namespace, ref.Name)
		if problem != "" {
			return problem, "write a certificate with its key, or remove both"
		}
		p.Chain, p.Key = own.Chain, own.Key
	}
	if p.Authorization == "" && p.Chain == nil {
		return fmt.Sprintf("%s has neither %s, nor %s and %s, nor %s and %s", ref, tokenKey, usernameKey, passwordKey,
				corev1.TLSCertKey, corev1.TLSPrivateKeyKey),
			"write the credential that the picker's port demands under one of these names"
	}
	return "", ""
}

func asksWithSecret(c *inferenceapi.ImportedCluster) bool {
	named := func(at *inferenceapi.EndpointImport) bool { return at != nil && at.SecretRef != nil }
	return c.EndpointPicker != nil && (named(c.EndpointPicker.Health) || named(c.EndpointPicker.Metrics))
}

// PickerPortFindings returns the findings about the credentials of an import's pickers.
func PickerPortFindings(r store.Reader, key string) (out []report.Finding) {
	imp, ok := gatewayapi.Imported(r, key)
	if !ok {
		return nil
	}
	owner := store.InferencePoolImports.Ref(imp)
	for i, c := range imp.Status.Clusters {
		if c.EndpointPicker == nil || c.RoutingMode != inferenceapi.EndpointMode || c.Local {
			continue
		}
		for _, port := range []struct {
			name, follows string
			at            *inferenceapi.EndpointImport
		}{
			{"health", "its health counts as unknown", c.EndpointPicker.Health},
			{"metrics", "its metrics are not read", c.EndpointPicker.Metrics},
		} {
			if _, problem, fix := PickerPort(r, owner, c.Name, port.at); problem != "" {
				out = append(out,
					errorOn(owner, fmt.Sprintf("status.clusters[%d].endpointPicker.%s.secretRef", i, port.name),
						fmt.Sprintf("cluster %s: the %s port of its picker is not asked, and %s: %s", c.Name, port.name,
							port.follows, problem), fix))
			}
		}
	}
	return out
}
