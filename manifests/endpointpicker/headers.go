package endpointpicker

// Headers in which a request names additional servers, or data stored elsewhere. Pickers set them;
// a client's own are removed.
const (
	// llm-d's routing sidecar, all as host:port: the prefill server, the encode servers, the
	// data-parallel rank, and the server whose cache is read.
	HeaderPrefill      = "x-prefiller-host-port"
	HeaderEncode       = "x-encoder-hosts-ports"
	HeaderDataParallel = "x-data-parallel-host-port"
	headerCacheSource  = "x-kv-cache-source-host-port"

	// Dynamo's frontend, with the prefix x- or x-dynamo-: numbers of workers and of their
	// data-parallel ranks.
	HeaderWorkerID    = "worker-instance-id"
	HeaderPrefillID   = "prefill-instance-id"
	HeaderRank        = "dp-rank"
	HeaderPrefillRank = "prefill-dp-rank"
	// HeaderRoutingMode is aggregated or disaggregated.
	HeaderRoutingMode = "x-dynamo-routing-mode"

	// HeaderTokensKey is the key of the stored token IDs of the prompt. With another tenant's key a
	// server would read that tenant's prompt.
	HeaderTokensKey = "x-req-tokens-key"
)

// RoutingHeaders lists these headers under all their names.
func RoutingHeaders() []string {
	all := []string{HeaderPrefill, HeaderEncode, HeaderDataParallel, headerCacheSource, HeaderRoutingMode,
		HeaderTokensKey, "x-data-parallel-rank"}
	for _, name := range []string{HeaderWorkerID, HeaderPrefillID, HeaderRank, HeaderPrefillRank} {
		all = append(all, "x-"+name, "x-dynamo-"+name)
	}
	return all
}
