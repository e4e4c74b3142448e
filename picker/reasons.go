package picker

// Reasons of immediate responses, for x-penstock-reason, metrics and traces.
const (
	ReasonUnknownPool = "unknown_pool" // 503: the gateway named no pool, and there is no default
	ReasonNoEndpoints = "no_endpoints" // 503: the pool has no endpoint that takes requests
	ReasonSubset      = "subset_empty" // 503: no endpoint in the subset hint is eligible
	ReasonFull        = "pool_full"    // 429: every endpoint is full
	// 429: no endpoint has capacity for a sheddable request, or serves it in time
	ReasonShed     = "shed"
	ReasonQueue    = "queue_full"  // 429: the pool is saturated, and as many requests wait as may
	ReasonTTL      = "queue_ttl"   // 429: the pool was saturated as long as a request may wait
	ReasonCanceled = "client_left" // the client has left while its request waited; no one reads the answer
	// 503: the remote picker did not answer, or Envoy did not learn its endpoint
	ReasonRelay      = "relay_failed"
	ReasonOutOfRange = "relay_out_of_range" // 503: the remote picker named only addresses outside the declared ranges
)

// Results of picks, for metrics and traces; the others are the reasons.
const (
	resultPicked  = "picked"  // the picker chose an endpoint of the pool
	resultSpilled = "spilled" // no pod can take the request; the pick names the spill targets alone
	resultRelayed = "relayed" // a remote picker chose the endpoint
	// the remote picker named no endpoint, and the pool fails open: the pick names some that are
	// known
	resultOpen   = "relay_open"
	resultPassed = "relay_immediate" // a remote picker's 429 or 503, passed through
)

// maxEndpoints bounds a pick's list, so that a large number of retries does not make a large
// header.
const maxEndpoints = 16
