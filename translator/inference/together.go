package inference

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

func takers(imp *model.Import) (out []model.ClusterID) {
	for i := range imp.Members {
		switch m := &imp.Members[i]; {
		case !m.Takes() && m.NotReady == "":
		case m.Pool != nil:
			out = append(out, m.Pool.Last)
		case m.Local:
			out = append(out, m.Cluster)
		default:
			out = append(out, m.Cluster.As(model.LastVariant))
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// together configures one Envoy cluster with a hop to each exporting cluster of the import. Behind
// its hop, an exporting cluster fails closed, because another cluster serves the request. After all
// have failed, a hop to the whole import serves, if the pool of some cluster fails open.
func together(r store.Reader, imp *model.Import, policy *v1alpha1.PoolPolicy) {
	takers := takers(imp)
	if takers == nil {
		return
	}
	ordered(r, imp, policy)
	whole := &model.Pool{Name: objectid.Target{Pool: objectid.Pool{Namespace: imp.Ref.Namespace, Name: imp.Ref.Name}},
		Ref: imp.Ref, Cluster: imp.Cluster, Last: imp.Cluster, Protocol: model.HTTP1}
	addSpill(r, whole, policy)
	imp.Findings, imp.SpillImports = append(imp.Findings, whole.Findings...), whole.SpillImports
	for _, s := range whole.Spill {
		if !slices.ContainsFunc(s.Ends(), func(b model.WeightedBackend) bool {
			return slices.Contains(takers, b.Cluster.As(model.LastVariant)) || slices.Contains(takers, b.Cluster)
		}) {
			imp.Spill = append(imp.Spill, s)
		}
	}
	// If the picker chooses the hop, the spill targets keep their order.
	if len(imp.Spill) > 1 && !imp.Order.InOrder && imp.Choice == nil {
		imp.Findings = append(imp.Findings, infoOn(store.PoolPolicies.Ref(policy), "spec.spill",
			fmt.Sprintf("%s has several clusters: the places where it spills are tried in any order", imp.Ref), ""))
	}
	imp.Spill = append(imp.Spill, failingOpen(r, imp, policy)...)
}

func ordered(r store.Reader, imp *model.Import, policy *v1alpha1.PoolPolicy) {
	imp.Cluster = model.MembersCluster(imp.Ref.Namespace, imp.Ref.Name)
	prioritize(r, imp, policy)
	choose(imp, policy)
	if policy != nil {
		has := func(c v1alpha1.RetryCause) bool { return slices.Contains(policy.Spec.RetryOn, c) }
		imp.RetryOn = model.RetryOn{Full: has(v1alpha1.RetryTooManyRequests),
			Unavailable: has(v1alpha1.RetryServiceUnavailable), LostGateway: has(v1alpha1.RetryLostGateway)}
	}
}

// failingOpen returns a hop to the whole import for requests that failed at all clusters. If the
// policy retries servers' answers, there is no such hop, because a server that answered would get
// the request again.
func failingOpen(r store.Reader, imp *model.Import, policy *v1alpha1.PoolPolicy) []model.Spill {
	if !slices.ContainsFunc(imp.Members, func(m model.ImportMember) bool {
		return m.Takes() && m.Pool != nil && m.Pool.FailOpen
	}) {
		return nil
	}
	if imp.RetryOn.Full || imp.RetryOn.Unavailable {
		imp.Findings = append(imp.Findings, infoOn(store.PoolPolicies.Ref(policy), "spec.retryOn",
			fmt.Sprintf(
				"with it, failureMode FailOpen has no effect on %s while several clusters take requests: no "+
					"cluster is asked again once its servers have answered", imp.Ref), ""))
		return nil
	}
	open := model.HopTo(imp.Ref.Kind, imp.Ref.Namespace, imp.Ref.Name)
	open.Member = model.AnyMember
	h, ok := Hop(r, open)
	if !ok {
		return nil
	}
	return []model.Spill{
		{Hop: open, Target: store.TargetOf(imp.Ref), Owner: imp.Ref,
			Backends: h.Backends},
	}
}

// SpilledTo returns an import with several exporting clusters as a spill target. The result has
// neither this cluster nor the import's spill targets, so that no request loops.
func SpilledTo(r store.Reader, key string) (*model.Import, bool) {
	imp, policy, _, ok := baseImport(r, key)
	if !ok {
		return nil, false
	}
	imp.Members = slices.DeleteFunc(imp.Members, func(m model.ImportMember) bool { return m.Local })
	if takers(imp) == nil {
		return nil, false
	}
	imp.Ordered = priority(policy)
	ordered(r, imp, policy)
	imp.Cluster = imp.Cluster.As(model.LastVariant)
	imp.Spill = failingOpen(r, imp, policy)
	return imp, true
}

func priority(policy *v1alpha1.PoolPolicy) bool {
	return policy != nil && policy.Spec.Selection != nil && policy.Spec.Selection.Policy == v1alpha1.SelectPriority
}

func choose(imp *model.Import, policy *v1alpha1.PoolPolicy) {
	if !chooses(policy) {
		return
	}
	s := policy.Spec.Selection
	latency := s.Policy == v1alpha1.SelectLatency
	call := model.PickerCall{Cluster: model.OurPicker, Pool: imp.Cluster.Pool()}
	if latency || s.Affinity != "" && s.Affinity != v1alpha1.AffinityPrefix {
		call.Body = model.BodyNone
	} else {
		call.Body = model.BodyBuffered
	}
	call.Served = keepsSessions(policy)
	blind := call.Body == model.BodyNone
	if policy.Spec.Picker.ResponseAffinity {
		call.ResponseIDs, call.Body = true, model.BodyBuffered
	}
	margin := selection.DefaultMargin
	if s.LocalMargin != nil {
		margin = s.LocalMargin.Duration
	}
	imp.Choice = &model.Choice{Picker: call, Margin: margin, Latency: latency, Blind: blind}
	if keepsSessions(policy) {
		session := settings(policy)
		imp.Choice.Sessions, imp.Choice.SessionTTL, imp.Choice.SessionCookie = true, session.SessionTTL,
			session.SessionCookie
	}
	if s.LocalMargin != nil && !slices.ContainsFunc(imp.Members, func(m model.ImportMember) bool { return m.Local }) {
		imp.Findings = append(imp.Findings, infoOn(store.PoolPolicies.Ref(policy), "spec.selection.localMargin",
			fmt.Sprintf("it has no effect: %s does not include this cluster", imp.Ref),
			"remove it, or set imports: All in the ClusterSet and export the pool here"))
	}
}

func chooses(policy *v1alpha1.PoolPolicy) bool {
	if policy == nil || policy.Spec.Selection == nil {
		return false
	}
	by := policy.Spec.Selection.Policy
	return by == v1alpha1.SelectLatency || by == v1alpha1.SelectLeastLoad
}

func keepsSessions(policy *v1alpha1.PoolPolicy) bool {
	return policy != nil && policy.Spec.Selection != nil && policy.Spec.Selection.Affinity == v1alpha1.AffinitySession
}

func prioritize(r store.Reader, imp *model.Import, policy *v1alpha1.PoolPolicy) {
	own := gatewayapi.OwnPlace(r)
	var members []selection.Candidate
	for i := range imp.Members {
		if m := &imp.Members[i]; m.Takes() {
			members = append(members, selection.Candidate{
				Place: place(m), Weight: m.Share, Down: imp.Ordered && recovering(r, imp, m),
			})
			if m.Local {
				own.Name = m.Name
			}
		}
	}
	spec := &v1alpha1.SelectionSpec{}
	if policy != nil && policy.Spec.Selection != nil {
		spec = policy.Spec.Selection
	}
	var shares []selection.Share
	note := ""
	switch spec.Policy {
	case v1alpha1.SelectPriority:
		shares = selection.Priority(own.Name, spec.Order, members)
		imp.Order.InOrder = true
	case v1alpha1.SelectLocality:
		shares, note = selection.Locality(own, members)
		if own.Region == "" {
			imp.Findings = append(imp.Findings, warningOn(store.PoolPolicies.Ref(policy), "spec.selection.policy",
				"the region of this cluster is not known: only this cluster itself is near",
				"write spec.region, and zone, into its ClusterSet"))
		}
	default:
		shares, note = selection.Weighted(members)
	}
	if note != "" {
		imp.Findings = append(imp.Findings, warningOn(imp.Ref, "status.clusters", note, ""))
	}
	setOrder(imp, shares)
}

func recovering(r store.Reader, imp *model.Import, m *model.ImportMember) bool {
	failback, ok := store.Failbacks.Get(r, imp.Ref.Key())
	if !ok || !slices.Contains(failback.Clusters, m.Name) {
		return false
	}
	imp.Findings = append(imp.Findings, infoOn(imp.Ref, "status.clusters",
		fmt.Sprintf("cluster %s comes last until it has been ready for %s: it was not ready before", m.Name,
			selection.Recovery), ""))
	return true
}

func place(m *model.ImportMember) selection.Place {
	return selection.Place{Name: m.Name, Region: m.Region, Zone: m.Zone}
}

func setOrder(imp *model.Import, shares []selection.Share) {
	hops := map[uint32]uint32{}
	for _, s := range shares {
		i := slices.IndexFunc(imp.Members, func(m model.ImportMember) bool { return m.Name == s.Name })
		imp.Members[i].Priority = s.Priority
		hops[s.Priority]++
		imp.Order.Largest = max(imp.Order.Largest, hops[s.Priority])
	}
	imp.Order.Priorities = uint32(len(hops))
}
