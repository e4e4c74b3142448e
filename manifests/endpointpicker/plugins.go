package endpointpicker

import (
	"maps"
	"slices"
)

// Role is what plugins of a type do.
type Role string

// The roles. Producers are part of a document and have nothing to configure here.
const (
	Filter   Role = "filter"
	Scorer   Role = "scorer"
	Picker   Role = "picker"
	Handler  Role = "profile handler"
	Producer Role = "data producer"
	Decision Role = "decider"
	Header   Role = "header"
	Policy   Role = "policy of flow control"
	Cluster  Role = "choice of a cluster" // filters and scorers of clusters
)

// Types of plugins.
const (
	LabelSelectorFilter = "label-selector-filter"

	QueueScorer           = "queue-scorer"
	KVCacheScorer         = "kv-cache-utilization-scorer"
	RunningRequestsScorer = "running-requests-size-scorer"
	ActiveRequestScorer   = "active-request-scorer"
	TokenLoadScorer       = "token-load-scorer"
	LoadAwareScorer       = "load-aware-scorer"
	PrefixCacheScorer     = "prefix-cache-scorer"
	LoRAAffinityScorer    = "lora-affinity-scorer"
	SessionAffinityScorer = "session-affinity-scorer"
	ExternalScorer        = "external-scorer"

	MaxScorePicker       = "max-score-picker"
	WeightedRandomPicker = "weighted-random-picker"
	RandomPicker         = "random-picker"
	PowerOfTwoPicker     = "power-of-two-picker"

	SingleProfileHandler = "single-profile-handler"

	ApproximatePrefixProducer = "approx-prefix-cache-producer"
	PrecisePrefixProducer     = "precise-prefix-cache-producer"
	InFlightLoadProducer      = "inflight-load-producer"
)

// kind is a type of plugins.
type kind struct {
	role Role
	// parameters returns a pointer to the type's parameters with their defaults; nil: it has none.
	parameters func() parameters
	// pages, prompts, sessions: it reads the servers' metrics pages, the prompts of requests (and with them the model's name), their
	// sessions.
	pages, prompts, sessions bool
}

// kinds is the table of plugins. A new plugin is a row here, its parameters, and a row in picker/schedule.
var kinds = map[string]kind{
	LabelSelectorFilter: {role: Filter, parameters: func() parameters { return &LabelSelector{} }},

	QueueScorer:           {role: Scorer, pages: true},
	KVCacheScorer:         {role: Scorer, pages: true},
	RunningRequestsScorer: {role: Scorer, pages: true},
	ActiveRequestScorer:   {role: Scorer, parameters: func() parameters { return &ActiveRequest{MaxBusyScore: 1} }},
	TokenLoadScorer:       {role: Scorer, parameters: func() parameters { return &TokenLoad{QueueThresholdTokens: 4 << 20} }},
	LoadAwareScorer:       {role: Scorer, pages: true, parameters: func() parameters { return &LoadAware{Threshold: 128} }},
	PrefixCacheScorer:     {role: Scorer, prompts: true, parameters: func() parameters { return &PrefixCache{MatchLengthScaleTokens: 8192} }},
	LoRAAffinityScorer:    {role: Scorer, pages: true, prompts: true},
	SessionAffinityScorer: {role: Scorer, sessions: true, parameters: func() parameters { return &sessionAffinity{} }},
	ExternalScorer:        {role: Scorer, pages: true, parameters: func() parameters { return &External{Port: 9003} }},

	MaxScorePicker:       {role: Picker, parameters: func() parameters { return &pickerParameters{} }},
	WeightedRandomPicker: {role: Picker, parameters: func() parameters { return &pickerParameters{} }},
	RandomPicker:         {role: Picker, parameters: func() parameters { return &pickerParameters{} }},
	PowerOfTwoPicker:     {role: Picker},

	SingleProfileHandler: {role: Handler},
	DisaggProfileHandler: {role: Handler, parameters: func() parameters { return &disaggParameters{} }},
	PDProfileHandler: {role: Handler, parameters: func() parameters {
		return &pdParameters{}
	}},
	DataParallelProfileHandler: {role: Handler, parameters: func() parameters { return &dataParallelParameters{PrimaryPort: 8000} }},

	DecodeFilter:            {role: Filter},
	PrefillFilter:           {role: Filter},
	EncodeFilter:            {role: Filter},
	PrefixBasedDecider:      {role: Decision, parameters: func() parameters { return &prefixDecider{} }},
	AlwaysPrefillDecider:    {role: Decision},
	AlwaysMultimodalDecider: {role: Decision},

	DynamoHeaders: {role: Header, parameters: func() parameters { return &Dynamo{Names: namesDynamo} }},

	ClusterQueueScorer:   {role: Cluster},
	ClusterKVCacheScorer: {role: Cluster},
	ClusterPrefixScorer:  {role: Cluster, parameters: func() parameters { return &clusterPrefix{} }},
	ClusterSessionFilter: {role: Cluster, parameters: func() parameters { return &sessionAffinity{} }},

	UtilizationDetector:  {role: Policy, parameters: func() parameters { return &Utilization{QueueDepthThreshold: 5, KVCacheUtilThreshold: 0.8} }},
	FCFSOrdering:         {role: Policy},
	DeadlineOrdering:     {role: Policy},
	RoundRobinFairness:   {role: Policy},
	GlobalStrictFairness: {role: Policy},
	StaticUsageLimit:     {role: Policy, parameters: func() parameters { return &usageLimit{Threshold: 1} }},

	ApproximatePrefixProducer: {role: Producer, parameters: func() parameters { return &approximatePrefix{} }},
	PrecisePrefixProducer:     {role: Producer, parameters: func() parameters { return &precisePrefix{} }},
	InFlightLoadProducer:      {role: Producer, parameters: func() parameters { return &inFlightLoad{} }},
	clusterPrefixProducer:     {role: Producer, parameters: func() parameters { return &approximatePrefix{} }},
}

// Types returns the types of plugins with one of some roles, sorted; of all roles if none is given.
func Types(roles ...Role) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(kinds) {
			if (len(roles) == 0 || slices.Contains(roles, kinds[name].role)) && !yield(name) {
				return
			}
		}
	})
}

// instead is what to write in place of types that llm-d's router has, and Penstock has under another name or not at all.
var instead = map[string]string{
	"by-label-selector":              "use label-selector-filter, which has the same parameters",
	"by-label":                       "use label-selector-filter with matchExpressions",
	"precise-prefix-cache-scorer":    "use precise-prefix-cache-producer, and prefix-cache-scorer with prefixMatchInfoProducerName",
	"dyn-prefill-scorer":             "use prefix-cache-scorer, and list " + DynamoHeaders,
	"dyn-decode-scorer":              "use prefix-cache-scorer, and list " + DynamoHeaders,
	"label-filter":                   "use label-selector-filter with matchExpressions",
	"concurrency-detector":           "use utilization-detector, or set spec.picker.full.inFlight of the PoolPolicy",
	"edf-ordering-policy":            "use slo-deadline-ordering-policy",
	"program-aware-fairness":         "use round-robin-fairness-policy",
	"priority-holdback-policy":       "remove it: requests of a negative priority leave servers free for the others by themselves",
	"soft-reflective-ceiling-policy": "remove it: requests of a negative priority leave servers free for the others by themselves",
}

const (
	readsPages    = "Penstock reads the metrics pages by itself, by spec.picker.metrics of the PoolPolicy"
	setsHeaders   = "the profile handler sets the headers"
	readsRequests = "Penstock reads requests by itself, by their path"
	countsTokens  = "Penstock counts tokens by itself; spec.picker.kvEvents.render of the PoolPolicy has a server find the token IDs"
)

// needless are the types of plugins that llm-d's router is given for what Penstock does by itself, with the reason. Its chart writes the
// first two into every document.
var needless = map[string]string{
	"disagg-headers-handler":       setsHeaders,
	"prefill-header-handler":       setsHeaders,
	metricsDataSource:              readsPages,
	"core-metrics-extractor":       readsPages,
	"endpoint-notification-source": "Penstock knows the pool's endpoints by itself",
	"openai-parser":                readsRequests,
	"anthropic-parser":             readsRequests,
	"vllmgrpc-parser":              readsRequests,
	"passthrough-parser":           readsRequests,
	"token-producer":               countsTokens,
	clusterDiscovery:               readsImport,
	clusterDataSource:              readsClusterPages,
	clusterExtractor:               readsClusterPages,
}

const metricsDataSource = "metrics-data-source"

// dataSource are the parameters of metrics-data-source.
type dataSource struct {
	Scheme string `json:"scheme"`
	Path   string `json:"path"`
}
