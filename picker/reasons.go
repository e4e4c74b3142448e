package picker

// A Reason is why a pick responds to a request itself instead of naming an endpoint. The header
// x-penstock-reason, metrics and traces show it.
const (
	ReasonUnknownPool = "unknown_pool"       // 503: the gateway sent no pool, and there is no default
	ReasonNoEndpoints = "no_endpoints"       // 503: no endpoint of the pool accepts requests
	ReasonSubset      = "subset_empty"       // 503: no endpoint in the subset hint is eligible
	ReasonFull        = "pool_full"          // 429: every endpoint is full
	ReasonShed        = "shed"               // 429: no endpoint has room for a sheddable request, or serves it in time
	ReasonQueue       = "queue_full"         // 429: the pool is saturated, and its queue is full
	ReasonTTL         = "queue_ttl"          // 429: the pool was saturated during the request's maximum wait
	ReasonNotResumed  = "start_failed"       // 503: the pool's model servers are stopped, and none starts
	ReasonResumeTime  = "start_timeout"      // 503: no model server of the pool started during the maximum wait
	ReasonResuming    = "start_queue"        // 429: too many requests wait for a model server of the pool to start
	ReasonCanceled    = "client_left"        // the client left while its request waited, so it gets no response
	ReasonRelay       = "relay_failed"       // 503: the remote picker did not answer, or Envoy lacks its endpoint
	ReasonOutOfRange  = "relay_out_of_range" // 503: all addresses of the remote picker are outside the declared ranges
)

// A result is how a pick ended, in metrics and traces. Reasons are also results.
const (
	resultPicked  = "picked"  // the picker chose an endpoint of the pool
	resultSpilled = "spilled" // no pod can take the request; the pick has only the spill targets
	resultRelayed = "relayed" // a remote picker chose the endpoint
	// the remote picker named no endpoint and the pool fails open; the pick has any known endpoints
	resultOpen   = "relay_open"
	resultPassed = "relay_immediate" // a remote picker's 429 or 503, passed on
)

// maxEndpoints bounds a pick's list, so that many retries make no large header.
const maxEndpoints = 16
