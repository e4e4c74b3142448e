package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/identity"
)

func callers(s *store.Store) identity.Callers {
	m := membersCalls{s}
	return identity.Callers{Domain: model.PeerDomain, Certificate: m.presented, Verify: m.verify}
}

// believes reports whether a member may state the callers of its requests.
func (a *App) believes(member string) bool {
	m, ok := store.Memberships.Get(a.store.View(), store.OwnMembership)
	return ok && slices.ContainsFunc(m.Members, func(o store.Member) bool {
		return o.Name == member && slices.Contains(o.Identities, string(v1alpha1.IdentityOwner))
	})
}

type membersCalls struct{ store *store.Store }

func (c membersCalls) own() (*store.Membership, error) {
	m, ok := store.Memberships.Get(c.store.View(), store.OwnMembership)
	if !ok || m.PeerPort == 0 {
		return nil, errors.New("this cluster serves no Gateways of members: its ClusterSet has no peerListener")
	}
	return m, nil
}

func (c membersCalls) presented(server string) (*tls.Certificate, error) {
	m, err := c.own()
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(server, "."+m.Cluster+"."+model.PeerDomain) {
		return nil, fmt.Errorf("%.100q is no pool of cluster %s", server, m.Cluster)
	}
	pair, err := tls.X509KeyPair(m.Chain, m.Key)
	if err != nil {
		return nil, fmt.Errorf("the certificate of Gateways: %w", err)
	}
	return &pair, nil
}

// verify accepts a certificate with a member's ID if the CA bundle of that member verifies it.
func (c membersCalls) verify(chain []*x509.Certificate) error {
	m, err := c.own()
	if err != nil {
		return err
	}
	if len(chain) == 0 || len(chain[0].URIs) != 1 {
		return errors.New("a Gateway of a member presents a certificate with one ID")
	}
	id := chain[0].URIs[0].String()
	i := slices.IndexFunc(m.Members, func(o store.Member) bool { return model.GatewayURI(o.Name) == id })
	if i < 0 {
		return fmt.Errorf("%.100q is the ID of no member's Gateway", id)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(m.Members[i].Bundle)
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: clock()(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}
