package endpointpicker

// Headers by which a request names further servers, or what is stored elsewhere, to the one that
// serves it. Pickers set them; a client's own are removed.
const (
	// Of llm-d's routing sidecar: the server that reads the prompt, those that encode images, the
	// data-parallel rank, and the server whose cache is read. All are host:port.
	HeaderPrefill      = "x-prefiller-host-port"
	HeaderEncode       = "x-encoder-hosts-ports"
	HeaderDataParallel = "x-data-parallel-host-port"
	headerCacheSource  = "x-kv-cache-source-host-port"

	// Of Dynamo's frontend, each with the prefix x- or x-dynamo-: numbers of workers and of their
	// data-parallel ranks.
	HeaderWorkerID    = "worker-instance-id"
	HeaderPrefillID   = "prefill-instance-id"
	HeaderRank        = "dp-rank"
	HeaderPrefillRank = "prefill-dp-rank"
	// HeaderRoutingMode is aggregated or disaggregated.
	HeaderRoutingMode = "x-dynamo-routing-mode"

	// HeaderTokensKey is where the prompt's token IDs are stored. With the key of another tenant a
	// server would read that one's prompt.
	HeaderTokensKey = "x-req-tokens-key"
)

// RoutingHeaders are all of these headers, under all of their names.
func RoutingHeaders() []string {
	all := []string{HeaderPrefill, HeaderEncode, HeaderDataParallel, headerCacheSource, HeaderRoutingMode,
		HeaderTokensKey, "x-data-parallel-rank"}
	for _, name := range []string{HeaderWorkerID, HeaderPrefillID, HeaderRank, HeaderPrefillRank} {
		all = append(all, "x-"+name, "x-dynamo-"+name)
	}
	return all
}
