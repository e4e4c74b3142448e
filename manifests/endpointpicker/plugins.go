package endpointpicker

import (
	"maps"
	"slices"
)

// Role is the function of a plugin.
type Role string

// Producers have no settings in Penstock.
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
	Admitter Role = "admitter"            // rejects sheddable requests
	Source   Role = "data source"
	Parser   Role = "parser"
	Other    Role = "request plugin"
)

const (
	LabelSelectorFilter   = "label-selector-filter"
	ByLabelFilter         = "by-label"
	UtilizationFilter     = "utilization-filter"
	PrefixAffinityFilter  = "prefix-cache-affinity-filter"
	SessionAffinityFilter = "session-affinity-filter"
	HeadroomTierFilter    = "slo-headroom-tier-filter"

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
	NoHitLRUScorer        = "no-hit-lru-scorer"
	LatencyScorer         = "latency-scorer"
	ContextLengthAware    = "context-length-aware"
	HeaderLabelScorer     = "header-label-affinity-scorer"
	MediaCacheScorer      = "mm-embeddings-cache-scorer"

	LatencyAdmitter       = "latency-slo-admitter"
	ProbabilisticAdmitter = "probabilistic-admitter"

	MaxScorePicker       = "max-score-picker"
	WeightedRandomPicker = "weighted-random-picker"
	RandomPicker         = "random-picker"
	PowerOfTwoPicker     = "power-of-two-picker"

	SingleProfileHandler = "single-profile-handler"
	HeaderProfileHandler = "header-profile-handler"

	ApproximatePrefixProducer = "approx-prefix-cache-producer"
	PrecisePrefixProducer     = "precise-prefix-cache-producer"
	InFlightLoadProducer      = "inflight-load-producer"
	SessionIDProducer         = "session-id-producer"
	AgentIdentity             = "agent-identity"
)

type kind struct {
	role Role
	// parameters returns a pointer to the default parameters; nil if the type has no parameters.
	parameters func() parameters
	// pages, prompts and sessions mean that the type reads metrics pages, prompts (with model
	// names), or sessions.
	pages, prompts, sessions bool
	latency                  bool
	// unknown means that no table has the type; its role is guessed from the end of its name.
	// silent means that the plugin already has a Warning.
	unknown, silent bool
}

// kinds is the table of plugins. A new plugin also needs a row in picker/schedule.
var kinds = map[string]kind{
	LabelSelectorFilter: {role: Filter, parameters: zero[LabelSelector]},
	ByLabelFilter:       {role: Filter, parameters: zero[ByLabel]},
	UtilizationFilter:   {role: Filter, pages: true, parameters: zero[UtilizationLimits]},
	PrefixAffinityFilter: {role: Filter, prompts: true, parameters: func() parameters {
		return &PrefixAffinity{AffinityThreshold: 0.8, MaxTTFTPenaltyMs: 18000, PeakPrefillThroughput: 15928}
	}},
	SessionAffinityFilter: {role: Filter, sessions: true, parameters: zero[sessionAffinity]},
	HeadroomTierFilter: {role: Filter, pages: true, prompts: true, latency: true,
		parameters: func() parameters { return &HeadroomTier{EpsilonExploreNeg: 0.01} }},

	QueueScorer:           {role: Scorer, pages: true},
	KVCacheScorer:         {role: Scorer, pages: true},
	RunningRequestsScorer: {role: Scorer, pages: true},
	ActiveRequestScorer:   {role: Scorer, parameters: func() parameters { return &ActiveRequest{MaxBusyScore: 1} }},
	TokenLoadScorer: {role: Scorer, parameters: func() parameters {
		return &TokenLoad{QueueThresholdTokens: 4 << 20}
	}},
	LoadAwareScorer: {role: Scorer, pages: true,
		parameters: func() parameters { return &LoadAware{Threshold: 128} }},
	PrefixCacheScorer: {role: Scorer, prompts: true,
		parameters: func() parameters { return &PrefixCache{MatchLengthScaleTokens: 8192} }},
	LoRAAffinityScorer:    {role: Scorer, pages: true, prompts: true},
	SessionAffinityScorer: {role: Scorer, sessions: true, parameters: zero[sessionAffinity]},
	ExternalScorer:        {role: Scorer, pages: true, parameters: func() parameters { return &External{Port: 9003} }},

	NoHitLRUScorer: {role: Scorer, prompts: true, parameters: func() parameters { return &NoHitLRU{LRUSize: 1024} }},
	LatencyScorer: {role: Scorer, pages: true, prompts: true, latency: true,
		parameters: func() parameters { return &Latency{TTFTWeight: 0.8, TPOTWeight: 0.2} }},
	ContextLengthAware: {role: Scorer, prompts: true,
		parameters: func() parameters { return &ContextLength{Label: "llm-d.ai/context-length-range"} }},
	HeaderLabelScorer: {role: Scorer, parameters: zero[HeaderLabel]},
	MediaCacheScorer:  {role: Scorer, prompts: true},

	LatencyAdmitter: {role: Admitter, pages: true, prompts: true, latency: true},
	ProbabilisticAdmitter: {role: Admitter, pages: true, parameters: func() parameters {
		return &Probabilistic{QueueDepthThreshold: 5, KVCacheUtilThreshold: 0.8, Power: 5, K: 300}
	}},

	MaxScorePicker:       {role: Picker, parameters: zero[pickerParameters]},
	WeightedRandomPicker: {role: Picker, parameters: zero[pickerParameters]},
	RandomPicker:         {role: Picker, parameters: zero[pickerParameters]},
	PowerOfTwoPicker:     {role: Picker},

	SingleProfileHandler: {role: Handler},
	HeaderProfileHandler: {role: Handler, parameters: func() parameters {
		return &headerProfile{HeaderName: "EPP-Profile", DefaultProfile: "decode"}
	}},
	DisaggProfileHandler: {role: Handler, parameters: zero[disaggParameters]},
	PDProfileHandler:     {role: Handler, parameters: zero[pdParameters]},
	DataParallelProfileHandler: {role: Handler, parameters: func() parameters {
		return &dataParallelParameters{PrimaryPort: 8000}
	}},

	DecodeFilter:            {role: Filter},
	PrefillFilter:           {role: Filter},
	EncodeFilter:            {role: Filter},
	PrefixBasedDecider:      {role: Decision, parameters: zero[prefixDecider]},
	AlwaysPrefillDecider:    {role: Decision},
	AlwaysMultimodalDecider: {role: Decision},

	DynamoHeaders: {role: Header, parameters: func() parameters { return &Dynamo{Names: namesDynamo} }},

	ClusterQueueScorer:   {role: Cluster},
	ClusterKVCacheScorer: {role: Cluster},
	ClusterPrefixScorer:  {role: Cluster, parameters: zero[clusterPrefix]},
	ClusterSessionFilter: {role: Cluster, parameters: zero[sessionAffinity]},

	ConcurrencyDetector: {role: Policy,
		parameters: func() parameters { return &Concurrency{MaxConcurrency: 100, ConcurrencyMode: "requests"} }},
	UtilizationDetector: {role: Policy, parameters: func() parameters {
		return &Utilization{QueueDepthThreshold: 5, KVCacheUtilThreshold: 0.8}
	}},
	FCFSOrdering:         {role: Policy},
	DeadlineOrdering:     {role: Policy},
	RoundRobinFairness:   {role: Policy},
	GlobalStrictFairness: {role: Policy},
	StaticUsageLimit:     {role: Policy, parameters: func() parameters { return &usageLimit{Threshold: 1} }},

	ApproximatePrefixProducer: {role: Producer, parameters: zero[approximatePrefix]},
	PrecisePrefixProducer:     {role: Producer, parameters: zero[precisePrefix]},
	InFlightLoadProducer:      {role: Producer, parameters: zero[inFlightLoad]},
	metricsDataSource:         {role: Source, parameters: zero[dataSource]},
	SessionIDProducer:         {role: Producer, parameters: zero[sessionID]},
	AgentIdentity:             {role: Other, parameters: zero[agentIdentity]},
	clusterPrefixProducer:     {role: Producer, parameters: zero[approximatePrefix]},
}

func zero[T any, P interface {
	*T
	parameters
}]() parameters {
	return P(new(T))
}

// Types returns the types of plugins with one of the given roles, sorted. Without roles, it returns
// all types.
func Types(roles ...Role) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(kinds)), func(name string) bool {
		return len(roles) > 0 && !slices.Contains(roles, kinds[name].role)
	})
}

const metricsDataSource = "metrics-data-source"
