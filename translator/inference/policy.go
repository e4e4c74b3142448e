package inference

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

func policyFor(r store.Reader, kind, namespace, name string) (*v1alpha1.PoolPolicy, []report.Finding) {
	return oldestPolicy(gatewayapi.PoolPolicies(r, kind, namespace, name), kind, namespace, name)
}

func importPolicy(r store.Reader, namespace, name string) (*v1alpha1.PoolPolicy, []report.Finding) {
	return oldestPolicy(gatewayapi.ImportPolicies(r, namespace, name), store.InferencePoolImports.Kind(), namespace,
		name)
}

func oldestPolicy(list []*v1alpha1.PoolPolicy, kind, namespace, name string) (*v1alpha1.PoolPolicy, []report.Finding) {
	if len(list) == 0 {
		return nil, nil
	}
	var ignored []report.Finding
	for _, p := range list[1:] {
		ignored = append(ignored, errorOn(store.PoolPolicies.Ref(p), "spec.targetRef",
			fmt.Sprintf("%s %s/%s already has PoolPolicy %s; this one is not used", kind, namespace, name,
				list[0].Name), "put both into one PoolPolicy"))
	}
	return list[0], ignored
}

func settings(policy *v1alpha1.PoolPolicy) model.PickerSettings {
	s := model.PickerSettings{Strategy: string(v1alpha1.StrategyLoad), Criticality: string(v1alpha1.Standard),
		Fallbacks: 2, Prefix: true}
	if policy == nil {
		return s
	}
	spec := policy.Spec.Picker
	s.Strategy, s.Shadow = cmp.Or(string(spec.Strategy), s.Strategy), spec.Shadow
	reads := s.Strategy == string(v1alpha1.StrategyLoad) || s.Strategy == string(v1alpha1.StrategyPlugins)
	s.Prefix = reads && (spec.Prefix == nil || *spec.Prefix)
	s.EveryBody = spec.Body == string(model.BodyBuffered) || spec.Body == "" && readsBodies(spec.Strategy)
	s.Criticality, s.TrustHeaders = cmp.Or(string(spec.Criticality), s.Criticality), spec.TrustHeaders
	s.Fallbacks = or(spec.Fallbacks, s.Fallbacks)
	s.NoHeadersTimeout = spec.HeadersTimeout == v1alpha1.HeadersTimeoutNone
	if f := spec.Full; f != nil {
		s.FullQueue, s.FullKVCachePercent, s.FullInFlight = or(f.Queue, 0), or(f.KVCachePercent, 0), or(f.InFlight, 0)
	}
	if d := spec.ShedAfter; d != nil {
		s.ShedAfter = d.Duration
	}
	if f := spec.FlowControl; f != nil {
		s.FlowControl = model.FlowControl{On: true, Deadlines: f.Order == "Deadline", Requests: or(f.MaxRequests, 0),
			Bytes: or(f.MaxBytes, 0),
			TTL:   time.Duration(or(f.TTLSeconds, 0)) * time.Second, Queue: float64(or(f.Saturation.Queue, 0)),
			KVCache: float64(or(f.Saturation.KVCachePercent, 0)) / 100}
	}
	if h := spec.CHWBL; h != nil && spec.Strategy == v1alpha1.StrategyCHWBL {
		s.VirtualNodes, s.LoadFactorPercent, s.UserMessages = or(h.VirtualNodesPerReplica, 0),
			or(h.LoadFactorPercent, 0), or(h.MaxUserMessagesForCache, 0)
	}
	s.TokenUsage, s.ResponseAffinity = spec.TokenUsage, spec.ResponseAffinity
	if k := spec.Session; k != nil {
		s.SessionTTL, s.SessionCookie = or(k.TTLSeconds, 0), k.CookieName
	}
	if m := spec.Metrics; m != nil {
		s.Engine, s.MetricsPath = m.Engine, m.Path
		s.MetricsPort, s.MaxMetricsPage, s.LoadStatPort = or(m.Port, 0), or(m.MaxPageBytes, 0), or(m.LoadStatPort, 0)
		s.QueueName, s.RunningName, s.KVCacheName = m.Queue, m.Running, m.KVCache
	}
	if e := spec.KVEvents; e != nil {
		listen := e.Mode == modeListen
		s.KVEvents = model.KVEvents{Dial: !listen, Listen: listen, ReplayPort: or(e.ReplayPort, 0), Topic: e.Topic}
		if !listen {
			s.KVEvents.Port = or(e.Port, defaultKVEvents)
		}
		if e.Render != nil {
			s.KVEvents.Render = time.Duration(or(e.Render.TimeoutMilliseconds, defaultRender)) * time.Millisecond
		}
	}
	return s
}

func pickerNames(policy *v1alpha1.PoolPolicy) *model.PickerNames {
	if policy == nil || policy.Spec.ExternalPicker == nil {
		return nil
	}
	e, own := policy.Spec.ExternalPicker, model.ProtocolNames()
	return &model.PickerNames{
		Destination: cmp.Or(e.DestinationKey, own.Destination),
		Namespace:   cmp.Or(e.DestinationNamespace, own.Namespace),
		Subset:      cmp.Or(e.SubsetNamespace, own.Subset),
	}
}

func readsBodies(s v1alpha1.Strategy) bool {
	return s == v1alpha1.StrategyTree || s == v1alpha1.StrategyCHWBL
}

const (
	// defaultKVEvents is the port of vLLM's PUB socket for KV events.
	defaultKVEvents = 5557
	// defaultRender is the timeout for fetching a prompt's tokens, in milliseconds.
	defaultRender = 20
)

func or[T int32 | int64](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// ourPicker makes Penstock's picker pick for the pool. By default the pool fails open, because a
// pool that requests no picker should not stop when Penstock's picker stops. If picks change
// bodies, the pool fails closed, because servers could not process the original bodies.
func ourPicker(p *model.Pool, policy *v1alpha1.PoolPolicy) {
	p.FailOpen = !p.Settings.ChangesBodies()
	p.Picker = model.PickerCall{Cluster: model.OurPicker, Pool: p.Name, Body: model.BodyNone}
	if readsBody(&p.Settings) {
		p.Picker.Body = model.BodyBuffered
	}
	p.Picker.Served, p.Picker.TokenUsage = readsSessions(&p.Settings), p.Settings.TokenUsage
	p.Picker.ResponseIDs = p.Settings.ResponseAffinity
	if policy == nil || policy.Spec.Picker.FailureMode == "" {
		return
	}
	if p.FailOpen = policy.Spec.Picker.FailureMode == failOpen; p.FailOpen && p.Settings.ChangesBodies() {
		p.Findings = append(p.Findings, warningOn(store.PoolPolicies.Ref(policy), "spec.picker.failureMode",
			"without a pick, servers get bodies as clients sent them: with model names that are not replaced, "+
				"and with fields for the processor",
			"remove it, or write FailClose"))
	}
}

const failOpen = "FailOpen"

func readsBody(s *model.PickerSettings) bool {
	return s.Prefix || s.ResponseAffinity || s.EveryBody || s.ReadsModels || s.Processor != nil
}

func nameLast(p *model.Pool, policy *v1alpha1.PoolPolicy) {
	p.Last = p.Cluster
	if policy != nil && len(policy.Spec.Spill) > 0 || p.PicksAgain() {
		p.Last = p.Cluster.As(model.LastVariant)
	}
}

func addSpill(r store.Reader, p *model.Pool, policy *v1alpha1.PoolPolicy) {
	if policy == nil {
		return
	}
	owner := store.PoolPolicies.Ref(policy)
	for i, ref := range policy.Spec.Spill {
		spill, problem, fix := spillTarget(r, p, policy, ref)
		if problem == "" && slices.ContainsFunc(spill.Ends(),
			func(b model.WeightedBackend) bool { return b.Cluster == p.Last }) {
			if p.Name.Member != "" && policy.Spec.TargetRef.Name == p.Ref.Name && ref.Name != p.Ref.Name {
				// The policy is for the whole import, whose other clusters spill to this one.
				continue
			}
			problem, fix = "a pool cannot spill to itself",
				"name another pool, or another exporting cluster of the import as NAME-CLUSTER"
		}
		if problem != "" {
			p.Findings = append(p.Findings, errorOn(owner, fmt.Sprintf("spec.spill[%d]", i), problem, fix))
			continue
		}
		p.Spill = append(p.Spill, spill)
		p.Picker.Spill = append(p.Picker.Spill, spill.Hop.Address())
	}
	if p.Picker.Spills = len(p.Spill) > 0; p.ViaHops() {
		p.Cluster = p.Cluster.As(model.HopsVariant)
	}
}

func spillTarget(r store.Reader, p *model.Pool, policy *v1alpha1.PoolPolicy, ref v1alpha1.PoolRef) (spill model.Spill,
	problem, fix string) {
	kind, namespace := cmp.Or(ref.Kind, "InferencePool"), cmp.Or(ref.Namespace, policy.Namespace)
	group := store.InferencePools.Group()
	if kind == "InferencePoolImport" {
		group = store.InferencePoolImports.Group()
	}
	to := report.Ref{Group: group, Kind: kind, Namespace: namespace, Name: ref.Name}
	if !gatewayapi.Granted(r, store.PoolPolicies.Ref(policy), to) {
		return spill,
			fmt.Sprintf("no ReferenceGrant in namespace %s allows PoolPolicies of %s to name %s %s", namespace,
				policy.Namespace, kind, ref.Name), "add a ReferenceGrant there"
	}
	key, _, exists := gatewayapi.ImportNamed(r, namespace, ref.Name)
	if exists = exists && kind == store.InferencePoolImports.Kind(); exists {
		p.SpillImports = append(p.SpillImports, key)
	}
	hop := model.HopTo(kind, namespace, ref.Name)
	h, ok := Hop(r, hop)
	if !ok && exists {
		return spill, fmt.Sprintf("%s %s/%s has no cluster that takes requests", kind, namespace, ref.Name),
			"see its conditions and findings, or remove the spill target"
	}
	if !ok {
		problem := gatewayapi.Missing(r, store.PoolPolicies.Ref(policy), to, "there is no usable "+to.String())
		return spill, problem + gatewayapi.Elsewhere(r, store.PoolPolicies.Ref(policy), to),
			"create it, or remove the spill target"
	}
	return model.Spill{Hop: hop, Target: store.TargetKey(kind, namespace, ref.Name), Owner: h.Owners[0],
		Backends: h.Backends, Behind: h.Behind}, "", ""
}
