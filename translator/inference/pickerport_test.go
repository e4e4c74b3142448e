package inference_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/inference"
)

func secretOf(namespace, name string, data map[string]string) string {
	text, _ := json.Marshal(data)
	return fmt.Sprintf("\n---\nkind: Secret\nmetadata: {namespace: %s, name: %s}\nstringData: %s\n", namespace, name,
		text)
}

// asking returns an import with a picker whose ports for health and metrics need a Secret.
func asking(ref string) string {
	return strings.Replace(llmImport, "endpointPicker: {",
		fmt.Sprintf("endpointPicker: {health: {port: 9003, secretRef: %s}, metrics: {port: 9090, secretRef: %[1]s}, ",
			ref), 1)
}

var (
	verified   = fmt.Sprintf(pickerPolicy, "east.picker", "wellKnownCACertificates: System")
	ownerOfLLM = report.Ref{Group: store.InferencePoolImports.Group(), Kind: store.InferencePoolImports.Kind(),
		Namespace: "default", Name: "llm"}
)

func pair(t *testing.T) (chain, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"gateway.example"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

type credentialCase struct {
	name, ref, more string
	header          string // value of Authorization
	certificate     bool
	problem         string // "" if the port is called
}

func TestSecretRef_CredentialIsForAVerifiedPickerAlone(t *testing.T) {
	chain, key := pair(t)
	const grant = `
---
kind: ReferenceGrant
metadata: {namespace: secrets, name: g}
spec:
  from: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, namespace: default}]
  to: [{group: "", kind: Secret}]
`
	for _, c := range []credentialCase{
		{
			name: "a token", ref: "{name: epp}", more: verified +
				secretOf("default", "epp", map[string]string{"token": "s3cret\n"}), header: "Bearer s3cret",
		},
		{
			name: "a password", ref: "{name: epp}",
			more:   verified + secretOf("default", "epp", map[string]string{"username": "me", "password": "s3cret"}),
			header: "Basic bWU6czNjcmV0",
		},
		{name: "a certificate", ref: "{name: epp}",
			more:        verified + secretOf("default", "epp", map[string]string{"tls.crt": chain, "tls.key": key}),
			certificate: true},
		{name: "a token and a certificate", ref: "{name: epp}",
			more: verified + secretOf("default", "epp",
				map[string]string{"token": "s3cret", "tls.crt": chain, "tls.key": key}), header: "Bearer s3cret",
			certificate: true},
		{name: "a policy for the cluster", ref: "{name: epp}",
			more: fmt.Sprintf(pickerPolicy, "east", "wellKnownCACertificates: System") +
				secretOf("default", "epp", map[string]string{"token": "s3cret"}), header: "Bearer s3cret"},
		{name: "another namespace, with a grant", ref: "{namespace: secrets, name: epp}",
			more:   verified + grant + secretOf("secrets", "epp", map[string]string{"token": "s3cret"}),
			header: "Bearer s3cret"},

		{name: "another namespace", ref: "{namespace: secrets, name: epp}",
			more: verified + secretOf("secrets", "epp", map[string]string{"token": "s3cret"}),
			problem: "no ReferenceGrant in namespace secrets lets InferencePoolImports of namespace default use " +
				"Secret secrets/epp; write that ReferenceGrant, or name a Secret of namespace default"},
		{name: "another namespace, nothing there", ref: "{namespace: secrets, name: epp}", more: verified,
			problem: "no ReferenceGrant in namespace secrets"},
		{name: "not verified", ref: "{name: epp}",
			more: secretOf("default", "epp", map[string]string{"token": "s3cret"}),
			problem: "no BackendTLSPolicy verifies the picker, and a credential is sent over verified TLS only; " +
				"write a BackendTLSPolicy for InferencePoolImport default/llm with sectionName east.picker"},
		{name: "verified by no CA", ref: "{name: epp}",
			more: fmt.Sprintf(pickerPolicy, "east.picker",
				"caCertificateRefs: [{group: \"\", kind: ConfigMap, name: missing}]") +
				secretOf("default", "epp", map[string]string{"token": "s3cret"}),
			problem: "BackendTLSPolicy default/secured has no valid CA certificate, and a credential is sent over " +
				"verified TLS only; correct the policy"},
		{name: "no Secret", ref: "{name: epp}", more: verified,
			problem: "Secret default/epp does not exist; create it, or name another one"},
		{name: "no name", ref: "{}", more: verified, problem: "secretRef has no name"},
		{name: "other keys", ref: "{name: epp}", more: verified +
			secretOf("default", "epp", map[string]string{"user": "me", "password": "s3cret"}),
			problem: "Secret default/epp has neither token, nor username and password, nor tls.crt and tls.key"},
		{
			name: "half a pair", ref: "{name: epp}",
			more:    verified + secretOf("default", "epp", map[string]string{"tls.crt": chain}),
			problem: "Secret default/epp has no tls.key",
		},
		{name: "a token of two lines", ref: "{name: epp}",
			more:    verified + secretOf("default", "epp", map[string]string{"token": "a\nx: b"}),
			problem: "token of Secret default/epp cannot be sent in a header"},
		{
			name: "a colon", ref: "{name: epp}", more: verified +
				secretOf("default", "epp", map[string]string{"username": "a:b", "password": "c"}),
			problem: "username of Secret default/epp has a colon",
		},
		{name: "of a service account", ref: "{name: epp}",
			more: verified + strings.Replace(secretOf("default", "epp", map[string]string{"token": "s3cret"}),
				"kind: Secret", "kind: Secret\ntype: kubernetes.io/service-account-token", 1),
			problem: "Secret default/epp has a token of this cluster's API server, which no other cluster gets"},
	} {
		t.Run(c.name, c.check)
	}
}

func (c *credentialCase) check(t *testing.T) {
	v := world(t, asking(c.ref)+westHost+c.more)
	imp, _ := store.InferencePoolImports.Get(v, "default/llm")
	i := slices.IndexFunc(imp.Status.Clusters,
		func(c inferenceapi.ImportedCluster) bool { return c.Name == "east" })
	p, _, _ := inference.PickerPort(v, ownerOfLLM, "east", imp.Status.Clusters[i].EndpointPicker.Health)
	if asked := p.Port == 9003 && p.TLS != nil && p.TLS.SNI == "epp.example"; asked != (c.problem == "") ||
		p.Authorization != c.header || (p.Key != nil) != c.certificate {
		t.Errorf("port %d, TLS %+v, a header: %t, a certificate: %t; want it asked: %t, and %t, %t",
			p.Port, p.TLS, p.Authorization != "", p.Key != nil, c.problem == "", c.header != "", c.certificate)
	}
	text := texts(inference.PickerPortFindings(v, "default/llm"))
	if strings.Contains(text, "s3cret") || c.problem == "" && text != "" {
		t.Errorf("findings: got %s, want no secret, and none without a problem", text)
	}
	for field, follows := range map[string]string{
		"health": "its health counts as unknown: ", "metrics": "its metrics are not read: ",
	} {
		want := fmt.Sprintf(
			"status.clusters[1].endpointPicker.%s.secretRef: cluster east: the %[1]s port of its picker is "+
				"not asked, and %s%s", field, follows, c.problem)
		if c.problem != "" && !strings.Contains(text, want) {
			t.Errorf("no finding %q in\n%s", want, text)
		}
	}
	all, _ := inference.Import(v, "default/llm")
	rep := inference.ImportReport(all, inference.PickerPortFindings(v, "default/llm"), nil, false)
	if refs := rep.Conditions[1]; (refs.Status == report.False &&
		strings.Contains(refs.Message, "secretRef")) != (c.problem != "") {
		t.Errorf("condition %+v, want False with secretRef: %t", refs, c.problem != "")
	}
}

func TestPickerPort_WithoutASecretRefIsAskedInCleartext(t *testing.T) {
	v := world(t, strings.Replace(llmImport, "endpointPicker: {", "endpointPicker: {health: {port: 9003}, ", 1)+
		westHost+verified)
	imp, _ := store.InferencePoolImports.Get(v, "default/llm")
	if p, problem, _ := inference.PickerPort(v, ownerOfLLM, "east",
		imp.Status.Clusters[1].EndpointPicker.Health); p.Port != 9003 || p.TLS != nil || problem != "" {
		t.Errorf("without a secretRef: got %+v, %s; want port 9003 in cleartext", p, problem)
	}
}
