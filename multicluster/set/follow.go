package set

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

// Change is a change of the store with its translation.
type Change struct {
	View    *store.View
	Objects []store.Change
	// Output has the changed pools and Gateways, and the clusters that translation cannot use.
	Output translator.Output
}

// GatewayMoved decides again whether to export the pools behind a Gateway. Call it after the result
// of Config.GatewayReached changed for the Gateway.
func (s *Set) GatewayMoved(gateway report.Ref) {
	s.local.mu.Lock()
	defer s.local.mu.Unlock()
	if !closed(s.signals.decided) {
		return // the first decision covers all pools
	}
	dirty := map[objectid.Pool]bool{}
	for p, gateways := range s.local.parents {
		if slices.ContainsFunc(gateways, func(g model.ParentGateway) bool { return g.Ref == gateway }) {
			dirty[p] = true
		}
	}
	if len(dirty) > 0 {
		s.decide(s.cfg.Store.View(), dirty, false)
	}
}

func (s *Set) unusable(list []translator.UnusableClusters) (judged []objectid.Pool) {
	for _, u := range list {
		clusters := make(map[string]imports.Unusable, len(u.Clusters))
		for name, u := range u.Clusters {
			clusters[name] = imports.Unusable{Reason: u.Reason, Message: u.Problem}
		}
		judged = append(judged, s.importer.SetUnusable(u.Import, clusters)...)
	}
	return judged
}

// Follow applies a change of the store: it updates the export decisions and the ClusterSet in use.
// Call it after the change is committed to the xDS cache.
func (s *Set) Follow(ctx context.Context, c Change) {
	s.local.mu.Lock()
	defer s.local.mu.Unlock()
	dirty := map[objectid.Pool]bool{}
	again := false
	for _, o := range c.Objects {
		switch o.Table {
		case store.ClusterSets.Kind(), store.ClusterProperties.Kind():
			s.adopt(ctx, c.View)
			again = true
		case store.InferencePools.Kind():
			if p, ok := objectid.ParsePool(o.ID); ok {
				s.noteAnnotations(c.View, p)
				dirty[p] = true
			}
		case store.Services.Kind():
			again = true
		case store.Namespaces.Kind():
			pools := s.exportedTo(o.ID)
			s.keepAgain(pools)
			s.assemble(pools)
		case store.InferencePoolImports.Kind():
			if p, ok := objectid.ParsePool(o.ID); ok {
				s.assemble(s.retaken(c.View, p))
			}
		case store.Pods.Kind():
			for _, k := range o.Keys {
				if k.Index == store.ByLabel {
					for _, service := range s.local.nodePods[k.Key] {
						s.askedAt(service, dirty)
					}
				}
			}
		case store.EndpointSlices.Kind():
			for _, k := range o.Keys {
				if k.Index == store.ByService {
					again = again || k.Key == s.cfg.PickerService
					s.askedAt(k.Key, dirty)
				}
			}
		}
	}
	for _, p := range c.Output.Pools {
		if id := p.Pool.Name; !id.Imported() {
			s.local.pools[id.Pool] = export.Pool{Endpoints: endpoints(p.Members), FailOpen: p.Pool.FailOpen}
			dirty[id.Pool] = true
		}
	}
	for _, p := range c.Output.Parents {
		s.local.parents[p.Pool] = p.Gateways
		dirty[p.Pool] = true
	}
	for _, id := range c.Output.PoolsGone {
		if !id.Imported() {
			delete(s.local.pools, id.Pool)
			delete(s.local.parents, id.Pool)
		}
	}
	s.assemble(s.unusable(c.Output.Unusable))
	s.due.running.Lock()
	s.place(s.due.translated(c.View.Revision()))
	s.due.running.Unlock()
	s.decide(c.View, dirty, again)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link.federation != nil && s.adopted.spec != nil && !closed(s.signals.decided) {
		close(s.signals.decided)
	}
}

func (s *Set) retaken(r store.Reader, p objectid.Pool) []objectid.Pool {
	taken := imports.Taken(r, p)
	if slices.Equal(taken, s.local.taken[p]) {
		return nil
	}
	if s.local.taken[p] = taken; len(taken) == 0 {
		delete(s.local.taken, p)
	}
	if !s.registry.Exported(p) {
		return nil
	}
	return []objectid.Pool{p}
}

func (s *Set) noteAnnotations(r store.Reader, p objectid.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pool, ok := store.InferencePools.Get(r, p.String()); ok && export.Annotated(pool) {
		s.local.annotated[p] = true
	} else {
		delete(s.local.annotated, p)
	}
}

func (s *Set) askedAt(service string, dirty map[objectid.Pool]bool) {
	namespace, name, _ := objectid.Split(service)
	for key, d := range s.local.decisions {
		if d.Pool.Namespace != namespace {
			continue
		}
		if e := d.Export; e == nil && d.Asked || e != nil && e.Entry.EndpointPicker != nil &&
			e.Entry.EndpointPicker.Name == name {
			dirty[key] = true
		}
	}
}

func (s *Set) readServices(r store.Reader) {
	if s.cfg.Services == nil {
		return
	}
	var keys []string
	if s.cfg.PickerService != "" {
		keys = append(keys, s.cfg.PickerService)
	}
	s.mu.Lock()
	annotated := slices.SortedFunc(maps.Keys(s.local.annotated), objectid.Pool.Compare)
	s.mu.Unlock()
	for _, p := range annotated {
		if pool, ok := store.InferencePools.Get(r, p.String()); ok && pool.Spec.EndpointPickerRef != nil {
			keys = append(keys, objectid.Join(p.Namespace, string(pool.Spec.EndpointPickerRef.Name)))
		}
	}
	pods := map[string][]string{}
	for _, key := range keys {
		if svc, ok := store.Services.Get(r, key); ok {
			if label := export.NodePods(svc); label != "" {
				pods[label] = append(pods[label], key)
			}
		}
	}
	if !slices.Equal(keys, s.local.services) || !maps.EqualFunc(pods, s.local.nodePods, slices.Equal) {
		s.local.services, s.local.nodePods = keys, pods
		s.cfg.Services(keys, slices.Sorted(maps.Keys(pods)))
	}
}

func (s *Set) decide(r store.Reader, dirty map[objectid.Pool]bool, again bool) {
	s.mu.Lock()
	spec, f := s.adopted.spec, s.link.federation
	cfg := export.Config{Cluster: s.adopted.name, Pickers: s.cfg.Pickers, Cleartext: s.cfg.Cleartext,
		Offers: s.cfg.Offers}
	s.mu.Unlock()
	if spec == nil || f == nil {
		s.checkAlone(r, spec)
		return
	}
	s.readServices(r)
	if s.cfg.PickersOf != nil {
		cfg.Pickers = s.cfg.PickersOf(r)
	}
	if cfg.MembersPick = s.cfg.MembersPick; cfg.MembersPick && spec.Spec.PeerListener == nil {
		cfg.Pickers = nil // a pick would need the key of a Gateway of this cluster
	}
	cfg.PodCIDRs, cfg.PeerListener, cfg.Region, cfg.Zone = spec.Spec.PodCIDRs, spec.Spec.PeerListener != nil,
		spec.Spec.Region, spec.Spec.Zone
	cfg.Members = memberNames(spec)
	changed := again
	for key := range dirty {
		_, decided := s.local.decisions[key] // a pool without annotations may have an export to withdraw
		changed = changed || s.local.annotated[key] || decided
	}
	if !changed {
		return
	}
	s.mu.Lock()
	for key := range s.local.decisions {
		if !s.local.annotated[key] {
			delete(s.local.decisions, key)
		}
	}
	for key := range s.local.annotated {
		if _, known := s.local.decisions[key]; known && !again && !dirty[key] {
			continue
		}
		pool := s.local.pools[key]
		pool.Gateways = s.gateways(r, s.local.parents[key], spec.Spec.PeerListener)
		pool.Before = s.local.decisions[key].Wish
		if d, ok := export.Decide(r, cfg, key, pool); ok {
			if before := s.local.decisions[key].Export; d.Waiting && before != nil {
				d.Export, d.Findings = before, nil
			}
			s.incarnate(s.local.decisions[key].Export, d.Export)
			s.local.decisions[key] = d
		}
	}
	s.noteExported(cfg.Members)
	exporting := s.noteNamespaces()
	var list []export.Export
	local := map[objectid.Pool]*int32{}
	for _, key := range slices.SortedFunc(maps.Keys(s.local.decisions), objectid.Pool.Compare) {
		if e := s.local.decisions[key].Export; e != nil {
			list = append(list, *e)
			if spec.Spec.Imports == v1alpha1.ImportAll {
				local[e.Pool] = e.Entry.Weight
			}
		}
	}
	s.mu.Unlock()
	if err := s.publishExports(); err != nil {
		s.cfg.Log.Error("the pools that members may use cannot be stored", "error", err)
	}
	if exporting {
		s.writeMember()
	}
	s.wakeUp()
	s.assemble(s.importer.SetLocal(cfg.Cluster, local))
	if s.cfg.Exports != nil {
		s.cfg.Exports(list)
	}
	if err := f.SetExports(list, spec.Spec.Draining); err != nil {
		s.cfg.Log.Error("a pool cannot be exported", "error", err)
	}
	s.report()
}

func (s *Set) checkAlone(r store.Reader, spec *v1alpha1.ClusterSet) {
	s.mu.Lock()
	var alone []report.Report
	if spec == nil {
		for _, key := range slices.SortedFunc(maps.Keys(s.local.annotated), objectid.Pool.Compare) {
			alone = append(alone, annotations(r, key, nil)...)
		}
	}
	same := len(alone) == 0 && len(s.local.alone) == 0
	s.local.alone = alone
	s.mu.Unlock()
	if !same {
		s.report()
	}
}

func (s *Set) adopt(ctx context.Context, r store.Reader) {
	spec := Selected(r)
	s.mu.Lock()
	s.adopted.others, s.adopted.named, s.adopted.findings = others(r, spec), "", nil
	if spec != nil {
		s.adopted.named, s.adopted.findings = nameOf(r, spec)
		if s.adopted.named == "" && s.link.federation == nil {
			s.adopted.others, spec = append(s.adopted.others, nameless(spec, s.adopted.findings)), nil
		}
	}
	s.adopted.spec = spec
	first := spec != nil && s.link.federation == nil
	if first {
		s.begin(s.adopted.named)
	}
	f := s.link.federation
	s.mu.Unlock()
	if f == nil {
		s.report()
		return
	}
	var members []federation.Member
	var allow map[string]v1alpha1.ClusterSetAllow
	if spec != nil {
		members, allow = peers(spec, s.adopted.name)
	}
	changed := s.registry.SetMembers(slices.Collect(maps.Keys(allow)))
	if spec == nil {
		changed = append(changed, s.importer.SetLocal("", nil)...)
	}
	if first {
		changed = append(changed, s.registry.Restore(s.load(ctx))...)
		// Once the restored records are Offers, Run may connect and save.
		defer close(s.signals.begun)
	}
	for i, m := range members {
		if known, ok := s.registry.Member(m.Name); ok {
			members[i].Published = known.Bundle
		}
	}
	f.SetMembers(members)
	s.republish()
	s.assemble(append(changed, s.importer.SetAllow(allow)...))
	s.report()
	s.wakeUp()
}

func exchanges(m *v1alpha1.ClusterSetMember) bool {
	return m.Peer != nil && m.Peer.Address != "" && !m.Peer.Hub
}

// peers returns the members that exchange exports with this cluster, and their limits by name.
func peers(set *v1alpha1.ClusterSet, cluster string) (
	out []federation.Member, allow map[string]v1alpha1.ClusterSetAllow,
) {
	allow = map[string]v1alpha1.ClusterSetAllow{}
	for i := range set.Spec.Members {
		if m := &set.Spec.Members[i]; m.Name != cluster && exchanges(m) {
			out = append(out, federation.Member{Name: m.Name, Address: m.Peer.Address, Bundle: []byte(m.Peer.Bundle)})
			allow[m.Name] = m.Allow
		}
	}
	return out, allow
}

func memberNames(set *v1alpha1.ClusterSet) (names []string) {
	for i := range set.Spec.Members {
		names = append(names, set.Spec.Members[i].Name)
	}
	return names
}

func endpoints(members []model.Member) (out []netip.AddrPort) {
	for _, m := range members {
		if !m.Draining {
			out = append(out, m.Address)
		}
	}
	return out
}

const source = status.Members

const reportDebounce = 20 * time.Millisecond

func (s *Set) reportSoon() { signal(s.signals.reportable) }

func (s *Set) reports(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.signals.reportable:
		}
		s.report()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reportDebounce):
		}
	}
}

func (s *Set) report() {
	s.reporting.Lock() // the report that is stored last must be the newest
	defer s.reporting.Unlock()
	s.mu.Lock()
	spec := s.adopted.spec
	var reports []report.Report
	if spec != nil {
		reports = append(reports, s.setReport(spec))
	}
	if reports = append(reports, s.adopted.others...); spec == nil {
		reports = append(reports, s.local.alone...)
	}
	decisions := s.sortedDecisions()
	s.mu.Unlock()
	for _, d := range decisions {
		rep := report.Report{Owner: store.RefOf(store.InferencePools, d.Pool.String()), Findings: d.Findings}
		if d.Asked && spec != nil {
			rep.Parents = []report.Parent{{
				Ref: report.ParentRef{Group: store.InferencePoolImports.Group(),
					Kind: store.InferencePoolImports.Kind(), Namespace: d.Pool.Namespace, Name: d.Pool.Name},
				Conditions: []report.Condition{
					export.Exported(d, memberNames(spec), s.registry.Placements(nil, d.Pool))},
			}}
		}
		reports = append(reports, rep)
	}
	s.cfg.Board.Replace(source, reports...)
	s.admin.notify()
}

// The caller holds mu.
func (s *Set) sortedDecisions() []export.Decision {
	return slices.SortedFunc(maps.Values(s.local.decisions),
		func(a, b export.Decision) int { return a.Pool.Compare(b.Pool) })
}

// setReport returns the report on the ClusterSet. The caller holds mu.
func (s *Set) setReport(spec *v1alpha1.ClusterSet) report.Report {
	rep := report.Report{Owner: store.ClusterSets.Ref(spec)}
	add := func(severity report.Severity, field, problem, fix string) {
		rep.Findings = append(rep.Findings,
			report.Finding{Severity: severity, Owner: rep.Owner, Field: field, Problem: problem, Fix: fix})
	}
	for i, m := range spec.Spec.Members {
		s.checkMember(&m, func(severity report.Severity, problem, fix string) {
			add(severity, fmt.Sprintf("spec.members[%d]", i), "member "+m.Name+": "+problem, fix)
		})
	}
	rep.Findings = slices.Concat(rep.Findings, s.mistakes(), s.problems.untrusted, overlaps(spec, s.registry.PodCIDRs))
	if s.link.unserved != "" {
		add(report.Error, "spec.cluster", "this cluster publishes nothing to the members: "+s.link.unserved, "")
	}
	if s.problems.damaged != "" && len(s.registry.InState(registry.Ready)) < len(s.registry.Members(nil)) {
		add(report.Warning, "spec.members",
			"some exports that members had before this process started are unknown: "+s.problems.damaged,
			"connect the members that are not Ready, or restore the file and start penstock again")
	}
	rep.Findings = append(rep.Findings, s.adopted.findings...)
	if s.adopted.name != "" && s.adopted.named != s.adopted.name {
		add(report.Warning, "spec.cluster",
			fmt.Sprintf("the name of this cluster is %s until the process ends", s.adopted.name),
			"start penstock again")
	}
	rep.Conditions = []report.Condition{{Type: "Accepted", Status: report.True, Reason: "Accepted",
		Message: summary(rep.Findings)}}
	return rep
}

// The caller holds mu.
func (s *Set) checkMember(m *v1alpha1.ClusterSetMember, add func(severity report.Severity, problem, fix string)) {
	switch {
	case m.Name != s.adopted.name && (m.Kubeconfig != nil || m.ClusterProfile != nil):
		add(report.Info, "it is a member of `penstock hub`, which reads its API server; this process does not use it",
			"to exchange with its Penstock, join it with what `penstock clusters show` prints there")
		return
	case m.Name == s.adopted.name:
		add(report.Error, "it is this cluster itself", "remove it, or correct spec.cluster")
		return
	case !exchanges(m):
		return
	}
	if problem := s.problems.rejected[m.Name]; problem != "" {
		add(report.Error, problem, "")
	}
	if c := s.registry.Count(m.Name); c.Unread > 0 {
		add(report.Error, s.unread(m.Name, c.Unread), "correct them there, or run the same version of Penstock")
	}
	if n := s.importer.Beyond(m.Name); n > 0 {
		add(report.Warning, fmt.Sprintf("%d of its exports are not imported: it exports more pools than "+
			"allow.exports, and others come first by namespace and name", n),
			"raise allow.exports, or export fewer pools there")
	}
	if line := s.unnamed(m.Name); line != "" {
		severity := report.Info
		if len(m.Allow.Namespaces)+len(m.Allow.Pools) == 0 {
			severity = report.Warning
		}
		add(severity, "it exports pools that its allow does not name, and that are not imported",
			"to import them, write for this member: "+line)
	}
	switch known, ok := s.registry.Member(m.Name); {
	case !ok || known.State == registry.Ready:
	case known.State == registry.Draining:
		add(report.Warning, "it is Draining: it takes no new request", "")
	default:
		add(report.Warning, "it is "+string(known.State)+"; its exports stay as they are", "")
	}
}
