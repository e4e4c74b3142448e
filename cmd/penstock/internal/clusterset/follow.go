package clusterset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/translator/model"
)

// Steps implements delivery.Part.
func (s *Set) Steps() []delivery.Step {
	return []delivery.Step{{Stage: delivery.Observe, Deliver: s.follow}}
}

// follow takes a change of the store over.
func (s *Set) follow(_ context.Context, c *delivery.Change) {
	dirty := map[string]bool{}
	again := false // decide on all pools
	for _, o := range c.Objects {
		switch o.Table {
		case store.ClusterSets.Kind():
			s.adopt(c.View)
			again = true
		case store.InferencePools.Kind():
			s.note(c.View, o.ID)
			dirty[o.ID] = true
		case store.Services.Kind():
			again = true
		}
	}
	for _, p := range c.Output.Pools {
		if id := p.Pool.Name; id.Member == "" {
			key := registry.Pool{Namespace: id.Namespace, Name: id.Name}
			s.pools[key] = export.Pool{Endpoints: endpoints(p.Members)}
			dirty[key.Namespace+"/"+key.Name] = true
		}
	}
	for _, id := range c.Output.PoolsGone {
		if id.Member == "" {
			delete(s.pools, registry.Pool{Namespace: id.Namespace, Name: id.Name})
		}
	}
	s.decide(c.View, dirty, again)
}

// note notes whether a pool has an annotation about exports.
func (s *Set) note(r store.Reader, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, ok := store.InferencePools.Get(r, key)
	if ok && asks(pool) {
		s.annotated[key] = true
		return
	}
	delete(s.annotated, key)
}

func asks(pool *inferencev1.InferencePool) bool {
	for _, a := range []string{export.Annotation, export.ModeAnnotation, export.ToAnnotation, export.WeightAnnotation} {
		if _, ok := pool.Annotations[a]; ok {
			return true
		}
	}
	return false
}

// decide decides on the exports of the pools that have changed, and publishes all.
func (s *Set) decide(r store.Reader, dirty map[string]bool, again bool) {
	s.mu.Lock()
	spec, f := s.spec, s.federation
	cfg := export.Config{Cluster: s.name, Pickers: s.cfg.Pickers, Cleartext: s.cfg.Cleartext}
	s.mu.Unlock()
	if spec == nil || f == nil {
		return
	}
	changed := again
	for _, m := range spec.Spec.Members {
		cfg.Members = append(cfg.Members, m.Name)
	}
	for key := range dirty {
		_, decided := s.decisions[key] // and may have to be withdrawn
		changed = changed || s.annotated[key] || decided
	}
	if !changed {
		return
	}
	s.mu.Lock()
	for key := range s.decisions {
		if !s.annotated[key] {
			delete(s.decisions, key)
		}
	}
	for key := range s.annotated {
		if _, known := s.decisions[key]; known && !again && !dirty[key] {
			continue
		}
		namespace, name, _ := strings.Cut(key, "/")
		if d, ok := export.Decide(r, cfg, key, s.pools[registry.Pool{Namespace: namespace, Name: name}]); ok {
			s.decisions[key] = d
		}
	}
	var list []export.Export
	for _, key := range slices.Sorted(maps.Keys(s.decisions)) {
		if e := s.decisions[key].Export; e != nil {
			list = append(list, *e)
		}
	}
	s.mu.Unlock()
	if err := f.SetExports(list, false); err != nil {
		s.cfg.Log.Error("a pool cannot be exported", "error", err)
	}
	s.report()
}

// adopt takes the ClusterSet over: the oldest, or the first by name.
func (s *Set) adopt(r store.Reader) {
	var spec *v1alpha1.ClusterSet
	for _, c := range store.ClusterSets.All(r) {
		if spec == nil || c.CreationTimestamp.Before(&spec.CreationTimestamp) {
			spec = c
		}
	}
	s.mu.Lock()
	s.spec = spec
	if spec != nil && s.federation == nil {
		if err := s.begin(spec.Spec.Cluster, domainOf(spec.Spec.Cluster, "")); err != nil {
			s.cfg.Log.Error("this cluster takes no part in its cluster set", "error", err)
		}
	}
	f := s.federation
	s.mu.Unlock()
	if f == nil {
		return
	}
	var members []federation.Member
	sources, allow := map[string]string{}, map[string]v1alpha1.ClusterSetAllow{}
	if spec != nil {
		for _, m := range spec.Spec.Members {
			if m.Peer == nil || m.Name == s.name {
				continue
			}
			members = append(members, federation.Member{Name: m.Name, Address: m.Peer.Address, TrustDomain: domainOf(m.Name, m.Peer.TrustDomain), Bundle: []byte(m.Peer.Bundle)})
			sources[m.Name], allow[m.Name] = "peer", m.Allow
		}
	}
	changed := s.registry.SetMembers(sources)
	f.SetMembers(members)
	if _, err := s.importer.SetAllow(allow); err != nil {
		s.cfg.Log.Error("exports of members cannot be imported", "error", err)
	}
	s.assemble(changed)
	s.report()
	s.wakeUp()
}

// domainOf is the trust domain of a cluster.
func domainOf(cluster, domain string) string { return cmp.Or(domain, cluster) }

func endpoints(members []model.Member) (out []netip.AddrPort) {
	for _, m := range members {
		if !m.Draining {
			out = append(out, m.Address)
		}
	}
	return out
}

// source of the reports of this package.
const source = status.Members

// report reports on the ClusterSet and on the pools whose export was asked for.
func (s *Set) report() {
	s.mu.Lock()
	spec := s.spec
	var reports []report.Report
	var names []string
	if spec != nil {
		rep := report.Report{Owner: store.ClusterSets.Ref(spec), Conditions: []report.Condition{{Type: "Accepted", Status: report.True, Reason: "Accepted"}}}
		for i, m := range spec.Spec.Members {
			names = append(names, m.Name)
			field := fmt.Sprintf("spec.members[%d]", i)
			add := func(severity report.Severity, problem, fix string) {
				rep.Findings = append(rep.Findings, report.Finding{Severity: severity, Owner: rep.Owner, Field: field, Problem: "member " + m.Name + ": " + problem, Fix: fix})
			}
			if m.Name == s.name {
				add(report.Error, "it is this cluster itself", "remove it, or correct spec.cluster")
				continue
			}
			if problem := s.rejected[m.Name]; problem != "" {
				add(report.Error, "an update of it had no effect: "+problem, "")
			}
			if is, ok := s.registry.Member(m.Name); ok && is.State != registry.Ready {
				add(report.Warning, "it is "+string(is.State)+"; its exports stay as they are", "")
			}
		}
		if s.name != "" && spec.Spec.Cluster != s.name {
			rep.Findings = append(rep.Findings, report.Finding{Severity: report.Warning, Owner: rep.Owner, Field: "spec.cluster", Problem: fmt.Sprintf("the name of this cluster is %s until the process ends", s.name), Fix: "start penstock again"})
		}
		reports = append(reports, rep)
	}
	decisions := slices.SortedFunc(maps.Values(s.decisions), func(a, b export.Decision) int { return a.Pool.Compare(b.Pool) })
	s.mu.Unlock()
	for _, d := range decisions {
		owner := report.Ref{Group: store.InferencePools.Group(), Kind: store.InferencePools.Kind(), Namespace: d.Pool.Namespace, Name: d.Pool.Name}
		rep := report.Report{Owner: owner, Findings: d.Findings}
		if d.Asked && spec != nil {
			rep.Parents = []report.Parent{{
				Ref:        report.ParentRef{Group: store.InferencePoolImports.Group(), Kind: store.InferencePoolImports.Kind(), Namespace: d.Pool.Namespace, Name: d.Pool.Name},
				Conditions: []report.Condition{export.Exported(d, names, s.registry.Placements(nil, d.Pool))},
			}}
		}
		reports = append(reports, rep)
	}
	s.cfg.Board.Replace(source, reports...)
}
