package gatewayapi

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/certificates"
)

const caKey = "ca.crt"

type caProblem int

const (
	caFine   caProblem = iota
	caBroken           // no such object, or no certificate in it
	caKind             // unsupported kind
	caDenied           // no ReferenceGrant allows it
)

type trustProblem struct {
	index int
	why   caProblem
	text  string
}

func trust(r store.Reader, from report.Ref, refs []report.Ref) (bundle []byte, problems []trustProblem) {
	for i, ref := range refs {
		certs, why, text := caCertificates(r, from, ref)
		if why != caFine {
			problems = append(problems, trustProblem{i, why, text})
			continue
		}
		for _, c := range certs {
			encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
			if !bytes.Contains(bundle, encoded) {
				bundle = append(bundle, encoded...)
			}
		}
	}
	return bundle, problems
}

func caCertificates(r store.Reader, from, ref report.Ref) ([]*x509.Certificate, caProblem, string) {
	if ref.Group != "" || ref.Kind != "ConfigMap" {
		return nil, caKind,
			fmt.Sprintf("CA certificates of kind %s (%q) are not supported: use a ConfigMap", ref.Kind, ref.Group)
	}
	if !Granted(r, from, ref) {
		return nil, caDenied, noGrant(from, ref)
	}
	m, ok := store.ConfigMaps.Get(r, ref.Key())
	if !ok {
		return nil, caBroken, NotExist(r, from, ref)
	}
	data := []byte(m.Data[caKey])
	if len(data) == 0 {
		data = m.BinaryData[caKey]
	}
	if len(data) == 0 {
		return nil, caBroken, fmt.Sprintf("%s has no %s", ref, caKey)
	}
	var certs []*x509.Certificate
	for _, der := range certificates.Blocks(data) {
		c, err := certificates.Read(der)
		if err != nil {
			return nil, caBroken, fmt.Sprintf("%s: %s has a certificate that Envoy cannot read: %v", ref, caKey, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, caBroken, fmt.Sprintf("%s: %s has no certificate in PEM", ref, caKey)
	}
	return certs, caFine, ""
}
