package endpointpicker

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// upstreamKind is a type of llm-d's router that is not in kinds. It works like another type, has no
// effect, or makes a document invalid.
type upstreamKind struct {
	role Role
	as   string
	why  string
	fix  string
	// invalid means that without the plugin, requests could go to wrong servers.
	invalid bool
	// If parameters is nil, a filter has the parameters of the type `as`, and any other plugin has
	// no parameters.
	parameters func() parameters
}

const (
	ownPredictions = "Penstock predicts latency by what it has measured of each server; " +
		"there is no prediction server"
	readsPages    = "Penstock reads the metrics pages by itself, by spec.picker.metrics of the PoolPolicy"
	readsModels   = "Penstock asks the servers for their models by itself"
	setsHeaders   = "the profile handler sets the headers"
	readsRequests = "Penstock reads requests by itself, by their path"
	countsTokens  = "Penstock counts tokens by itself; spec.picker.kvEvents.render of the PoolPolicy has a server " +
		"find the token IDs"
	ownPriorities = "requests of a negative priority leave servers free for the others by themselves"
	noEviction    = "Penstock does not take a request back from its server"
	noTopology    = "Penstock does not read the topology of nodes"
	noAttributes  = "Penstock reads no custom metrics, and so no server has the attribute"
	noGPUMetrics  = "Penstock does not read the metrics of GPUs"
	ownChanges    = "Penstock follows the cluster's objects by itself"
)

// upstreamKinds has the types of llm-d's router 0.10 that are not in kinds, and some types of other
// releases.
var upstreamKinds = map[string]upstreamKind{
	"by-label-selector": {role: Filter, as: LabelSelectorFilter, why: "it is the former name"},
	"precise-prefix-cache-scorer": {role: Scorer, as: PrefixCacheScorer,
		why:        "its prefixes come from " + PrecisePrefixProducer,
		parameters: zero[preciseScorer]},
	"kv-cache-scorer": {role: Scorer, as: KVCacheScorer, why: "it is the former name"},
	"edf-ordering-policy": {role: Policy, as: FCFSOrdering,
		why: "all requests of a pool may wait equally long, so the earliest has the nearest deadline"},
	"program-aware-fairness": {role: Policy, as: RoundRobinFairness,
		why: "each fairness ID has its turn, whatever it has used"},
	"priority-holdback-policy":       {role: Policy, as: StaticUsageLimit, why: ownPriorities},
	"soft-reflective-ceiling-policy": {role: Policy, as: StaticUsageLimit, why: ownPriorities},
	"burst-prefix-cache-producer": {role: Producer, as: ApproximatePrefixProducer,
		why: "a pick counts as cached at once, so a burst stays together without a window"},
	"header-phase-profile-handler": {role: Handler, as: HeaderProfileHandler,
		why:        "it is the former name, and the header is EPP-Phase",
		parameters: func() parameters { return &headerProfile{HeaderName: "EPP-Phase", DefaultProfile: "decode"} }},
	"latency-observation-scorer-hub": {role: Cluster, as: ClusterQueueScorer,
		why: "clusters are compared by one cost in seconds, which has what was measured"},

	"disagg-headers-handler": {role: Other, why: setsHeaders},
	"prefill-header-handler": {role: Other, why: setsHeaders},
	"core-metrics-extractor": {role: Source, why: readsPages},
	"models-data-source":     {role: Source, why: readsModels},
	"models-data-extractor":  {role: Source, why: readsModels},
	"dcgm-data-source":       {role: Source, why: noGPUMetrics},
	"dcgm-extractor":         {role: Source, why: noGPUMetrics},
	"topology-extractor":     {role: Source, why: noTopology},

	"k8s-notification-source":                {role: Source, why: ownChanges},
	"endpoint-notification-source":           {role: Source, why: ownChanges},
	"disaggregatedset-rollout-pod-extractor": {role: Source, why: ownChanges},
	"local-syncer": {role: Source,
		why: "replicas share their load by --peers-listen and --peers"},
	clusterDiscovery:                {role: Source, why: readsImport},
	clusterDataSource:               {role: Source, why: readsClusterPages},
	clusterExtractor:                {role: Source, why: readsClusterPages},
	"latency-observer-producer-hub": {role: Producer, why: "Penstock measures what clusters take by itself"},
	"file-discovery": {role: Source, invalid: true, why: "the endpoints would be missing",
		fix: "list them as ModelServers in a file of -f, or as pods that the InferencePool selects, and remove it"},

	"openai-parser":      {role: Parser, why: readsRequests},
	"anthropic-parser":   {role: Parser, why: readsRequests},
	"vllmgrpc-parser":    {role: Parser, why: readsRequests},
	"vllmhttp-parser":    {role: Parser, why: readsRequests},
	"sglanghttp-parser":  {role: Parser, why: readsRequests + "; prompts of SGLang's own paths do not decide"},
	"vertexai-parser":    {role: Parser, why: readsRequests + "; prompts of Vertex AI's paths do not decide"},
	"passthrough-parser": {role: Parser, why: readsRequests},

	"token-producer":             {role: Producer, why: countsTokens},
	"tokenizer":                  {role: Producer, why: countsTokens},
	"predicted-latency-producer": {role: Producer, why: ownPredictions},
	"mm-embeddings-cache-producer": {role: Producer,
		why: "Penstock remembers by itself which server has read an image; each counts 2,048"},
	"p2p-source-producer": {role: Producer,
		why: "no header names another server's cache, so a server reads what it lacks"},

	"topology-affinity-filter": {role: Filter, why: noTopology},
	"topology-affinity-scorer": {role: Scorer, why: noTopology},
	"endpoint-attribute-filter": {role: Filter, why: noAttributes,
		parameters: zero[attributeFilter]},
	"endpoint-attribute-scorer": {role: Scorer, why: noAttributes},

	"sheddable-eviction-filter":                {role: Policy, why: noEviction},
	"eviction-sheddable-filter":                {role: Policy, why: noEviction},
	"priority-then-time-eviction-order-policy": {role: Policy, why: noEviction},

	"request-attribute-reporter": {role: Other,
		why: "the access log and the metrics have what requests used"},
	"header-based-testing-filter": {role: Filter,
		why: "--conformance of penstock picker does it, for the conformance suite"},
	"destination-endpoint-served-verifier": {role: Other,
		why: "--conformance of penstock picker does it, for the conformance suite"},
	"disaggregatedset-rollout-screener": {role: Other, invalid: true,
		why: "prefill and decode of two revisions could serve one request",
		fix: "write an InferencePool for each revision, which selects disaggregatedset.x-k8s.io/revision, and " +
			"weights in the HTTPRoute"},

	"dyn-prefill-scorer": {role: Scorer, invalid: true, why: "Dynamo's own scorers are not part of Penstock",
		fix: "use " + PrefixCacheScorer + ", and list " + DynamoHeaders},
	"dyn-decode-scorer": {role: Scorer, invalid: true, why: "Dynamo's own scorers are not part of Penstock",
		fix: "use " + PrefixCacheScorer + ", and list " + DynamoHeaders},
	"label-filter": {role: Filter, invalid: true, why: "it is a former name",
		fix: "use " + LabelSelectorFilter + " with matchExpressions"},
}

// Treatment is how Penstock handles a type of plugins.
type Treatment string

const (
	Implemented Treatment = "implemented"
	Mapped      Treatment = "mapped"
	NoEffect    Treatment = "no effect"
	Unsupported Treatment = "error"
)

// TypeInfo describes one type of plugins, for documentation.
type TypeInfo struct {
	Type string
	Role
	Treatment
	Note string // why the type has no effect, or the replacement for it
}

// Catalog describes every type of plugins, by role and name.
func Catalog() (all []TypeInfo) {
	for name, k := range kinds {
		all = append(all, TypeInfo{name, k.role, Implemented, ""})
	}
	for name, u := range upstreamKinds {
		t := TypeInfo{name, u.role, NoEffect, u.why}
		switch {
		case u.invalid:
			t.Treatment, t.Note = Unsupported, u.why+": "+u.fix
		case u.as != "":
			t.Treatment, t.Note = Mapped, "as "+u.as+": "+u.why
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b TypeInfo) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Type, b.Type))
	})
	return all
}

var endings = []struct {
	ending string
	role   Role
}{
	{"-scorer", Scorer}, {"-filter", Filter}, {"-picker", Picker}, {"-profile-handler", Handler},
	{"-decider", Decision},
	{"-producer", Producer}, {"-parser", Parser}, {"-source", Source}, {"-extractor", Source}, {"-discovery", Source},
	{"-policy", Policy}, {"-detector", Policy}, {"-fairness", Policy}, {"-admitter", Admitter}, {"-screener", Other},
	{"-handler", Other}, {"-reporter", Other}, {"-syncer", Source},
}

func guessed(name string) Role {
	for _, e := range endings {
		if strings.HasSuffix(name, e.ending) {
			return e.role
		}
	}
	return ""
}

// misspelled returns the known type whose name is nearest, or "" if no name is near.
func misspelled(name string) string {
	best, least := "", 3
	for _, known := range slices.Concat(Types(), slices.Sorted(maps.Keys(upstreamKinds))) {
		if d := distance(name, known); d < least {
			best, least = known, d
		}
	}
	return best
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for k := range len(b) {
			cost := diagonal
			if a[i] != b[k] {
				cost++
			}
			diagonal = row[k+1]
			row[k+1] = min(cost, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(b)]
}
