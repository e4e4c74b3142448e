package clusterset

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	// certifyTimeout bounds how long a process that starts waits for the first certificate: some reads of the authority's Secret.
	certifyTimeout = 10 * time.Second
	// certifyInterval is how late Gateways get a certificate of another authority, which members have trusted for days.
	certifyInterval = 30 * time.Second
)

// certify keeps the certificate that this cluster's Gateways present to members up to date until ctx ends. Each process
// makes its own, and gives it to the proxies that it serves.
func (s *Set) certify(ctx context.Context) error {
	tick := time.NewTicker(certifyInterval)
	defer tick.Stop()
	for {
		if err := s.certifyNow(); err != nil {
			s.cfg.Log.Warn("the certificate that Gateways present to members is not up to date; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (s *Set) certifyNow() error {
	s.mu.Lock()
	is, name := s.certificate, s.name
	s.mu.Unlock()
	if s.authority.Current(is) {
		return nil
	}
	id, err := url.Parse(model.GatewayURI(name))
	if err != nil {
		return err
	}
	next, err := s.authority.Certify(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	first := len(s.certificate.Cert) == 0
	s.certificate = next
	s.mu.Unlock()
	err = s.publishMembership()
	if first {
		close(s.certified)
	}
	return err
}

// AwaitCertificate returns once this cluster's Gateways have a certificate, if there are members, or after certifyTimeout. Without one, proxies that another
// process served before would lose their peer listener, and the way to those of members. It is called before any proxy is answered.
func (s *Set) AwaitCertificate(ctx context.Context) {
	s.mu.Lock()
	alone := s.spec == nil || len(s.spec.Spec.Members) == 0
	s.mu.Unlock()
	if alone {
		return
	}
	timeout := time.NewTimer(certifyTimeout)
	defer timeout.Stop()
	select {
	case <-s.certified:
	case <-ctx.Done():
	case <-timeout.C:
		s.cfg.Log.Warn("serving without the certificate that Gateways present to members: the authority cannot be read")
	}
}

// publishMembership writes what translation needs of the ClusterSet.
func (s *Set) publishMembership() error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.mu.Lock()
	spec, pair, name := s.spec, s.certificate.Pair, s.name
	s.mu.Unlock()
	op := store.Memberships.Delete(store.OwnMembership)
	var is *store.Membership
	if spec != nil && len(pair.Cert) > 0 {
		is = &store.Membership{ObjectMeta: metav1.ObjectMeta{Name: store.OwnMembership}, Cluster: name, Region: spec.Spec.Region, Zone: spec.Spec.Zone, Chain: pair.Cert, Key: pair.Key, Members: s.trustedMembers(spec), Names: otherNames(spec, name)}
		if l := spec.Spec.PeerListener; l != nil {
			is.PeerPort = uint16(l.Port)
		}
		op = store.Memberships.Put(is)
	}
	if old, ok := store.Memberships.Get(s.cfg.Store.View(), store.OwnMembership); ok == (is != nil) && (!ok || sameMembership(old, is)) {
		return nil
	}
	_, err := s.cfg.Store.Apply(op)
	return err
}

func sameMembership(a, b *store.Membership) bool {
	return a.Cluster == b.Cluster && a.Region == b.Region && a.Zone == b.Zone && a.PeerPort == b.PeerPort && bytes.Equal(a.Chain, b.Chain) && bytes.Equal(a.Key, b.Key) && reflect.DeepEqual(a.Members, b.Members) && slices.Equal(a.Names, b.Names)
}

// otherNames are the names of the other clusters of a set, sorted.
func otherNames(set *v1alpha1.ClusterSet, own string) (out []string) {
	for _, m := range set.Spec.Members {
		if m.Name != own {
			out = append(out, m.Name)
		}
	}
	slices.Sort(out)
	return out
}

// trustedMembers are the members with a valid certificate in their bundles, sorted.
func (s *Set) trustedMembers(set *v1alpha1.ClusterSet) (out []store.Member) {
	for _, m := range set.Spec.Members {
		if !exchanges(&m) || m.Name == s.name || slices.ContainsFunc(out, func(o store.Member) bool { return o.Name == m.Name }) {
			continue
		}
		var published []byte
		if is, ok := s.registry.Member(m.Name); ok {
			published = is.Bundle
		}
		if bundle := authorities(federation.TrustedBundle([]byte(m.Peer.Bundle), published)); len(bundle) > 0 {
			out = append(out, store.Member{Name: m.Name, Bundle: bundle})
		}
	}
	slices.SortFunc(out, func(a, b store.Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// authorities are the CA certificates of a bundle, each once. Envoy would reject a bundle with anything else, and with it those of all members.
func authorities(bundle []byte) (out []byte) {
	var seen [][]byte
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return out
		}
		one := pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
		list, err := certificates(string(one))
		if err != nil || !list[0].IsCA || slices.ContainsFunc(seen, func(raw []byte) bool { return bytes.Equal(raw, list[0].Raw) }) {
			continue
		}
		seen = append(seen, list[0].Raw)
		out = append(out, one...)
	}
}

// republish writes what translation needs of the cluster set again.
func (s *Set) republish() {
	if err := errors.Join(s.publishMembership(), s.publishExports()); err != nil {
		s.cfg.Log.Error("what Gateways need of the cluster set cannot be stored", "error", err)
	}
}

// bundles are those that the members of some updates have published.
func (s *Set) bundles(updates []registry.Update) (out [][]byte) {
	for _, u := range updates {
		is, _ := s.registry.Member(u.Member)
		out = append(out, is.Bundle)
	}
	return out
}

// next is how long it takes until something expires.
func (s *Set) next() (time.Duration, bool) {
	wait, ok := s.registry.Next()
	if w, also := s.nextExport(); also && (!ok || w < wait) {
		wait, ok = w, true
	}
	return wait, ok
}
