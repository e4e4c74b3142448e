package set

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/authority"
)

// authorityPEM returns a CA certificate with a name. Envoy cannot read a certificate whose name has
// U+FFFF.
func authorityPEM(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Each Gateway has one Secret with the CA certificates of all members. Envoy would reject the whole
// Secret because of one certificate. So such a certificate must not get into the Secret from any
// source.
func TestMemberTrust_CertificateThatEnvoyCannotReadIsAFindingAndDoesNotEnter(t *testing.T) {
	good, other, published := authorityPEM(t, "east"), authorityPEM(t, "west"), authorityPEM(t, "west, renewed")
	bad := authorityPEM(t, "west \uffff")
	join := func(list ...[]byte) []byte { return bytes.Join(list, nil) }
	kept := func(bundle, published []byte) []byte { // returns a published bundle as federation stores it
		return append(fmt.Appendf(nil, "Published under %x\n", sha256.Sum256(bundle)), published...)
	}
	for _, c := range []struct {
		name              string
		written, received []byte
		field             string
		want              []byte // expected bundle of member west
	}{
		{"published", other, join(published, bad), "spec.members[1]", join(other, published)},
		{"in the ClusterSet", join(other, bad), published, "spec.members[1].peer.bundle", join(other, published)},
		{"alone", bad, nil, "spec.members[1].peer.bundle", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			board := &lastBoard{}
			s := New(Config{Store: store.New(), Board: board, Log: slog.New(slog.DiscardHandler)})
			s.adopted.name, s.adopted.named = "here", "here"
			s.link.certificate.Pair = authority.Pair{Cert: good, Key: []byte("key")}
			s.adopted.spec = &v1alpha1.ClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}}
			s.adopted.spec.Spec = v1alpha1.ClusterSetSpec{Cluster: "here", Members: []v1alpha1.ClusterSetMember{
				{Name: "east", Peer: &v1alpha1.ClusterSetPeer{Address: "east:1", Bundle: string(good)}},
				{Name: "west", Peer: &v1alpha1.ClusterSetPeer{Address: "west:1", Bundle: string(c.written)}},
			}}
			s.registry.SetMembers([]string{"east", "west"})
			s.registry.Restore([]registry.Record{{ // as after a restart of this process
				RecordID: registry.RecordID{Cluster: "west"}, UID: "uid", Stamp: registry.Stamp{Epoch: 1, Sequence: 1},
				Bundle: kept(c.written, c.received),
			}})
			if err := s.publishMembership(); err != nil {
				t.Fatal(err)
			}
			m, _ := store.Memberships.Get(s.cfg.Store.View(), store.OwnMembership)
			got := map[string]string{}
			for _, member := range m.Members {
				got[member.Name] = string(member.Bundle)
			}
			want := map[string]string{"east": string(good)}
			if c.want != nil {
				want["west"] = string(c.want)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("trusted: %v\nwant: %v", got, want)
			}
			s.report()
			var found []string
			for _, r := range board.last {
				for _, f := range r.Findings {
					if strings.Contains(f.Problem, "cannot be read by Envoy") {
						found = append(found, f.Field)
						if f.Owner.Name != "set" || !strings.HasPrefix(f.Problem, "member west: ") || f.Fix == "" {
							t.Errorf("got %+v, want member west: of set, with a fix", f)
						}
					}
				}
			}
			if len(found) != 1 || found[0] != c.field {
				t.Errorf("findings about %q, want one about %s", found, c.field)
			}
		})
	}
}

// Status has the bundle that a member published, for `penstock clusters join`. If an operator has
// replaced the member's bundle in the ClusterSet since then, Status omits the published bundle.
func TestClusterSet_StatusShowsWhatAMemberHasPublished(t *testing.T) {
	spec := &v1alpha1.ClusterSet{}
	spec.Spec.Members = []v1alpha1.ClusterSetMember{
		{Name: "east", Peer: &v1alpha1.ClusterSetPeer{Bundle: "A"}}, {Name: "hub"},
	}
	kept := func(under, published string) []byte {
		return append(fmt.Appendf(nil, "Published under %x\n", sha256.Sum256([]byte(under))), published...)
	}
	for name, c := range map[string]struct {
		member *registry.Member
		want   string
	}{
		"published":            {&registry.Member{Name: "east", Bundle: kept("A", "B")}, "B"},
		"under another bundle": {&registry.Member{Name: "east", Bundle: kept("C", "B")}, ""},
		"nothing":              {&registry.Member{Name: "east"}, ""},
		"a hub's":              {&registry.Member{Name: "hub", Bundle: kept("A", "B")}, ""},
		"no member":            {&registry.Member{Name: "west", Bundle: kept("A", "B")}, ""},
	} {
		got, under := publishedBundle(spec, c.member)
		if got = strings.TrimSpace(got); got != c.want || (under == Fingerprint("A")) != (c.want != "") {
			t.Errorf("%s: got %q under %q, want %q", name, got, under, c.want)
		}
	}
	if got, _ := publishedBundle(nil, &registry.Member{Name: "east"}); got != "" {
		t.Errorf("without a ClusterSet: got %q, want none", got)
	}
}
