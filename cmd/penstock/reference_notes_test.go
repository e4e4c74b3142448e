package main

import "github.com/penstock-project/penstock/manifests/endpointpicker"

const ownPredictions = "Penstock predicts latency by what it has measured of each server; " +
	"there is no prediction server"

// pluginNotes describe plugin types whose names do not explain them.
var pluginNotes = map[string]string{
	endpointpicker.QueueScorer: "1 for the fewest waiting requests, 0 for the most, in proportion between; 1 for " +
		"all if they are equal",
	endpointpicker.RunningRequestsScorer: "as queue-scorer, with running requests",
	endpointpicker.KVCacheScorer:         "the share of the KV cache that is free",
	endpointpicker.LoadAwareScorer: "0.5 without waiting requests, 0 from `threshold` (128) on, in proportion " +
		"between",
	endpointpicker.ActiveRequestScorer: "1 up to `idleThreshold` (0) requests in flight, else (most - own) / " +
		"most x `maxBusyScore` (1)",
	endpointpicker.TokenLoadScorer: "1 - tokens / `queueThresholdTokens` (4194304): uncached tokens of this " +
		"prompt, and of those in flight without a first token",
	endpointpicker.PrefixCacheScorer: "w x min(1, cached tokens / s)^2 + (1 - w) x the cached share of the " +
		"prompt's whole blocks; w is `matchLengthWeight` (0), s is `matchLengthScaleTokens` (8192)",
	endpointpicker.LoRAAffinityScorer: "1 where requests for the adapter run, 0.8 with a free slot, 0.6 where " +
		"they wait, else 0",
	endpointpicker.SessionAffinityScorer: "1 for the endpoint of the request's session, by `picker.session`, " +
		"else 0; the token's header is x-session-token",
	endpointpicker.NoHitLRUScorer: "of a prompt that no endpoint has cached: 1 for the endpoint whose last such " +
		"prompt is the oldest, 0 for the newest; else 0.5; `lruSize` (1024)",
	endpointpicker.MediaCacheScorer: "the share of the request's images, audio and video that the endpoint had " +
		"before",
	endpointpicker.ContextLengthAware: "0.3 to 1 if the label's range, such as 0-2048, has the prompt's tokens, " +
		"the more the tighter; below 0.3 by the distance else; 0.5 without the label; `label` " +
		"(`llm-d.ai/context-length-range`). With `enableFiltering`, all servers stay if the range of none has " +
		"the prompt",
	endpointpicker.HeaderLabelScorer: "1 if the label `labelKey` has the value of the request's header " +
		"`headerName`",
	endpointpicker.LatencyScorer: "1 for the endpoint that is predicted to meet the request's objective most " +
		"closely, or by far (`headroomSelectionStrategy: most`), or to miss it least; without an objective the " +
		"fastest; `ttftWeight` (0.8), `tpotWeight` (0.2). " +
		ownPredictions,
	endpointpicker.ExternalScorer: "the answer of another process (docs/external-pickers.md), 0 for all without " +
		"one; `service`, `port` (9003). Penstock's own type",
	endpointpicker.LabelSelectorFilter: "keeps endpoints whose Pod or ModelServers matches a label selector",
	endpointpicker.ByLabelFilter:       "keeps endpoints whose `label` has one of `validValues`; `allowsNoLabel`",
	endpointpicker.DecodeFilter: "keeps endpoints with a role of decode in the label `llm-d.ai/role`, or without " +
		"the label",
	endpointpicker.PrefillFilter: "keeps endpoints with a role of prefill in the label `llm-d.ai/role`",
	endpointpicker.EncodeFilter:  "keeps endpoints with a role of encode in the label `llm-d.ai/role`",
	endpointpicker.UtilizationFilter: "keeps endpoints within all `conditions` (`metric`: active-requests, " +
		"running-requests, waiting-queue or kv-cache-utilization; `maxValue`); with `fallbackOnEmpty` the " +
		"others come last",
	endpointpicker.PrefixAffinityFilter: "keeps endpoints that have cached `affinityThreshold` (0.8) of the " +
		"prompt, unless their first token takes `maxTTFTPenaltyMs` (18000) longer; `peakPrefillThroughput` " +
		"(15928), `ttftSource`, `explorationProbability` (0). The others come last",
	endpointpicker.SessionAffinityFilter: "keeps the endpoint of the request's session; the others come last",
	endpointpicker.HeadroomTierFilter: "keeps endpoints that are predicted to meet the request's objective, of " +
		"`epsilonExploreNeg` (0.01) of the requests the others. " +
		ownPredictions,
	endpointpicker.ConcurrencyDetector: "as a filter: keeps endpoints with fewer requests in flight than " +
		"`maxConcurrency` (100) x (1 + `headroom` (0)). Tokens in flight do not count: with concurrencyMode " +
		"tokens it is as without it",
	endpointpicker.LatencyAdmitter: "answers 429 to a sheddable request that no endpoint is predicted to serve " +
		"within its objective. " +
		ownPredictions,
	endpointpicker.ProbabilisticAdmitter: "answers 429 to a sheddable request with the probability `k` (300) x " +
		"saturation^`power` (5); `queueDepthThreshold` (5), `kvCacheUtilThreshold` (0.8)",
	endpointpicker.MaxScorePicker:       "the highest score; equal ones by lot",
	endpointpicker.WeightedRandomPicker: "by lot, with the scores as weights; equal chances if all are 0",
	endpointpicker.RandomPicker:         "by lot",
	endpointpicker.PowerOfTwoPicker:     "the higher score of two that are drawn. Penstock's own type",
	endpointpicker.HeaderProfileHandler: "a request names its profile in the header `headerName` (EPP-Profile); " +
		"without it, or with an unknown name, it is `defaultProfile` (decode)",
	endpointpicker.DisaggProfileHandler: "one profile for each stage: `profiles` has their names (`decode`, " +
		"`prefill`, `encode`), `deciders` which requests have a stage; with `stageOrder: prefill-first` all " +
		"have prefill",
	endpointpicker.DataParallelProfileHandler: "sends a request to `primaryPort` (8000) of one pod, with the " +
		"rank's address in x-data-parallel-host-port",
	endpointpicker.PrefixBasedDecider: "requests whose prompt has at least `promptTokens` (0), of which the " +
		"server of decode lacks at least `nonCachedTokens` (0: never)",
	endpointpicker.AlwaysPrefillDecider:    "all requests",
	endpointpicker.AlwaysMultimodalDecider: "requests with images, audio, video or files",
	endpointpicker.DynamoHeaders: "names the workers for a frontend of Dynamo with `--router-mode direct`: " +
		"x-dynamo-worker-instance-id, x-dynamo-prefill-instance-id, x-dynamo-dp-rank, x-dynamo-prefill-dp-rank, " +
		"x-dynamo-routing-mode; with `names: plain` without \"dynamo-\", with `both` in both forms. Penstock " +
		"removes these headers of clients, and the workers that `nvext` names in bodies. In a graph with " +
		"workers of prefill use always-disagg-pd-decider, and filter by the label " +
		"nvidia.com/dynamo-sub-component-type",
	endpointpicker.ApproximatePrefixProducer: "Penstock's own accounting takes its place",
	endpointpicker.PrecisePrefixProducer:     "picker.kvEvents of the PoolPolicy takes its place",
	endpointpicker.InFlightLoadProducer:      "Penstock's own accounting takes its place",
	"metrics-data-source": "`scheme` and `path` count for the pool's pages; " +
		"a PoolPolicy comes first",
	endpointpicker.SessionIDProducer: "names a further header or cookie of sessions",
	endpointpicker.AgentIdentity: "x-claude-code-session-id, x-session-affinity and session-id are fairness IDs " +
		"of requests without one, if the PoolPolicy has trustHeaders",
	endpointpicker.ClusterQueueScorer:   "is in the cost of policy LeastLoad, without a weight",
	endpointpicker.ClusterKVCacheScorer: "is in the cost of policy LeastLoad, without a weight",
	endpointpicker.ClusterPrefixScorer:  "affinity: Prefix of policy LeastLoad",
	endpointpicker.ClusterSessionFilter: "affinity: Session of policy LeastLoad",
}
