package set

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
)

const noEffect = "an update of it had no effect: "

func (s *Set) denied(member, problem string) {
	s.mu.Lock()
	text := problem + "; run `penstock clusters show` there, and join it again here"
	same := s.problems.rejected[member] == text
	s.problems.rejected[member] = text
	s.mu.Unlock()
	if !same {
		s.report()
	}
}

func (s *Set) now() time.Time {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return time.Now()
}

// mistaken caches findings about a ClusterSet, because computing them decodes all members'
// certificates.
type mistaken struct {
	set  *v1alpha1.ClusterSet
	at   time.Time
	list []report.Finding
}

// mistakesInterval bounds the age of cached findings, because certificates expire.
const mistakesInterval = time.Minute

func (m *mistaken) fresh(set *v1alpha1.ClusterSet, now time.Time) bool {
	return m.set == set && now.Sub(m.at).Abs() < mistakesInterval
}

// The caller holds mu.
func (s *Set) mistakes() []report.Finding {
	if now := s.now(); !s.problems.mistaken.fresh(s.adopted.spec, now) {
		s.problems.mistaken = mistaken{s.adopted.spec, now, mistakes(s.adopted.spec, now)}
	}
	return s.problems.mistaken.list
}

func (s *Set) reportDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.adopted.spec != nil && !s.problems.mistaken.fresh(s.adopted.spec, s.now())
}

func mistakes(set *v1alpha1.ClusterSet, now time.Time) (out []report.Finding) {
	owner := store.ClusterSets.Ref(set)
	addresses := map[string]string{}
	for i, m := range set.Spec.Members {
		add := func(severity report.Severity, field, problem, fix string) {
			out = append(out, report.Finding{Severity: severity, Owner: owner, Fix: fix,
				Field: fmt.Sprintf("spec.members[%d]%s", i, field), Problem: "member " + m.Name + ": " + problem})
		}
		switch {
		case m.Kubeconfig != nil, m.ClusterProfile != nil:
		case m.Peer == nil:
			add(report.Error, "", "it has no peer, and is not used",
				"add the peer that `penstock clusters show` prints there, or, for penstock hub, kubeconfig or "+
					"clusterProfile")
		case m.Peer.Hub:
			add(report.Error, ".peer.hub",
				"no hub relays between Penstocks any more, and the member is not used",
				"remove the member, and join the clusters that it relayed to each other with `penstock clusters "+
					"join`; or use penstock hub with kubeconfig or clusterProfile")
		case m.Peer.Address == "":
			add(report.Error, ".peer.address", "it is missing, and the member is not used",
				"write the address that `penstock clusters show` prints there")
		}
		if m.Draining && m.Peer != nil {
			add(report.Warning, ".draining",
				"it has no effect on a member that has a peer",
				"run `penstock clusters drain` there, and remove the field")
		}
		if len(m.Allow.Identities) > 0 && (m.Peer == nil || set.Spec.PeerListener == nil) {
			add(report.Warning, ".allow.identities",
				"it has no effect, because the member's requests reach no peer listener",
				"add spec.peerListener and the member's peer, or remove the field")
		}
		if m.Peer == nil {
			continue
		}
		if err := CheckBundle(m.Peer.Bundle, now); err != nil {
			add(report.Error, ".peer.bundle", err.Error(),
				"run `penstock clusters show` there, and `penstock clusters join` here")
		}
		if other, taken := addresses[m.Peer.Address]; taken && exchanges(&m) {
			add(report.Error, ".peer.address",
				fmt.Sprintf("%s is the address of member %s too, and one of them is not reached",
					m.Peer.Address, other),
				"write the address that `penstock clusters show` prints there")
		}
		addresses[m.Peer.Address] = m.Name
	}
	return out
}

// Check reports the mistakes in the ClusterSet and in pools' export annotations. It needs no
// running Set.
func Check(r store.Reader, now time.Time) (all []report.Report) {
	spec := Selected(r)
	if spec != nil {
		all = append(all, report.Report{Owner: store.ClusterSets.Ref(spec), Findings: mistakes(spec, now)})
	}
	for _, pool := range store.InferencePools.All(r) {
		if export.Annotated(pool) {
			all = append(all, annotations(r, objectid.PoolOf(pool), spec)...)
		}
	}
	return all
}

// annotations reports mistakes in a pool's export annotations. spec may be nil.
func annotations(r store.Reader, key objectid.Pool, spec *v1alpha1.ClusterSet) []report.Report {
	pool, ok := store.InferencePools.Get(r, key.String())
	if !ok {
		return nil
	}
	var members []string
	if spec != nil {
		members = memberNames(spec)
	}
	return []report.Report{{Owner: store.InferencePools.Ref(pool), Findings: export.Check(pool, spec != nil, members)}}
}

type ranged struct {
	netip.Prefix
	cluster, field string
	place          int
}

// overlaps returns a finding for each pod range that overlaps a range of another cluster: at the
// narrower range or, if both are equal, at the later one. The ClusterSet's ranges for a member
// replace its published ranges.
func overlaps(set *v1alpha1.ClusterSet, published func(member string) []string) []report.Finding {
	var all []ranged
	note := func(cidrs []string, r ranged, numbered bool) {
		field := r.field
		for i, text := range cidrs {
			var err error
			if r.Prefix, err = netip.ParsePrefix(text); err != nil {
				continue // discovery reports an invalid range
			}
			if r.Prefix, r.place = r.Masked(), len(all); numbered {
				r.field = fmt.Sprintf("%s[%d]", field, i)
			}
			all = append(all, r)
		}
	}
	note(set.Spec.PodCIDRs, ranged{cluster: "this cluster", field: "spec.podCIDRs"}, true)
	for i, m := range set.Spec.Members {
		cluster, field := "member "+m.Name, fmt.Sprintf("spec.members[%d]", i)
		if len(m.Allow.PodCIDRs) > 0 {
			note(m.Allow.PodCIDRs, ranged{cluster: cluster, field: field + ".allow.podCIDRs"}, true)
		} else {
			note(published(m.Name), ranged{cluster: cluster, field: field}, false)
		}
	}
	// Two ranges are nested or disjoint. In this order, a range follows all ranges that contain it.
	slices.SortStableFunc(all, func(a, b ranged) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	found := make([]*report.Finding, len(all))
	// around has the widest range that contains r and, within it, the widest range of another
	// cluster.
	var around []ranged
	for _, r := range all {
		for len(around) > 0 && !around[len(around)-1].Overlaps(r.Prefix) {
			around = around[:len(around)-1]
		}
		other := slices.IndexFunc(around, func(o ranged) bool { return o.cluster != r.cluster })
		if other >= 0 {
			o := around[other]
			found[r.place] = &report.Finding{
				Severity: report.Warning, Owner: store.ClusterSets.Ref(set), Field: r.field,
				Problem: fmt.Sprintf("%s of %s overlaps %s of %s (%s): a request may reach a pod of the wrong cluster",
					r.Prefix, r.cluster, o.Prefix, o.cluster, o.field),
				Fix: "give the clusters different pod ranges, or export with " + export.ModeAnnotation +
					": ParentMode",
			}
		}
		if len(around) == 0 || len(around) == 1 && other == 0 {
			around = append(around, r)
		}
	}
	var out []report.Finding
	for _, f := range found {
		if f != nil {
			out = append(out, *f)
		}
	}
	return out
}
