package main

import (
	"bytes"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/penstock-project/penstock/xds/resource"
)

func TestDiff_PrivateKeyIsNeverPrinted(t *testing.T) {
	side := func(key string) map[place]*resource.Resource {
		source := func(s string) *corev3.DataSource {
			return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
		}
		r, err := resource.New(resource.Secret, "secret/default/cert",
			&tlsv3.Secret{Name: "secret/default/cert", Type: &tlsv3.Secret_TlsCertificate{
				TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: source("a chain"), PrivateKey: source(key)},
			}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return map[place]*resource.Resource{{"default/gw", r.Ref}: r}
	}
	list, err := compare(side("one key"), side("another key"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printDiff(&out, list); err != nil {
		t.Fatal(err)
	}
	if err := printDifferences(&out, list); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "A private key or another credential differs.") ||
		strings.Contains(got, "one key") || strings.Contains(got, "another key") {
		t.Errorf("got %s, want that a credential differs, without its value", got)
	}
}
