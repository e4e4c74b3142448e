package endpointpicker

// These headers name additional servers of a request, or data stored elsewhere. Pickers set them.
// If a client sends them, they are removed.
const (
	// These headers are for llm-d's routing sidecar. They hold, as host:port, the prefill server,
	// the encode servers, the data-parallel rank, and the server whose cache is read.
	HeaderPrefill      = "x-prefiller-host-port"
	HeaderEncode       = "x-encoder-hosts-ports"
	HeaderDataParallel = "x-data-parallel-host-port"
	headerCacheSource  = "x-kv-cache-source-host-port"

	// These headers are for Dynamo's frontend, with the prefix x- or x-dynamo-. They hold the
	// numbers of workers and of their data-parallel ranks.
	HeaderWorkerID    = "worker-instance-id"
	HeaderPrefillID   = "prefill-instance-id"
	HeaderRank        = "dp-rank"
	HeaderPrefillRank = "prefill-dp-rank"
	// HeaderRoutingMode has the value aggregated or disaggregated.
	HeaderRoutingMode = "x-dynamo-routing-mode"

	// HeaderTokensKey has the key of the prompt's stored token IDs. With the key of another tenant,
	// a server would read that tenant's prompt.
	HeaderTokensKey = "x-req-tokens-key"
)

// RoutingHeaders lists the full names of these headers.
func RoutingHeaders() []string {
	all := []string{HeaderPrefill, HeaderEncode, HeaderDataParallel, headerCacheSource, HeaderRoutingMode,
		HeaderTokensKey, "x-data-parallel-rank"}
	for _, name := range []string{HeaderWorkerID, HeaderPrefillID, HeaderRank, HeaderPrefillRank} {
		all = append(all, "x-"+name, "x-dynamo-"+name)
	}
	return all
}
