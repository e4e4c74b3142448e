package access

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/certificates"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

// These are keys in the data of objects that spec.jwt references.
const (
	caKey    = "ca.crt"
	tokenKey = "token"
)

// Issuer has data about a policy's token issuer, from objects in the policy's namespace.
type Issuer struct {
	CA    string // PEM; "" for the system's CAs
	Token string // bearer token for fetching the issuer's keys; "" for none
}

// IssuerOf resolves the references of a policy's jwt. If there are findings, the policy permits no
// token.
func IssuerOf(r store.Reader, p *v1alpha1.AccessPolicy) (out Issuer, findings []report.Finding) {
	if p.Spec.JWT == nil {
		return out, nil
	}
	owner := store.AccessPolicies.Ref(p)
	wrong := func(field, problem, fix string) {
		findings = append(findings, report.Finding{Severity: report.Error, Owner: owner, Field: field,
			Problem: problem + ": no token is let in", Fix: fix})
	}
	for _, field := range nulls(p, "jwt") {
		wrong(field, errNull.Error(), nullFix)
	}
	for i, ref := range p.Spec.JWT.CACertificateRefs {
		at := report.Ref{Kind: store.ConfigMaps.Kind(), Namespace: p.Namespace, Name: ref.Name}
		ca, problem, fix := caOf(r, owner, at)
		if problem != "" {
			wrong(fmt.Sprintf("spec.jwt.caCertificateRefs[%d]", i), problem, fix)
		}
		out.CA += ca
	}
	if ref := p.Spec.JWT.TokenSecretRef; ref != nil {
		var problem, fix string
		if out.Token, problem, fix = TokenOf(r, owner, *ref); problem != "" {
			wrong("spec.jwt.tokenSecretRef", problem, fix)
		}
	}
	return out, findings
}

func caOf(r store.Reader, owner, at report.Ref) (ca, problem, fix string) {
	m, ok := store.ConfigMaps.Get(r, at.Key())
	if !ok {
		return "", gatewayapi.NotExist(r, owner, at), "create it, or name another one"
	}
	data := []byte(m.Data[caKey])
	if len(data) == 0 {
		data = m.BinaryData[caKey]
	}
	var b strings.Builder
	for _, der := range certificates.Blocks(data) {
		if _, err := x509.ParseCertificate(der); err != nil {
			return "", fmt.Sprintf("%s of %s has a certificate that does not parse", caKey, at), "correct it"
		}
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	if b.Len() == 0 {
		return "", fmt.Sprintf("%s has no certificate in %s", at, caKey), "write CA certificates in PEM there"
	}
	return b.String(), "", ""
}

// TokenOf returns the token of a Secret in the owner's namespace, or a problem and its fix.
func TokenOf(r store.Reader, owner report.Ref, ref v1alpha1.AccessObject) (token, problem, fix string) {
	at := report.Ref{Kind: store.Secrets.Kind(), Namespace: owner.Namespace, Name: ref.Name}
	s, ok := store.Secrets.Get(r, at.Key())
	if !ok {
		return "", gatewayapi.NotExist(r, owner, at), "create it, or name another one"
	}
	token = strings.TrimSpace(string(gatewayapi.SecretData(s, tokenKey))) // files end with a newline
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Sprintf("%s has no %s of printable ASCII characters without spaces", at, tokenKey),
			"write the token there"
	}
	return token, "", ""
}
