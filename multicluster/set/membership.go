package set

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/translator/certificates"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	certifyTimeout = 10 * time.Second
	// certifyInterval bounds the delay of a certificate of a new CA, which members have trusted for
	// days.
	certifyInterval = 30 * time.Second
)

// certify keeps the certificate that Gateways present to members up to date, until ctx ends.
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
	cert, name := s.link.certificate, s.adopted.name
	s.mu.Unlock()
	if s.link.authority.Current(cert) {
		return nil
	}
	id, err := url.Parse(model.GatewayURI(name))
	if err != nil {
		return err
	}
	next, err := s.link.authority.Certify(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	first := len(s.link.certificate.Cert) == 0
	s.link.certificate = next
	s.mu.Unlock()
	err = s.publishMembership()
	if first {
		close(s.signals.certified)
	}
	return err
}

// AwaitCertificate waits, at most certifyTimeout, for the certificate that Gateways present to
// members. Call it before serving Envoys, which would lose connections to peer listeners without
// it.
func (s *Set) AwaitCertificate(ctx context.Context) {
	s.mu.Lock()
	alone := s.adopted.spec == nil || len(s.adopted.spec.Spec.Members) == 0
	s.mu.Unlock()
	if alone {
		return
	}
	timeout := time.NewTimer(certifyTimeout)
	defer timeout.Stop()
	select {
	case <-s.signals.certified:
	case <-ctx.Done():
	case <-timeout.C:
		s.cfg.Log.Warn("serving without the certificate that Gateways present to members: the authority cannot be read")
	}
}

func (s *Set) publishMembership() error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.mu.Lock()
	spec, pair, name := s.adopted.spec, s.link.certificate.Pair, s.adopted.name
	s.mu.Unlock()
	op := store.Memberships.Delete(store.OwnMembership)
	var next *store.Membership
	var members []store.Member
	var findings []report.Finding
	if spec != nil {
		members, findings = s.trustedMembers(spec)
	}
	s.reportUntrusted(findings)
	if spec != nil && len(pair.Cert) > 0 {
		next = &store.Membership{
			ObjectMeta: metav1.ObjectMeta{Name: store.OwnMembership}, Set: spec.Name, Cluster: name,
			Region: spec.Spec.Region, Zone: spec.Spec.Zone,
			Chain: pair.Cert, Key: pair.Key, Members: members, Names: otherNames(spec, name),
		}
		if l := spec.Spec.PeerListener; l != nil {
			next.PeerPort = uint16(l.Port)
		}
		op = store.Memberships.Put(next)
	}
	if old, ok := store.Memberships.Get(s.cfg.Store.View(), store.OwnMembership); ok == (next != nil) &&
		(!ok || sameMembership(old, next)) {
		return nil
	}
	_, err := s.cfg.Store.Apply(op)
	return err
}

func (s *Set) reportUntrusted(findings []report.Finding) {
	s.mu.Lock()
	same := slices.Equal(s.problems.untrusted, findings)
	s.problems.untrusted = findings
	s.mu.Unlock()
	if !same {
		s.report()
	}
}

func sameMembership(a, b *store.Membership) bool {
	next := *b
	next.ObjectMeta = a.ObjectMeta
	return equality.Semantic.DeepEqual(a, &next)
}

func otherNames(set *v1alpha1.ClusterSet, own string) []string {
	names := slices.DeleteFunc(memberNames(set), func(name string) bool { return name == own })
	slices.Sort(names)
	return names
}

func (s *Set) trustedMembers(set *v1alpha1.ClusterSet) (out []store.Member, findings []report.Finding) {
	now, share := s.now(), certificates.Share(len(set.Spec.Members))
	for i, m := range set.Spec.Members {
		if !exchanges(&m) || m.Name == s.adopted.name || slices.ContainsFunc(out,
			func(o store.Member) bool { return o.Name == m.Name }) {
			continue
		}
		var published []byte
		if known, ok := s.registry.Member(m.Name); ok {
			published = known.Bundle
		}
		written := []byte(m.Peer.Bundle)
		published, _ = bytes.CutPrefix(federation.TrustedBundle(written, published), written)
		bundle, problems := certificates.Select(now, share, written, published)
		findings = append(findings, untrusted(store.ClusterSets.Ref(set), i, &m, problems, now)...)
		if len(bundle) > 0 {
			out = append(out, store.Member{Name: m.Name, Bundle: bundle, Identities: identities(m.Allow.Identities)})
		}
	}
	slices.SortFunc(out, func(a, b store.Member) int { return strings.Compare(a.Name, b.Name) })
	return out, findings
}

func identities(list []v1alpha1.Identity) (out []string) {
	for _, part := range list {
		out = append(out, string(part))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const maxUntrusted = 4

func untrusted(
	owner report.Ref, i int, m *v1alpha1.ClusterSetMember, problems [][]error, now time.Time,
) (out []report.Finding) {
	if CheckBundle(m.Peer.Bundle, now) != nil {
		problems[0] = nil
	}
	field := fmt.Sprintf("spec.members[%d]", i)
	for source, list := range problems {
		at, what := field+".peer.bundle", "its bundle"
		fix := "run `penstock clusters show` there, and `penstock clusters join` here"
		if source > 0 {
			at, what, fix = field, "a certificate that it publishes", "have its authority issued anew there"
		}
		for n, problem := range list {
			text := fmt.Sprintf("member %s: %s does not vouch for it: %v", m.Name, what, problem)
			if more := len(list) - maxUntrusted; n == maxUntrusted-1 && more > 0 {
				text += fmt.Sprintf(" (and %d others)", more)
			}
			out = append(out, report.Finding{Severity: report.Error, Owner: owner, Field: at, Fix: fix, Problem: text})
			if n == maxUntrusted-1 {
				break
			}
		}
	}
	return out
}

func (s *Set) republish() {
	if err := errors.Join(s.publishMembership(), s.publishExports()); err != nil {
		s.cfg.Log.Error("members and exports cannot be stored for Gateways", "error", err)
	}
}

func (s *Set) bundles(updates []registry.Update) (out [][]byte) {
	for _, u := range updates {
		known, _ := s.registry.Member(u.Member)
		out = append(out, known.Bundle)
	}
	return out
}

func (s *Set) next() (time.Duration, bool) {
	wait, ok := s.registry.Next()
	if w, also := s.nextExport(); also && (!ok || w < wait) {
		wait, ok = w, true
	}
	return wait, ok
}
