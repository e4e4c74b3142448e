package main

const none = -1

// figures declares every figure.
var figures = map[string]figure{
	"change_growth": {
		"ratio", 2,
		"One route changes: time from the store's commit to the last byte at a proxy, among 5,000 routes over the " +
			"same among 100. 1 means that the size does not matter.",
	},
	"change_growth.at_100":  {"ms", none, ""},
	"change_growth.at_5000": {"ms", none, ""},
	"change_growth.store":   {"ms", none, "Of that: the store's transaction, with the index keys that it changes."},
	"change_growth.translate": {
		"ms", none, "Recomputing the results that have read these keys, up to encoded resources.",
	},
	"change_growth.commit":  {"ms", none, "Appending them to the Gateway's log, and notifying its streams."},
	"change_growth.deliver": {"ms", none, "A stream reads the log and sends; the proxy reads."},
	"change_cpu": {
		"ms", 2,
		"CPU of one such change among 5,000, mean: of the whole serving process until the ACK, garbage collection " +
			"included. The client is another process.",
	},
	"change_cpu.median": {"ms", none, ""},
	"change_vs_rebuild": {
		"ratio", 0.02,
		"The same change over a full translation, like that of a control plane without an incremental path: same " +
			"objects, same bytes, same stream.",
	},
	"change_vs_rebuild.rebuild": {"ms", none, ""},
	"change_cleartext": {
		"ms", 10,
		"CPU of one route's change where 5,000 hosts share a cleartext port, and so a route configuration of over a " +
			"megabyte, which Envoy only accepts whole.",
	},
	"change_cleartext.median": {"ms", none, ""},
	"change_cleartext.time":   {"ms", none, ""},

	"endpoint_fanout": {"ratio", 1.5,
		"One endpoint of 50,000 changes, and 1,000 proxies with a connection each receive it: from the store's " +
			"commit until the last proxy has read it, over sending the same bytes again on the same streams. 1 is " +
			"the cost of gRPC."},
	"endpoint_fanout.ours":     {"ms", none, ""},
	"endpoint_fanout.constant": {"ms", none, ""},
	"endpoint_fanout.queued": {"ratio", none,
		"The same until the last SendMsg has returned, which is before gRPC has sent anything."},
	"endpoint_fanout_vs_gcp": {"ratio", 0.05,
		"The same over go-control-plane's LinearCache, which needs no translation and serves only endpoints."},
	"endpoint_fanout_vs_gcp.gcp": {"ms", none, ""},
	"endpoint_fanout_vs_gcp.snapshot": {"ms", none,
		"The same for its SnapshotCache, with one snapshot for all proxies. The time to build the new snapshot does " +
			"not count."},

	"commit_isolation": {
		"ratio", 1.3,
		"An endpoint's file is saved, to its bytes at a proxy, while the removal of another pool's endpoint waits " +
			"for a frozen peer, over the same while none waits; medians, in turns. 1 is that no pool waits " +
			"for another.",
	},
	"commit_isolation.waiting": {"ms", none, ""},
	"commit_isolation.alone":   {"ms", none, ""},

	"lease_phantoms": {
		"requests", 0,
		"Requests that are still counted 5 s after their Envoy was killed: of 100, with as many of another Envoy in " +
			"flight, by the pickers of two penstock serve.",
	},
	"lease_phantoms.missing": {"requests", none, "Requests of the other Envoy that are not counted then."},

	"dead_pool_seen": {
		"s", 2,
		"The last of a pool's three servers is killed, to the Warning of penstock up, without a request: the " +
			"longest of 5.",
	},
	"dead_pool_seen.frozen": {"s", none, "The same if the servers are stopped (SIGSTOP), with 20 requests a second."},

	"cold_start": {
		"s", 3,
		"5,000 routes: from the start of penstock serve with a new folder of files until a proxy, which connects at " +
			"once, has the last byte of everything.",
	},
	"cold_start.cpu": {
		"s", none, "CPU of the process in that time, which depends less on how busy the machine is.",
	},
	"cold_start.restart": {"s", none, "The same with the state of the first run."},
	"memory_heap": {
		"MiB", 120, "Go's heap in the restarted process: the minimum in ten seconds, which is the live heap.",
	},
	"memory_heap.with_garbage": {"MiB", none, "The maximum in the same ten seconds."},
	"memory_rss":               {"MiB", 200, "Its resident memory, as the kernel reports it."},
	"memory_rss.first_start":   {"MiB", none, "The same for the process with the new folder."},
	"memory_rss.streams":       {"MiB", none, "The same with 1,000 streams connected."},
	"reconnect_storm": {
		"s", 2,
		"1,000 proxies reconnect at once and have everything of 5,000 routes: until the last one is answered. It " +
			"includes the time of the proxies on the same machine.",
	},
	"reconnect_resent": {
		"resources", 0, "Resources that were resent in that storm although the proxy had them.",
	},
	"idle_cpu": {"% of a core", 0.5,
		"CPU of the process with 5,000 routes and 1,000 idle streams. No request uses its pools, so their 5,000 " +
			"endpoints are not scraped, and only keepalives remain."},

	"change_to_effective": {
		"ms", 40,
		"From saving a file of 100 routes, among 5,000, to the first request through a real Envoy that sees the new " +
			"route; median.",
	},
	"change_to_effective.p90": {"ms", none, ""},

	"failed_requests": {"requests", 0,
		"Requests that failed, streams that were cut, and answers by a wrong backend: in 1,000 random changes and 3 " +
			"restarts (SIGTERM, SIGKILL, SIGSTOP) of each of two penstock serve in turn, with 200 requests a second " +
			"and 50 streams through a real Envoy."},
	"failed_requests.of":       {"requests", none, ""},
	"failed_requests.streams":  {"requests", none, ""},
	"failed_requests.changes":  {"changes", none, ""},
	"failed_requests.restarts": {"restarts", none, ""},
	"failed_requests.standstills": {"times", none,
		"How often the machine did not run the harness or an Envoy for more than a second, half of a pick's timeout."},
	"failed_requests.in_standstills": {"requests", none,
		"How many of the failed requests were in flight while the machine stalled. They do not count " +
			"against Penstock."},

	"mc_export_to_request_hub": {"ratio", 20,
		"The annotation of an export is written, to the first request through a Gateway of another cluster that the " +
			"pool serves, over an annotation written to the event that a watch sends; medians, in turns. A hub, and " +
			"two clusters on Kubernetes."},
	"mc_export_to_request_hub.ours":  {"ms", none, ""},
	"mc_export_to_request_hub.event": {"ms", none, ""},
	"mc_hub_writes": {"writes", 1,
		"Writes of a member's import for one change of an export: the mean of 20."},
	"mc_hub_writes_restart": {"writes", 0,
		"Writes of imports and pools after a hub was killed and started again without a change."},

	"mc_failed_requests.control": {"requests", 0,
		"Three clusters on Kubernetes, plain, streamed and 1 MB requests: those that failed while Penstocks and hubs " +
			"are killed, control links cut, exports withdrawn, modes changed, members drained, removed and joined, " +
			"versions and clocks apart (conformance/promises/members)."},
	"mc_failed_requests.control_of": {"requests", none, ""},
	"mc_failed_requests.data": {"requests", 0,
		"The same where a cluster is lost whole, or its pickers, servers or gateways, less data_excepted."},
	"mc_failed_requests.data_of": {"requests", none, ""},
	"mc_failed_requests.data_excepted": {"requests", none,
		"Failed requests that were in flight at the loss, or sent within 3 s of it."},
	"mc_failed_requests.experiments": {"experiments", none, ""},
	"mc_failed_requests.experiments_failed": {"experiments", 0,
		"Those that failed, with a failed request or without one: what they are to show they have not shown."},
	"mc_blackhole": {"s", 3,
		"The longest time of a request that was sent after such a loss, to the end of its answer."},

	"mc_export_to_request": {
		"ratio", 10,
		"A pool's file is saved with the annotation of an export, to the first request through an Envoy of another " +
			"cluster that it serves, over a file of a pool saved to the event that a watch of the objects sends; " +
			"medians, in turns. Two penstock up, federated.",
	},
	"mc_export_to_request.ours":  {"ms", none, ""},
	"mc_export_to_request.event": {"ms", none, ""},
	"mc_hop_cpu": {
		"ratio", 1.6,
		"CPU of Envoy for a request of 1 KB through the hop of an import with two clusters, over that to an import " +
			"with one of the same gateways (ParentMode), through the same saturated Envoy, in turns. No picks.",
	},
	"mc_hop_cpu.hop":    {"us", none, ""},
	"mc_hop_cpu.direct": {"us", none, ""},
	"mc_added_latency": {
		"ratio", 1.3,
		"Requests, one at a time, to a pool of another cluster in EndpointMode, over those to the same pool in its " +
			"own cluster: medians of 400, in turns. Two penstock up, federated.",
	},
	"mc_added_latency_parent": {
		"ratio", 2.5, "The same in ParentMode, through the other cluster's ordinary gateway in cleartext.",
	},
	"mc_spill": {
		"ratio", 1.3,
		"Requests, one at a time, to a pool here that has no server and spills to the pool of another cluster in " +
			"EndpointMode, over those that are sent there directly: medians of 400, in the same turns as " +
			"mc_added_latency.",
	},
	"mc_spill.spilled": {"ms", none, ""},
	"mc_imports_memory": {
		"ratio", 1.15,
		"Resident memory of an Envoy with 1,000 imports of three clusters in ParentMode, each a cluster of hops to " +
			"them, over that with routes to as many clusters (4,000) without hops.",
	},
	"mc_imports_memory.hops":     {"MiB", none, ""},
	"mc_imports_memory.clusters": {"MiB", none, ""},
	"mc_imports_live": {
		"ratio", 1.3,
		"Time from the start of these Envoys until they accept connections: medians of three starts each, in turns.",
	},
	"mc_imports_live.hops":      {"s", none, ""},
	"mc_imports_live.clusters":  {"s", none, ""},
	"mc_added_latency.own":      {"ms", none, ""},
	"mc_added_latency.endpoint": {"ms", none, ""},
	"mc_added_latency.parent":   {"ms", none, ""},
	"mc_pod_gone": {
		"ratio", 3,
		"A model server is removed from the file, to the last request that is sent to it, of clients in another " +
			"cluster over those in its own; medians, in turns.",
	},
	"mc_pod_gone.elsewhere": {"ms", none, ""},
	"mc_pod_gone.own":       {"ms", none, ""},
	"mc_sync": {
		"ratio", 4.5,
		"100 clusters export 100 pools with 10 endpoints each: from saving the ClusterSet with them to the last " +
			"endpoint in the importer's store, over streaming the same bytes from as many servers over mTLS; " +
			"medians, in turns.",
	},
	"mc_sync.ours":    {"ms", none, ""},
	"mc_sync.streams": {"ms", none, ""},
	"mc_sync.bytes": {
		"MiB", none, "What the members send, counted at their sockets; each stream has as many.",
	},
	"mc_sync.shared": {
		"ms", none,
		"The same time where all clusters export pools of the same 100 names: 100 imports of 100 clusters each.",
	},
	"mc_change_cpu": {
		"ratio", 2,
		"CPU of the importer for one endpoint of these that changes, over the same with one cluster with one pool; " +
			"what it uses without changes is subtracted.",
	},
	"mc_change_cpu.at_100": {"ms", none, ""},
	"mc_change_cpu.at_1":   {"ms", none, ""},
	"mc_change_cpu.idle":   {"% of a core", none, "What the importer uses without changes, with all clusters."},
	"mc_change_cpu.time":   {"ms", none, "From the change to the importer's store, with all clusters."},
	"sel_p90": {
		"ratio", 1.05,
		"Gateways of 3 clusters with 8 servers each choose among the clusters (LeastLoad): TTFT p90 with the network " +
			"over that of one picker with exact knowledge of all servers, by simulation, on the same drawings; the " +
			"geometric mean of 7 workloads at 70 % load. Standard error has all figures.",
	},
	"sel_p90.at_50": {"ratio", none, "The same at 50 % load."},
	"sel_p90.at_90": {"ratio", 1.10, "The same at 90 % load."},
	"sel_p90.worst": {"ratio", 1.10, "The worst workload at 50 and 70 % load."},
	"sel_leave": {
		"ratio", 1.05,
		"The share of requests served outside of the cluster that they entered, over that of the same reference, at " +
			"70 % load.",
	},
	"sel_stale": {
		"ratio", 1.15, "sel_p90 when one of the clusters reports every 5 s, the others every 200 ms.",
	},
	"sel_stale.share": {
		"share", 0.08,
		"The largest share of a second's requests that goes to one cluster, less that of the reference; the mean of " +
			"the seconds.",
	},
	"sel_dead": {
		"ratio", 1.15, "A cluster dies at 50 % load: TTFT p90 of the next 10 s, over that of the reference.",
	},
	"mc_memory": {
		"MiB", 250, "Resident memory of the importer with all clusters, above that without.",
	},
	"mc_memory.none": {"MiB", none, ""},

	"attack_member_memory": {
		"ratio", 0.5,
		"Peak resident memory of an importer under each attack of a hostile member (conformance/promises/attacks), " +
			"over the memory limit of its container in the chart.",
	},
	"attack_member_memory.peak": {"MiB", none, ""},
	"attack_hub_memory": {
		"ratio", 0.5,
		"The same of a hub with three members whose API servers have 1,000,000 objects of each kind, in pages, in " +
			"one response and as watched events, beside two honest ones.",
	},
	"attack_member_p99": {
		"ratio", 1.5,
		"The 99th percentile of 2,000 requests through an importer's Envoy beside the worst of 13 attacks of a " +
			"member, which has a quarter of a core, over the one of as many while it is stopped; median of 5 " +
			"pairs, in turns.",
	},

	"dead_names_start": {
		"ratio", 1.1,
		"10,000 host names whose DNS server drops every query: from the start of penstock serve until a proxy, which " +
			"connects at once, has the last byte of everything, over the same for the same objects with IP " +
			"addresses; medians, in turns.",
	},
	"dead_names_start.names":     {"s", none, ""},
	"dead_names_start.addresses": {"s", none, ""},

	"attack_ads_memory": {
		"ratio", 1.2,
		"100 streams of ADS that are never authorized, each with a message of 64 MiB: resident memory of penstock " +
			"serve afterwards over that before; the larger one of a process with credentials and of one at a " +
			"socket without.",
	},
	"attack_ads_memory.before": {"MiB", none, ""},
	"attack_ads_memory.peak":   {"MiB", none, "The maximum during the attack."},

	"attack_uploads": {
		"ratio", 1.5,
		"200 HTTP/1.1 uploads of 32 MiB that stop before their end, half of them chunked, to a route that holds " +
			"bodies for their model's name: the 99th percentile of 3,000 requests through another route of the same " +
			"Envoy, over that of an Envoy without uploads, in turns.",
	},
	"attack_uploads.with":    {"ms", none, ""},
	"attack_uploads.without": {"ms", none, ""},
	"attack_uploads.sending": {"ms", none, "The same while the uploads are sent as fast as the machine can."},
	"attack_uploads.failed": {
		"requests", 0, "Requests of the other route that failed, from the first byte of the uploads on.",
	},
	"attack_uploads.held": {"uploads", none, "Uploads that are held; the others were answered 503."},

	"attack_neighbour": {"ratio", 1.1,
		"100 of the largest HTTPRoutes of another namespace, every other one full of regular expressions, on another " +
			"port of the Gateway: from saving a small route, which has its hostname to itself, to the first request " +
			"through a real Envoy that sees the change, over the same without them; medians of 300 changes " +
			"each, in turns."},
	"attack_neighbour.same_chain": {
		"ratio", 8,
		"The same with these routes on the small route's own port, where Envoy builds one route configuration of all " +
			"that have room in the budget of their namespace.",
	},
	"attack_neighbour.alone":       {"ms", none, ""},
	"attack_neighbour.other_chain": {"ms", none, ""},
	"attack_neighbour.together":    {"ms", none, "On the same port."},

	"served_after_absence": {
		"s", 1,
		"A real Envoy starts while both control planes are down, for 8 s: from when the first of them is ready again " +
			"until every host is served, the longest of five times. Envoy waits up to half a second between " +
			"connection attempts.",
	},
	"served_after_absence.started": {"s", none, "The same from the start of their processes."},

	"change_vs_envoy_gateway": {"ratio", 1,
		"From saving a file of 100 routes, which are all, to its bytes at a proxy: penstock serve over Envoy Gateway " +
			"v1.9.1 with its file provider; medians, in turns. The limit is our own: not slower than the peer."},
	"change_vs_envoy_gateway.ours_50":      {"ms", none, ""},
	"change_vs_envoy_gateway.peer_50":      {"ms", none, ""},
	"change_vs_envoy_gateway.cpu_ours_50":  {"ms", none, ""},
	"change_vs_envoy_gateway.cpu_peer_50":  {"ms", none, ""},
	"change_vs_envoy_gateway.ours_100":     {"ms", none, ""},
	"change_vs_envoy_gateway.peer_100":     {"ms", none, ""},
	"change_vs_envoy_gateway.cpu_ours_100": {"ms", none, "CPU of the process for one such change, until it is idle."},
	"change_vs_envoy_gateway.cpu_peer_100": {"ms", none, ""},

	"kube_change_1000": {
		"ratio", 3,
		"On Kubernetes, one HTTPRoute of 1,000 is written: until its bytes are at a proxy, over until a watch of " +
			"HTTPRoutes in the same run delivers it; medians.",
	},
	"kube_change_1000.bytes": {"ms", none, ""},
	"kube_change_1000.event": {"ms", none, ""},
	"kube_change_5000":       {"ratio", 3, "The same among 5,000."},
	"kube_change_5000.bytes": {"ms", none, ""},
	"kube_change_5000.event": {"ms", none, ""},
	"kube_change_cpu":        {"ms", 5, "CPU of penstock for one such change among 5,000, including the status."},
	"kube_memory": {
		"MiB", 210,
		"Resident memory with 5,000 routes, each with its own Service and EndpointSlice. 10 to 13 MiB of it are the " +
			"board's go-memdb (BenchmarkBoard_Memory).",
	},
	"kube_cold_start": {
		"s", 3, "From its start with these 5,000 until a proxy has the last byte of everything.",
	},
	"kube_attached": {
		"s", 2,
		"1,000 routes are created at once: from the last write until the Gateway reports 1,000 attachedRoutes and " +
			"every route is accepted.",
	},
	"kube_attached_writes": {"writes", 20, "Writes to the Gateway in that time."},
	"kube_failed_requests": {
		"requests", 0,
		"Failed requests, of 200 a second, while a route's backend is switched 20 times, 200 ms apart, and penstock, " +
			"the backends and the Gateway's Envoys are rolled out, one after the other.",
	},
	"kube_failed_requests.sent": {"requests", none, ""},

	"pick_none": {
		"ratio", 1.1,
		"CPU of our picker for a request of 1 KB through a real Envoy with one saturated worker, 10 model servers: " +
			"it gets headers alone. Over that of an echo: grpc-go with its default codec and as many " +
			"processors, in turns.",
	},
	"pick_none.ours": {"us", none, ""},
	"pick_none.peer": {"us", none, ""},
	"pick_none.rate": {"requests/s", none, "At which Envoy was saturated."},
	"pick_1k": {
		"ratio", 1.1,
		"The same with the whole body (BUFFERED), whose prompt is read, hashed and matched with what each server " +
			"has cached.",
	},
	"pick_1k.ours":   {"us", none, ""},
	"pick_1k.peer":   {"us", none, ""},
	"pick_1k.rate":   {"requests/s", none, ""},
	"pick_10k":       {"ratio", 1, "The same for 10 KB."},
	"pick_10k.ours":  {"us", none, ""},
	"pick_10k.peer":  {"us", none, ""},
	"pick_10k.rate":  {"requests/s", none, ""},
	"pick_100k":      {"ratio", 0.7, "The same for 100 KB."},
	"pick_100k.ours": {"us", none, ""},
	"pick_100k.peer": {"us", none, ""},
	"pick_100k.rate": {"requests/s", none, ""},
	"pick_400k":      {"ratio", 0.7, "The same for 400 KB."},
	"pick_400k.ours": {"us", none, ""},
	"pick_400k.peer": {"us", none, ""},
	"pick_400k.rate": {"requests/s", none, ""},
	"pick_vs_json": {
		"ratio", 0.25,
		"The same for 100 KB over an echo that also decodes the body as JSON and hashes its messages in blocks, as " +
			"llm-d's router does.",
	},
	"pick_vs_json.ours": {"us", none, ""},
	"pick_vs_json.peer": {"us", none, ""},
	"pick_vs_json.rate": {"requests/s", none, ""},
	"pick_p99": {
		"ratio", 1.5,
		"99th percentile of the time of Envoy's call for a request of 1 KB, at half of the rate at which it is " +
			"saturated, over the same for the echo, in turns: the worse of headers alone and whole bodies.",
	},
	"pick_p99.headers_ours": {"us", none, ""},
	"pick_p99.headers_echo": {"us", none, ""},
	"pick_p99.prompts_ours": {"us", none, ""},
	"pick_p99.prompts_echo": {"us", none, ""},

	"pick_tax": {
		"ratio", 3.6,
		"CPU of Envoy and penstock up, access log included, for a request of 1 KB to a pool that picks by headers " +
			"alone, over that of a request to a Service of the same servers, through the same saturated " +
			"Envoy, in turns.",
	},
	"pick_tax.ours":        {"us", none, ""},
	"pick_tax.service":     {"us", none, ""},
	"pick_tax_prefix":      {"ratio", 6, "The same for a pool that reads prompts, which is the default."},
	"pick_tax_prefix.ours": {"us", none, ""},

	"pick_memory": {
		"MiB", 300, "Memory of the prompt prefixes of 1,000 endpoints, 4 Mi blocks of prompts without common prefixes.",
	},
	"dropin_failed": {
		"requests", 0,
		"Requests that failed while two penstock picker, with the flags and the EndpointPickerConfig of llm-d's " +
			"chart, were replaced twice each, one after the other, behind an Envoy with nothing of Penstock.",
	},
	"dropin_failed.of": {"requests", none, ""},
	"scrape_rate": {
		"pages/s", 2,
		"Reads of the metrics page of one endpoint of 100, by two processes that pick 10 times a second in all.",
	},
	"pick_idle": {
		"% of a core", 2,
		"CPU of reading the metrics pages of 100 servers, 22 KB each, of a pool that picks once a second.",
	},
	"pick_idle.pages":        {"pages/s", none, ""},
	"pick_scrape_50ms":       {"% of a core", 30, "The same where picks have each page read every 50 ms."},
	"pick_scrape_50ms.pages": {"pages/s", none, ""},
	"flow_off":               {"ns", 5, "What a pick spends on flow control that is off."},
	"flow_idle": {
		"ratio", 1.08,
		"CPU of our picker for a request of 1 KB through a real Envoy with one saturated worker, by headers alone, " +
			"with flow control and nothing that waits, over that without, in turns.",
	},
	"rewrite_100k": {
		"ratio", 1.15,
		"CPU of our picker for a request of 100 KB through a real Envoy with one saturated worker whose model it " +
			"replaces, over that of one whose model stays, in turns.",
	},
	"models_1000": {"ratio", 1.05, "The same for 1 KB with 1,000 InferenceModels in the pool, over one."},
	"process_down": {
		"ratio", 1.2,
		"p99 of requests of 1 KB through a real Envoy while the pool's processor never answers, over that without a " +
			"processor, at 400 requests a second, in turns. The breaker is open, and tries again meanwhile.",
	},
	"process_down.p50":     {"ratio", none, ""},
	"process_down.longest": {"ms", none, "The one that asks the processor again."},
	"flow_idle.prompts":    {"ratio", none, "The same with the whole body, whose prompt is read."},
	"flow_fair": {
		"ratio", 1.1,
		"Simulated chat, 8 servers, flow control: four fairness IDs at 31 times 100 % load, one of which sends 100 " +
			"times as many requests as each of the others: the largest part that one of them is served over a quarter.",
	},
	"flow_critical": {
		"ratio", 1.3,
		"Simulated chat, 8 servers, flow control: p99 of the TTFT of Critical requests at 50 % load, while 5 times " +
			"100 % load of Sheddable ones is offered, over that without these. Mean of 5 drawings.",
	},
	"flow_critical.off":    {"ratio", none, "The same without flow control."},
	"flow_critical.at_70":  {"ratio", none, "With Critical requests at 70 % load."},
	"flow_critical.rag":    {"ratio", none, "With long documents as prompts, which are shared."},
	"flow_critical.bursts": {"ratio", none, "With long prompts in bursts."},
	"flow_critical.lora": {
		"ratio", none,
		"With 24 adapters, of which a server has 4: a slot that a running Sheddable request uses is not free for " +
			"another adapter.",
	},
	"kv_event": {
		"us", 3,
		"CPU of a model server's KV events, per block of 16 tokens, both ends of the connection: prompts of 2,048 " +
			"tokens at a server whose cache is full.",
	},
	"sim_chat": {
		"ratio", 0.25,
		"Simulated chat with shared system prompts, 8 servers, 70 % load: TTFT p50 of strategy load over that of " +
			"exact least in flight. All sim figures are means of 5 drawings, and all strategies get the same arrivals.",
	},
	"sim_chat.at_50": {"ratio", 0.45, "The same at 50 % load."},
	"sim_best": {
		"ratio", 1.03,
		"TTFT p90 of strategy load over that of the best of all other strategies, those of other routers included: " +
			"the worst of 7 workloads at 50 and 70 % load. Standard error has all figures.",
	},
	"sim_best.at_90": {"ratio", 1.1, "The same at 90 % load."},
	"sim_best.mean":  {"ratio", 0.9, "The geometric mean of all workloads and loads."},
	"sim_best.vs_reference": {
		"ratio", none,
		"TTFT p90 of strategy load over that of the same cost with exact knowledge: the geometric mean at 70 % load.",
	},
	"sim_best_p50": {
		"ratio", 1.15,
		"TTFT p50 of strategy load over that of the best other one: the worst workload at 50 and 70 % load.",
	},
	"sim_best_e2e": {"ratio", 1.03, "The same for the mean time to the end of the response."},
	"sim_capacity": {
		"ratio", 1,
		"The rate at which the p90 of the time from arrival to first scheduled is 5 s: of the best other strategy " +
			"over that of strategy load, the worst workload.",
	},
	"sim_two_pickers": {
		"ratio", 1.1,
		"TTFT p90 at 70 % load with two pickers whose picks, first bytes and ends reach each other after 50 ms, over " +
			"that with one: the geometric mean of the workloads.",
	},
	"sim_two_pickers.apart": {"ratio", none, "The same if the two share nothing."},
	"sim_slow_pages": {
		"ratio", 1.1,
		"TTFT p90 at 70 % load with metrics pages that take 1 s, or are gone, over that with fresh pages; a second " +
			"picker that shares nothing sends half of the requests. The geometric mean of the workloads.",
	},
	"sim_slow_pages.slow": {"ratio", none, ""},
	"sim_slow_pages.gone": {"ratio", none, ""},
	"sim_join": {
		"ratio", 2,
		"TTFT p90 in the 10 s after the eighth server has joined empty, at 45 % load, over that of the same requests " +
			"if it was there from the start: the worst workload, over 20 drawings.",
	},
	"release_same": {"bytes", 0,
		"Bytes that differ between dist/ and a second build of the same commit: in a clone, later, in another " +
			"time zone, " +
			"with another mask of modes. Signatures do not count. Both builds use one cache of compiled packages."},
	"release_same.files": {"files", none, ""},
	"release_start": {"s", 20,
		"The archive is unpacked until penstock demo has a streamed answer, in a network namespace with " +
			"loopback alone, " +
			"without Go and without another Envoy."},
	"release_start.unpack": {"s", none, ""},
	"binary_size":          {"MiB", 90, "The stripped program of this machine's platform in the archive."},

	"drain_cut": {"streams", 0,
		"Streams of 5 s through a real Envoy that SIGTERM of penstock up cuts, while 8 other clients send " +
			"requests."},
	"drain_cut.of": {"streams", none, ""},
	"explain_differs": {"requests", 0, "Of 20,000 forms of requests, with escapes, dots and slashes in paths, " +
		"encoded and repeated parameters, repeated headers and hosts in all forms, those that penstock explain " +
		"explains other " +
		"than a real Envoy routes them. The grammar has every type of match; each day has a seed of its own " +
		"($EXPLAIN_SEED)."},
	"frozen_wait": {"s", 3,
		"Longest time to the first token of streams at 60 % load of three servers of penstock sim, of which one " +
			"is stopped, " +
			"through a real Envoy. Prompts have 100 KB, headers wait for a tokenizer. Streams that had headers of " +
			"the stopped server do not count."},
	"frozen_wait.late": {"streams", none, "Those that took longer than 1 s."},
	"frozen_storm": {"ratio", 1.02,
		"The same at 120 % load, and no server stops: streams whose first token comes within 3 s without a limit " +
			"for headers, " +
			"over those with it (picker.headersTimeout), one after the other. At most 1.02 means that at least 0.98 " +
			"of them are served in time."},
	"frozen_storm.with":    {"share", none, "Streams in time with the limit."},
	"frozen_storm.without": {"share", none, "Streams in time without it."},

	"ended_lag": {
		"ms", 10,
		"How long a request counts as in flight after its end: from its client's last byte to the answer of the page " +
			"of picks that has its end. p99 of 400 requests of 4 ms, one after the other.",
	},
	"ended_lag.median": {"ms", none, ""},
	"ended_left": {
		"requests", 2,
		"Of 100 identical requests of 20 ms, one after the other, to three servers by chwbl: how many the server of " +
			"the first one does not answer.",
	},
	"ended_spilled": {
		"requests", 0,
		"Of 40 requests of 4 ms, one after the other, to a pool with inFlight: 1, which spills: how many another " +
			"pool answers.",
	},

	"sim_docs": {
		"ratio", 1.02,
		"TTFT p90 over the best of llm-d's, SGLang's, smg's and bounded-hash where short questions are about " +
			"documents of which each of eight servers has room for half; at 50 and 70 % load, the worse.",
	},
	"sim_docs.once": {"ratio", none, "The same where all servers together have room for each document once."},
	"rate_error": {
		"%", 15,
		"Prefill rates that the picker learns from first tokens, against those of 8 servers of four speeds, by " +
			"simulation at 50 % load: the median error, the worst of three workloads, with and without the series of " +
			"prefill on pages.",
	},
	"sim_speeds": {
		"ratio", 1.1,
		"TTFT p90 on these servers, with rates that are learned over rates that are known: the worst of three " +
			"workloads.",
	},
	"sim_overload_lost": {
		"share", 0.3,
		"The share of the capacity that is lost at 3 times 100 % load with shedAfter 1.5 s: goodput is requests " +
			"whose first byte comes within 5 s. The worst workload.",
	},
}

func haveClusters(c config) bool      { return c.clusters && c.penstock != "" }
func haveSets(c config) bool          { return c.clusters }
func haveClustersEnvoy(c config) bool { return c.clusters && c.penstock != "" && c.envoy != "" }
func haveClustersLabs(c config) bool  { return c.clusters && c.penstock != "" && c.labs }
func haveKube(c config) bool          { return c.penstock != "" && c.labs }
func havePicker(c config) bool        { return c.picker }
func havePickerEnvoy(c config) bool   { return c.picker && c.penstock != "" && c.envoy != "" }
func havePenstock(c config) bool      { return c.penstock != "" }
func haveEnvoy(c config) bool         { return c.penstock != "" && c.envoy != "" }
func haveDist(c config) bool          { return c.dist != "" }
func havePeer(c config) bool          { return c.penstock != "" && c.envoyGateway != "" }

// measurements are all measurements, in order.
var measurements = []measurement{
	{names: []string{"change_growth", "change_cpu", "change_vs_rebuild"},
		what: "one route's change among 100 and among 5,000 routes", run: measureChange},
	{names: []string{"change_cleartext"}, what: "one route's change among 5,000 on one cleartext port",
		run: measureCleartext},
	{names: []string{"endpoint_fanout", "endpoint_fanout_vs_gcp"}, what: "one endpoint's change to 1,000 streams",
		run: measureFanout},
	{
		names: []string{"commit_isolation"},
		what:  "an endpoint's change while another pool's removal waits for a frozen peer", needs: havePenstock,
		run: measureIsolation,
	},
	{names: []string{"lease_phantoms"}, what: "the requests in flight of an Envoy that is killed", needs: haveEnvoy,
		run: measurePhantoms},
	{names: []string{"dead_pool_seen"}, what: "a pool whose last server is killed, or freezes: 2 minutes",
		needs: haveEnvoy, run: measureDeadPool},
	{names: []string{"cold_start", "memory_heap", "memory_rss", "reconnect_storm", "reconnect_resent", "idle_cpu"},
		what: "penstock serve with 5,000 routes and 1,000 streams", needs: havePenstock, run: measureProcess},
	{names: []string{"change_to_effective"}, what: "a saved file to a request through Envoy", needs: haveEnvoy,
		run: measureEffective},
	{names: []string{"explain_differs"}, what: "20,000 requests, explained and sent to a real Envoy: half a minute",
		needs: haveEnvoy, run: measureExplain},
	{names: []string{"drain_cut"}, what: "streams while penstock up ends: 10 s", needs: haveEnvoy, run: measureDrain},
	{
		names: []string{"failed_requests"},
		what:  "1,000 random changes and 6 restarts under load, on a real Envoy: about 5 minutes", needs: haveEnvoy,
		run: measureLoss,
	},
	{names: []string{"dead_names_start"}, what: "a start with 10,000 names that do not resolve", needs: havePenstock,
		run: measureDeadNames},
	{names: []string{"attack_ads_memory"}, what: "streams of ADS that are never authorized", needs: havePenstock,
		run: measureADSMemory},
	{names: []string{"attack_uploads"}, what: "200 stalled uploads beside another route's requests", needs: haveEnvoy,
		run: measureUploads},
	{names: []string{"attack_neighbour"}, what: "a route's change beside the largest routes of another namespace",
		needs: haveEnvoy, run: measureNeighbour},
	{names: []string{"served_after_absence"}, what: "an Envoy that starts while both control planes are down",
		needs: haveEnvoy, run: measureAbsence},
	{names: []string{"change_vs_envoy_gateway"}, what: "a saved file to bytes at a proxy, beside Envoy Gateway",
		needs: havePeer, run: measurePeer},
	{names: []string{"kube_change_1000", "kube_change_5000", "kube_change_cpu", "kube_memory", "kube_cold_start"},
		what: "one route's change on Kubernetes", needs: haveKube, run: measureKube},
	{names: []string{"kube_attached", "kube_attached_writes"}, what: "1,000 routes at once on Kubernetes",
		needs: haveKube, run: measureAttached},
	{names: []string{"kube_failed_requests"}, what: "common operations on Kubernetes", needs: haveKube,
		run: measureKubeTraffic},
	{names: []string{"mc_sync", "mc_change_cpu", "mc_memory"}, what: "100 simulated clusters with 100 pools each",
		needs: haveClusters, run: measureSync},
	{names: []string{"mc_export_to_request"}, what: "an annotation to a request through another cluster's Envoy",
		needs: haveClustersEnvoy, run: measureExport},
	{names: []string{"mc_export_to_request_hub", "mc_hub_writes", "mc_hub_writes_restart"},
		what: "the same with a hub, on Kubernetes", needs: haveClustersLabs, run: measureHub},
	{names: []string{"mc_failed_requests.control", "mc_failed_requests.data", "mc_blackhole"},
		what: "failures and losses of three clusters on Kubernetes: about 20 minutes", needs: haveClustersLabs,
		run: measureMembers},
	{names: []string{"attack_member_memory", "attack_hub_memory", "attack_member_p99"},
		what: "hostile members of a cluster set, and of a hub: about 10 minutes", needs: haveClustersEnvoy,
		run: measureHostileMembers},
	{names: []string{"mc_hop_cpu"}, what: "CPU of Envoy through a hop", needs: haveClustersEnvoy, run: measureHopCPU},
	{names: []string{"mc_added_latency", "mc_added_latency_parent", "mc_spill"},
		what: "the latency of another cluster's pools", needs: haveClustersEnvoy, run: measureAddedLatency},
	{names: []string{"mc_imports_memory", "mc_imports_live"}, what: "1,000 imports of three clusters",
		needs: haveClustersEnvoy, run: measureImports},
	{names: []string{"mc_pod_gone"}, what: "a model server that leaves, seen from another cluster",
		needs: haveClustersEnvoy, run: measurePodGone},
	{names: []string{"sel_p90", "sel_leave"}, what: "gateways that choose among clusters, by simulation",
		needs: haveSets, run: measureSelection},
	{names: []string{"sel_stale"}, what: "a cluster that reports every 5 s, by simulation", needs: haveSets,
		run: measureStale},
	{names: []string{"sel_dead"}, what: "a cluster that dies, by simulation", needs: haveSets, run: measureDead},
	{names: []string{"pick_none", "pick_1k", "pick_10k", "pick_100k", "pick_400k", "pick_vs_json"},
		what: "CPU of picks through a real Envoy, beside echoes: two minutes", needs: havePickerEnvoy,
		run: measurePicks},
	{names: []string{"dropin_failed"}, what: "a rollout of penstock picker in the place of llm-d's EPP",
		needs: havePickerEnvoy, run: measureDropin},
	{names: []string{"pick_p99"}, what: "the time of Envoy's calls", needs: havePickerEnvoy, run: measurePickTime},
	{names: []string{"pick_tax", "pick_tax_prefix"}, what: "CPU of penstock up and Envoy, with picks and without",
		needs: havePickerEnvoy, run: measurePickTax},
	{names: []string{"frozen_wait"}, what: "streams while one of three servers freezes: 50 s", needs: havePickerEnvoy,
		run: measureFrozenWait},
	{names: []string{"frozen_storm"}, what: "streams at 120 % load, with and without limits for headers: 2 minutes",
		needs: havePickerEnvoy, run: measureFrozenStorm},
	{names: []string{"ended_lag", "ended_left", "ended_spilled"},
		what: "when requests that have ended are counted as such", needs: havePickerEnvoy, run: measureEnded},
	{names: []string{"flow_off"}, what: "flow control that is off", needs: havePicker, run: measureFlowOff},
	{names: []string{"rewrite_100k", "models_1000"}, what: "CPU of picks that replace the model",
		needs: havePickerEnvoy, run: measureRewrite},
	{names: []string{"flow_idle"}, what: "CPU of picks with flow control", needs: havePickerEnvoy,
		run: measureFlowIdle},
	{names: []string{"process_down"}, what: "requests while a pool's processor hangs, 80 s", needs: havePickerEnvoy,
		run: measureProcessDown},
	{names: []string{"flow_fair"}, what: "fairness IDs, by simulation", needs: havePicker, run: measureFlowFair},
	{names: []string{"flow_critical"}, what: "Critical requests beside Sheddable ones, by simulation",
		needs: havePicker, run: measureFlowCritical},
	{names: []string{"pick_memory"}, what: "a full index of prompt prefixes", needs: havePicker,
		run: measurePickMemory},
	{names: []string{"scrape_rate"}, what: "how often pages are read, 12 s", needs: havePicker, run: measureScrapeRate},
	{names: []string{"pick_idle", "pick_scrape_50ms"}, what: "the CPU of reading pages, 24 s", needs: havePicker,
		run: measureScrapes},
	{names: []string{"kv_event"}, what: "the KV events of a model server", needs: havePicker, run: measureKVEvents},
	{names: []string{"sim_chat", "sim_best", "sim_best_p50", "sim_best_e2e"},
		what: "strategies of picking, by simulation", needs: havePicker, run: measureBest},
	{names: []string{"sim_docs"}, what: "shared documents, by simulation", needs: havePicker, run: measureDocs},
	{names: []string{"sim_capacity"}, what: "their capacities, by simulation", needs: havePicker, run: measureCapacity},
	{names: []string{"sim_two_pickers"}, what: "two pickers, by simulation", needs: havePicker, run: measureTwoPickers},
	{names: []string{"sim_slow_pages"}, what: "slow metrics pages, by simulation", needs: havePicker,
		run: measureSlowPages},
	{names: []string{"sim_join"}, what: "a server that joins, by simulation", needs: havePicker, run: measureJoin},
	{names: []string{"rate_error", "sim_speeds"}, what: "servers of four speeds, by simulation", needs: havePicker,
		run: measureSpeeds},
	{names: []string{"release_same"}, what: "a second build of the release, in another folder: minutes",
		needs: haveDist, run: measureSame},
	{names: []string{"release_start"}, what: "the release's archive without Go and without a network", needs: haveDist,
		run: measureStart},
	{names: []string{"binary_size"}, what: "the release's program", needs: haveDist, run: measureSize},
	{names: []string{"sim_overload_lost"}, what: "overload, by simulation", needs: havePicker, run: measureOverload},
}
