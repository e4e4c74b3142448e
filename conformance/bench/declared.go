package main

const none = -1

// figures declares every figure.
var figures = map[string]figure{
	"change_growth":             {"ratio", 2, "One route changes: time from the store's commit to the last byte at a proxy, among 5,000 routes over the same among 100. 1 means that the size does not matter."},
	"change_growth.at_100":      {"ms", none, ""},
	"change_growth.at_5000":     {"ms", none, ""},
	"change_growth.store":       {"ms", none, "Of that: the store's transaction, with the index keys that it changes."},
	"change_growth.translate":   {"ms", none, "Recomputing the results that have read these keys, up to encoded resources."},
	"change_growth.commit":      {"ms", none, "Appending them to the Gateway's log, and notifying its streams."},
	"change_growth.deliver":     {"ms", none, "A stream reads the log and sends; the proxy reads."},
	"change_cpu":                {"ms", 2, "CPU of one such change among 5,000, mean: of the whole serving process until the ACK, garbage collection included. The client is another process."},
	"change_cpu.median":         {"ms", none, ""},
	"change_vs_rebuild":         {"ratio", 0.02, "The same change over a full translation, like that of a control plane without an incremental path: same objects, same bytes, same stream."},
	"change_vs_rebuild.rebuild": {"ms", none, ""},
	"change_cleartext":          {"ms", 10, "CPU of one route's change where 5,000 hosts share a cleartext port, and so a route configuration of over a megabyte, which Envoy only accepts whole."},
	"change_cleartext.median":   {"ms", none, ""},
	"change_cleartext.time":     {"ms", none, ""},

	"endpoint_fanout":                 {"ratio", 1.5, "One endpoint of 50,000 changes, and 1,000 proxies with a connection each receive it: from the store's commit until the last proxy has read it, over sending the same bytes again on the same streams. 1 is the cost of gRPC."},
	"endpoint_fanout.ours":            {"ms", none, ""},
	"endpoint_fanout.constant":        {"ms", none, ""},
	"endpoint_fanout.queued":          {"ratio", none, "The same until the last SendMsg has returned, which is before gRPC has sent anything."},
	"endpoint_fanout_vs_gcp":          {"ratio", 0.05, "The same over go-control-plane's LinearCache, which needs no translation and serves only endpoints."},
	"endpoint_fanout_vs_gcp.gcp":      {"ms", none, ""},
	"endpoint_fanout_vs_gcp.snapshot": {"ms", none, "The same for its SnapshotCache, with one snapshot for all proxies. The time to build the new snapshot does not count."},

	"commit_isolation":         {"ratio", 1.3, "An endpoint's file is saved, to its bytes at a proxy, while the removal of another pool's endpoint waits for a frozen peer, over the same while none waits; medians, in turns. 1 is that no pool waits for another."},
	"commit_isolation.waiting": {"ms", none, ""},
	"commit_isolation.alone":   {"ms", none, ""},

	"lease_phantoms":         {"requests", 0, "Requests that are still counted 5 s after their Envoy was killed: of 100, with as many of another Envoy in flight, by the pickers of two penstock serve."},
	"lease_phantoms.missing": {"requests", none, "Requests of the other Envoy that are not counted then."},

	"cold_start":               {"s", 3, "5,000 routes: from the start of penstock serve with a new folder of files until a proxy, which connects at once, has the last byte of everything."},
	"cold_start.cpu":           {"s", none, "CPU of the process in that time, which depends less on how busy the machine is."},
	"cold_start.restart":       {"s", none, "The same with the state of the first run."},
	"memory_heap":              {"MiB", 120, "Go's heap in the restarted process: the minimum in ten seconds, which is the live heap."},
	"memory_heap.with_garbage": {"MiB", none, "The maximum in the same ten seconds."},
	"memory_rss":               {"MiB", 200, "Its resident memory, as the kernel reports it."},
	"memory_rss.first_start":   {"MiB", none, "The same for the process with the new folder."},
	"memory_rss.streams":       {"MiB", none, "The same with 1,000 streams connected."},
	"reconnect_storm":          {"s", 2, "1,000 proxies reconnect at once and have everything of 5,000 routes: until the last one is answered. It includes the time of the proxies on the same machine."},
	"reconnect_resent":         {"resources", 0, "Resources that were resent in that storm although the proxy had them."},
	"idle_cpu":                 {"% of a core", 0.5, "CPU of the process with 5,000 routes and 1,000 idle streams. No request uses its pools, so their 5,000 endpoints are not scraped, and only keepalives remain."},

	"change_to_effective":     {"ms", 40, "From saving a file of 100 routes, among 5,000, to the first request through a real Envoy that sees the new route; median."},
	"change_to_effective.p90": {"ms", none, ""},

	"failed_requests":                {"requests", 0, "Requests that failed, streams that were cut, and answers by a wrong backend: in 1,000 random changes and 3 restarts (SIGTERM, SIGKILL, SIGSTOP) of each of two penstock serve in turn, with 200 requests a second and 50 streams through a real Envoy."},
	"failed_requests.of":             {"requests", none, ""},
	"failed_requests.streams":        {"requests", none, ""},
	"failed_requests.changes":        {"changes", none, ""},
	"failed_requests.restarts":       {"restarts", none, ""},
	"failed_requests.standstills":    {"times", none, "How often the machine did not run the harness or an Envoy for more than a second, half of a pick's timeout."},
	"failed_requests.in_standstills": {"requests", none, "How many of the failed requests were in flight while the machine stalled. They do not count against Penstock."},

	"dead_names_start":           {"ratio", 1.1, "10,000 host names whose DNS server drops every query: from the start of penstock serve until a proxy, which connects at once, has the last byte of everything, over the same for the same objects with IP addresses; medians, in turns."},
	"dead_names_start.names":     {"s", none, ""},
	"dead_names_start.addresses": {"s", none, ""},

	"attack_ads_memory":        {"ratio", 1.2, "100 streams of ADS that are never authorized, each with a message of 64 MiB: resident memory of penstock serve afterwards over that before; the larger one of a process with credentials and of one on loopback without."},
	"attack_ads_memory.before": {"MiB", none, ""},
	"attack_ads_memory.peak":   {"MiB", none, "The maximum during the attack."},

	"attack_uploads":         {"ratio", 1.5, "200 HTTP/1.1 uploads of 32 MiB that stop before their end, half of them chunked, to a route that holds bodies for their model's name: the 99th percentile of 3,000 requests through another route of the same Envoy, over that of an Envoy without uploads, in turns."},
	"attack_uploads.with":    {"ms", none, ""},
	"attack_uploads.without": {"ms", none, ""},
	"attack_uploads.sending": {"ms", none, "The same while the uploads are sent as fast as the machine can."},
	"attack_uploads.failed":  {"requests", 0, "Requests of the other route that failed, from the first byte of the uploads on."},
	"attack_uploads.held":    {"uploads", none, "Uploads that are held; the others were answered 503."},

	"attack_neighbour":             {"ratio", 1.1, "100 of the largest HTTPRoutes of another namespace, every other one full of regular expressions, on another port of the Gateway: from saving a small route, which has its hostname to itself, to the first request through a real Envoy that sees the change, over the same without them; medians of 300 changes each, in turns."},
	"attack_neighbour.same_chain":  {"ratio", 8, "The same with these routes on the small route's own port, where Envoy builds one route configuration of all."},
	"attack_neighbour.alone":       {"ms", none, ""},
	"attack_neighbour.other_chain": {"ms", none, ""},
	"attack_neighbour.together":    {"ms", none, "On the same port."},

	"served_after_absence":         {"s", 1, "A real Envoy starts while both control planes are down, for 8 s: from when the first of them is ready again until every host is served, the longest of five times. Envoy waits up to half a second between connection attempts."},
	"served_after_absence.started": {"s", none, "The same from the start of their processes."},

	"change_vs_envoy_gateway":              {"ratio", 1, "From saving a file of 100 routes, which are all, to its bytes at a proxy: penstock serve over Envoy Gateway v1.9.1 with its file provider; medians, in turns. The limit is our own: not slower than the peer."},
	"change_vs_envoy_gateway.ours_50":      {"ms", none, ""},
	"change_vs_envoy_gateway.peer_50":      {"ms", none, ""},
	"change_vs_envoy_gateway.cpu_ours_50":  {"ms", none, ""},
	"change_vs_envoy_gateway.cpu_peer_50":  {"ms", none, ""},
	"change_vs_envoy_gateway.ours_100":     {"ms", none, ""},
	"change_vs_envoy_gateway.peer_100":     {"ms", none, ""},
	"change_vs_envoy_gateway.cpu_ours_100": {"ms", none, "CPU of the process for one such change, until it is idle."},
	"change_vs_envoy_gateway.cpu_peer_100": {"ms", none, ""},

	"kube_change_1000":          {"ratio", 3, "On Kubernetes, one HTTPRoute of 1,000 is written: until its bytes are at a proxy, over until a watch of HTTPRoutes in the same run delivers it; medians."},
	"kube_change_1000.bytes":    {"ms", none, ""},
	"kube_change_1000.event":    {"ms", none, ""},
	"kube_change_5000":          {"ratio", 3, "The same among 5,000."},
	"kube_change_5000.bytes":    {"ms", none, ""},
	"kube_change_5000.event":    {"ms", none, ""},
	"kube_change_cpu":           {"ms", 5, "CPU of penstock for one such change among 5,000, including the status."},
	"kube_memory":               {"MiB", 200, "Resident memory with 5,000 routes, each with its own Service and EndpointSlice."},
	"kube_cold_start":           {"s", 3, "From its start with these 5,000 until a proxy has the last byte of everything."},
	"kube_attached":             {"s", 2, "1,000 routes are created at once: from the last write until the Gateway reports 1,000 attachedRoutes and every route is accepted."},
	"kube_attached_writes":      {"writes", 20, "Writes to the Gateway in that time."},
	"kube_failed_requests":      {"requests", 0, "Failed requests, of 200 a second, while a route's backend is switched 20 times, 200 ms apart, and penstock, the backends and the Gateway's Envoys are rolled out, one after the other."},
	"kube_failed_requests.sent": {"requests", none, ""},

	"pick_memory":           {"MiB", 300, "Memory of the prompt prefixes of 1,000 endpoints, 4 Mi blocks of prompts without common prefixes."},
	"sim_chat":              {"ratio", 0.25, "Simulated chat with shared system prompts, 8 servers, 70 % load: TTFT p50 of strategy load over that of exact least in flight. All sim figures are means of 5 drawings, and all strategies get the same arrivals."},
	"sim_chat.at_50":        {"ratio", 0.45, "The same at 50 % load."},
	"sim_best":              {"ratio", 1.03, "TTFT p90 of strategy load over that of the best of all other strategies, those of other routers included: the worst of 7 workloads at 50 and 70 % load. Standard error has all figures."},
	"sim_best.at_90":        {"ratio", 1.1, "The same at 90 % load."},
	"sim_best.mean":         {"ratio", 0.9, "The geometric mean of all workloads and loads."},
	"sim_best.vs_reference": {"ratio", none, "TTFT p90 of strategy load over that of the same cost with exact knowledge: the geometric mean at 70 % load."},
	"sim_best_p50":          {"ratio", 1.15, "TTFT p50 of strategy load over that of the best other one: the worst workload at 50 and 70 % load."},
	"sim_best_e2e":          {"ratio", 1.03, "The same for the mean time to the end of the response."},
	"sim_capacity":          {"ratio", 1, "The rate at which the p90 of the time from arrival to first scheduled is 5 s: of the best other strategy over that of strategy load, the worst workload."},
	"sim_two_pickers":       {"ratio", 1.1, "TTFT p90 at 70 % load with two pickers whose picks, first bytes and ends reach each other after 50 ms, over that with one: the geometric mean of the workloads."},
	"sim_two_pickers.apart": {"ratio", none, "The same if the two share nothing."},
	"sim_slow_pages":        {"ratio", 1.1, "TTFT p90 at 70 % load with metrics pages that take 1 s, or are gone, over that with fresh pages; a second picker that shares nothing sends half of the requests. The geometric mean of the workloads."},
	"sim_slow_pages.slow":   {"ratio", none, ""},
	"sim_slow_pages.gone":   {"ratio", none, ""},
	"sim_join":              {"ratio", 2, "TTFT p90 in the 10 s after the eighth server has joined empty, at 45 % load, over that of the same requests if it was there from the start: the worst workload, over 20 drawings."},
	"sim_overload_lost":     {"share", 0.3, "The share of the capacity that is lost at 3 times 100 % load with shedAfter 1.5 s: goodput is requests whose first byte comes within 5 s. The worst workload."},
}

func haveKube(c config) bool     { return c.penstock != "" && c.labs }
func havePicker(c config) bool   { return c.picker }
func havePenstock(c config) bool { return c.penstock != "" }
func haveEnvoy(c config) bool    { return c.penstock != "" && c.envoy != "" }
func havePeer(c config) bool     { return c.penstock != "" && c.envoyGateway != "" }

// measurements are all measurements, in order.
var measurements = []measurement{
	{names: []string{"change_growth", "change_cpu", "change_vs_rebuild"}, what: "one route's change among 100 and among 5,000 routes", run: measureChange},
	{names: []string{"change_cleartext"}, what: "one route's change among 5,000 on one cleartext port", run: measureCleartext},
	{names: []string{"endpoint_fanout", "endpoint_fanout_vs_gcp"}, what: "one endpoint's change to 1,000 streams", run: measureFanout},
	{names: []string{"commit_isolation"}, what: "an endpoint's change while another pool's removal waits for a frozen peer", needs: havePenstock, run: measureIsolation},
	{names: []string{"lease_phantoms"}, what: "the requests in flight of an Envoy that is killed", needs: haveEnvoy, run: measurePhantoms},
	{names: []string{"cold_start", "memory_heap", "memory_rss", "reconnect_storm", "reconnect_resent", "idle_cpu"}, what: "penstock serve with 5,000 routes and 1,000 streams", needs: havePenstock, run: measureProcess},
	{names: []string{"change_to_effective"}, what: "a saved file to a request through Envoy", needs: haveEnvoy, run: measureEffective},
	{names: []string{"failed_requests"}, what: "1,000 random changes and 6 restarts under load, on a real Envoy: about 5 minutes", needs: haveEnvoy, run: measureLoss},
	{names: []string{"dead_names_start"}, what: "a start with 10,000 names that do not resolve", needs: havePenstock, run: measureDeadNames},
	{names: []string{"attack_ads_memory"}, what: "streams of ADS that are never authorized", needs: havePenstock, run: measureADSMemory},
	{names: []string{"attack_uploads"}, what: "200 stalled uploads beside another route's requests", needs: haveEnvoy, run: measureUploads},
	{names: []string{"attack_neighbour"}, what: "a route's change beside the largest routes of another namespace", needs: haveEnvoy, run: measureNeighbour},
	{names: []string{"served_after_absence"}, what: "an Envoy that starts while both control planes are down", needs: haveEnvoy, run: measureAbsence},
	{names: []string{"change_vs_envoy_gateway"}, what: "a saved file to bytes at a proxy, beside Envoy Gateway", needs: havePeer, run: measurePeer},
	{names: []string{"kube_change_1000", "kube_change_5000", "kube_change_cpu", "kube_memory", "kube_cold_start"}, what: "one route's change on Kubernetes", needs: haveKube, run: measureKube},
	{names: []string{"kube_attached", "kube_attached_writes"}, what: "1,000 routes at once on Kubernetes", needs: haveKube, run: measureAttached},
	{names: []string{"kube_failed_requests"}, what: "common operations on Kubernetes", needs: haveKube, run: measureKubeTraffic},
	{names: []string{"pick_memory"}, what: "a full index of prompt prefixes", needs: havePicker, run: measurePickMemory},
	{names: []string{"sim_chat", "sim_best", "sim_best_p50", "sim_best_e2e"}, what: "strategies of picking, by simulation", needs: havePicker, run: measureBest},
	{names: []string{"sim_capacity"}, what: "their capacities, by simulation", needs: havePicker, run: measureCapacity},
	{names: []string{"sim_two_pickers"}, what: "two pickers, by simulation", needs: havePicker, run: measureTwoPickers},
	{names: []string{"sim_slow_pages"}, what: "slow metrics pages, by simulation", needs: havePicker, run: measureSlowPages},
	{names: []string{"sim_join"}, what: "a server that joins, by simulation", needs: havePicker, run: measureJoin},
	{names: []string{"sim_overload_lost"}, what: "overload, by simulation", needs: havePicker, run: measureOverload},
}
