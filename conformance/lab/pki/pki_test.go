package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"testing"
	"time"
)

func TestLab_CertificatesVerifyForClientsAndServers(t *testing.T) {
	now := time.Now()
	ca, err := NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(Subject{Name: "admin", Groups: []string{"system:masters"}, DNS: []string{"kubernetes"},
		IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
	if err != nil {
		t.Fatal(err)
	}
	both, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Certificate)
	for _, name := range []string{"kubernetes", "10.0.0.1"} {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
			if _, err := both.Leaf.Verify(x509.VerifyOptions{
				Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now,
			}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if both.Leaf.Subject.CommonName != "admin" || both.Leaf.Subject.Organization[0] != "system:masters" {
		t.Errorf("subject: got %s, want admin of system:masters", both.Leaf.Subject)
	}
	if other, err := NewAuthority("test", now); err != nil {
		t.Fatal(err)
	} else if err := both.Leaf.CheckSignatureFrom(other.cert); err == nil {
		t.Error("a certificate of another CA was accepted")
	}
}
