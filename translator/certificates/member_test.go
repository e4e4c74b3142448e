package certificates_test

import (
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/certificates"
)

func TestSelect_OnlyWhatMayVouchEntersTheSecretOfAllMembers(t *testing.T) {
	var bundle []byte
	wrong := 0
	var want [][]byte
	for _, d := range damages(t) {
		if len(want) < 2 || !d.vouches {
			bundle = append(bundle, encodePEM(d.der)...)
		}
		if d.vouches && len(want) < 2 {
			want = append(want, d.der)
		} else if !d.vouches {
			wrong++
		}
	}
	bundle = append(bundle, "no PEM\n"...)
	bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})...)
	headers := map[string]string{"a": "b"}
	bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: headers, Bytes: want[0]})...)
	out, problems := certificates.Select(time.Now(), certificates.Share(1), bundle)
	if string(out) != string(encodePEM(want...)) {
		t.Errorf("got %s\nwant %s", out, encodePEM(want...))
	}
	if len(problems[0]) != wrong+1 {
		t.Errorf("%d problems for %d certificates and a key: %v, want %d",
			len(problems[0]), wrong, problems[0], wrong+1)
	}
}

func TestSelect_AMemberHasItsShareAndTheNewestCount(t *testing.T) {
	key := newKey(t, elliptic.P256())
	now := time.Now()
	issue := func(subject string, age time.Duration, change func(*x509.Certificate)) []byte {
		return authority(t, key, func(c *x509.Certificate) {
			c.Subject, c.NotBefore = pkix.Name{CommonName: subject}, now.Add(-age)
			if change != nil {
				change(c)
			}
		})
	}
	expired := issue("expired", time.Hour, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })
	// Three authorities of Penstock fit into a share, even with 256 members.
	var own [][]byte
	for i := range 3 {
		own = append(own, issue(fmt.Sprintf("penstock %08x", i), time.Duration(i)*time.Hour, func(c *x509.Certificate) {
			c.Subject.SerialNumber = now.UTC().Format(time.RFC3339)
		}))
	}
	share := certificates.Share(256)
	all := encodePEM(own[2], own[1], own[0])
	out, problems := certificates.Select(now, share, encodePEM(expired, own[2]), all)
	if string(out) != string(all) || len(problems[0])+len(problems[1]) > 0 {
		t.Errorf("got problems %v: %s\nwant none, and the three own certificates", problems, out)
	}
	// A long subject leaves no room for an older certificate.
	long := issue(strings.Repeat("x", share-30), 0, nil)
	out, problems = certificates.Select(now, share, encodePEM(own[2]), encodePEM(long))
	if string(out) != string(encodePEM(long)) || len(problems[0]) != 1 || len(problems[1]) != 0 {
		t.Errorf("got problems %v: %s\nwant one of the first, and the long certificate", problems, out)
	}
	var many [][]byte
	for i := range 70 {
		many = append(many, issue("penstock", time.Duration(i)*time.Second, nil))
	}
	out, problems = certificates.Select(now, share, encodePEM(many...))
	if n := strings.Count(string(out), "BEGIN"); n != 8 || len(problems[0]) == 0 {
		t.Errorf("%d certificates of 70, problems %v; want 8, and a problem", n, problems)
	}
	for members := range 257 {
		if total := members * certificates.Share(members); total > 65_535 || certificates.Share(members) < share {
			t.Errorf("%d members have %d bytes of subjects, want at most 65535, and a full share", members, total)
		}
	}
}
