package main

func haveClusters(c config) bool      { return c.clusters && c.penstock != "" }
func haveClustersEnvoy(c config) bool { return haveClusters(c) && c.envoy != "" }
func haveClustersLabs(c config) bool  { return haveClusters(c) && c.labs }
func haveKube(c config) bool          { return c.penstock != "" && c.labs }
func havePicker(c config) bool        { return c.picker }
func havePickerEnvoy(c config) bool   { return c.picker && haveEnvoy(c) }
func havePenstock(c config) bool      { return c.penstock != "" }
func haveEnvoy(c config) bool         { return c.penstock != "" && c.envoy != "" }
func haveAccess(c config) bool        { return c.access && haveEnvoy(c) }
func haveEngines(c config) bool       { return c.engines && haveEnvoy(c) }
func haveDist(c config) bool          { return c.dist != "" }
func haveDistEnvoy(c config) bool     { return haveDist(c) && c.envoy != "" }

var measurements = []measurement{
	{"one route's change among 100 and among 5,000 routes", nil, measureChange, []figure{
		{"change_growth", "ratio", 2, "One route changes, from the store's commit to the last byte at a proxy: the " +
			"time among 5,000 routes over the time among 100. 1: the size does not matter."},
		{"change_growth.at_5000", "ms", none, ""},
		{"change_vs_rebuild", "ratio", 0.02, "The same change over a full translation, as a control plane without " +
			"an incremental path does it: same objects, bytes and stream."},
	}},
	{"one route's change among 5,000 on one cleartext port", nil, measureCleartext, []figure{
		{"change_cleartext", "ms", 10, "CPU of one route's change where 5,000 hosts share a cleartext port, and so " +
			"a route configuration of over a megabyte, which Envoy only accepts whole."},
	}},
	{"a pool whose last server is killed, or freezes: 2 minutes", haveEnvoy, measureDeadPool, []figure{
		{"dead_pool_seen", "s", 2, "The last of a pool's three servers is killed: time until the Warning of " +
			"penstock up, without a request; the longest of 5."},
		{
			"dead_pool_seen.frozen", "s", none,
			"The same if the servers are stopped (SIGSTOP), with 20 requests a second.",
		},
	}},
	{"penstock serve with 5,000 routes and 1,000 streams", havePenstock, measureProcess, []figure{
		{"cold_start", "s", 3, "5,000 routes: from the start of penstock serve with a new folder until a proxy, " +
			"which connects at once, has the last byte."},
		{"cold_start.restart", "s", none, "The same with the state of the first run."},
		{"memory_rss", "MiB", 200, "Resident memory of the restarted process."},
		{"memory_rss.streams", "MiB", none, "The same with 1,000 streams connected."},
		{"reconnect_storm", "s", 2, "1,000 proxies with all resources of 5,000 routes reconnect at once: until the " +
			"last one is answered, the work of the proxies on the same machine included."},
		{
			"reconnect_resent", "resources", 0,
			"Resources that were sent again in that storm although the proxy had them.",
		},
		{"idle_cpu", "ratio", 2, "CPU of the process with 5,000 routes and 1,000 idle streams, over the CPU of " +
			"gRPC's own server, which only answers the pings. No request uses the pools of the routes, so their " +
			"endpoints are not scraped: only keepalives remain. A machine that has nothing else to do takes " +
			"several times as much for each wakeup, so only the ratio can be compared."},
		{"idle_cpu.used", "% of a core", none, ""},
		{"idle_cpu.floor", "% of a core", none, ""},
	}},
	{"a saved file to a request through Envoy", haveEnvoy, measureEffective, []figure{
		{"change_to_effective", "ms", 40, "A file of 100 routes, among 5,000, is saved: until the first request " +
			"through a real Envoy follows the new route; median."},
	}},
	{"a model of 1 GiB from a server of this machine, 5 times: one minute", haveEngines, measureFetch, []figure{
		{"fetch_rate", "ratio", 1.3, "penstock pull of a model of 1 GiB, over curl and then sha256sum: redirected to " +
			"another host, compared with its hash, and synced to the disk; in turns, median of 5."},
		{"fetch_rate.mib_per_s", "MiB/s", none, ""},
	}},
	{"20,000 requests, explained and sent to a real Envoy: half a minute", haveEnvoy, measureExplain, []figure{
		{"explain_differs", "requests", 0, "20,000 forms of requests, with escapes, dots and slashes in paths, " +
			"encoded and repeated parameters, repeated headers and hosts in all forms: how many penstock explain " +
			"and a real Envoy route differently. The grammar has every type of match; each day has its own seed " +
			"($EXPLAIN_SEED)."},
	}},
	{"streams while penstock up ends: 10 s", haveEnvoy, measureDrain, []figure{
		{"drain_cut", "streams", 0, "Streams of 5 s through a real Envoy that SIGTERM of penstock up cuts, while 8 " +
			"other clients send requests."},
		{"drain_cut.of", "streams", none, ""},
	}},
	{"1,000 random changes and 6 restarts under load, on a real Envoy: about 5 minutes", haveEnvoy, measureLoss,
		[]figure{
			{"failed_requests", "requests", 0, "Requests that failed, streams that were cut, and responses of a " +
				"wrong backend: in 1,000 random changes and 3 restarts (SIGTERM, SIGKILL, SIGSTOP) of each of two " +
				"penstock serve, with 200 requests a second and 50 streams through a real Envoy."},
			{"failed_requests.of", "requests", none, ""},
			{"failed_requests.streams", "requests", none, ""},
			{"failed_requests.changes", "changes", none, ""},
			{"failed_requests.restarts", "restarts", none, ""},
			{"failed_requests.standstills", "times", none, "How often the machine did not run the harness or an " +
				"Envoy for more than a second, half of a pick's timeout."},
			{"failed_requests.in_standstills", "requests", none, "Failed requests that were in flight in such a " +
				"standstill. They do not count against Penstock."},
		}},
	{"1,200 requests with three API keys, and what penstock usage counts", haveEnvoy, measureUsage, []figure{
		{"usage_true", "ratio", 1.01, "Tokens in the rows of penstock usage over the tokens that servers counted, or " +
			"the inverse if larger: answers and streams that report their usage, through a gated route and a real " +
			"Envoy."},
		{"usage_true.rows", "ratio", none, "Rows over servers, as measured."},
		{"usage_true.estimated", "ratio", 1.25, "The same of streams without a report, before any answer has " +
			"corrected the estimates."},
		{"usage_true.estimated_rows", "ratio", none, ""},
		{"usage_true.corrected", "ratio", 1.25, "The same after the answers with a report."},
		{"usage_true.corrected_rows", "ratio", none, ""},
	}},
	{"40 changes of a model's servers under load", haveEngines, measureRollouts, []figure{
		{"rollout_failed", "requests", 0, "Requests that fail while the servers of a deployment are replaced: 20 " +
			"times beside the old one, and 20 times two replicas on two accelerators, one after another."},
		{"rollout_failed.spare", "requests", none, ""},
		{"rollout_failed.spare_requests", "requests", none, "All requests of this part."},
		{"rollout_failed.replicas", "requests", none, ""},
		{"rollout_failed.replicas_requests", "requests", none, "All requests of this part."},
	}},
	{"20 ends of penstock up with a model server", haveEngines, measureAdoption, []figure{
		{"adopt_restarts", "restarts", 0, "Model servers that restart, and streams sent directly to them that fail, " +
			"while penstock is killed or stopped and starts again, 20 times."},
		{"adopt_restarts.streams", "streams", none, ""},
		{"adopt_restarts.gap", "s", none, "The gateway's gap: from the end of penstock to the next answer, in the " +
			"mean."},
	}},
	{"new deployments, and swaps on one accelerator", haveEngines, measureOverheads, []figure{
		{"deploy_overhead", "s", 1, "A file is written: until the first request is served, above a start and stop " +
			"of the engine alone; median of 9."},
		{"deploy_overhead.engine", "s", none, "Start, readiness and stop of the engine alone."},
		{"swap_overhead", "s", 1, "A request for a model whose accelerator another one has, above a start and stop " +
			"of the engine alone; median of 9."},
		{"swap_overhead.slowest", "s", none, ""},
	}},
	{"200 deployments without requests", haveEngines, measureFleet, []figure{
		{"fleet_idle", "% of a core", 1, "CPU time of penstock up with 200 deployments at rest, over 20 s, less " +
			"the time of penstock up without any."},
		{"fleet_idle.total", "% of a core", none, ""},
		{"fleet_idle.without", "% of a core", none, ""},
	}},
	{"changed keys, and requests while an authorization server is frozen and killed: a minute", haveAccess,
		measureGateKeys, []figure{
			{"key_in_force", "ratio", 3, "An API key becomes disabled in its file: until two authorization servers " +
				"deny it, over until a reader of the folder in another process has the change; medians of 30."},
			{"key_in_force.denied", "ms", none, ""},
			{"key_in_force.event", "ms", none, ""},
			{"revoke_ends", "ms", 1000, "A key is disabled in its file: until its HTTP/2 stream on a route with " +
				"revoke: Immediately ends; median of 30."},
			{"revoke_ends.slowest", "ms", none, ""},
			{"revoke_ends.http1", "ms", none, "The same for HTTP/1.1: Envoy closes such a connection a second after " +
				"its last byte (delayed_close_timeout)."},
			{"key_xds_bytes", "bytes", 0, "What a proxy receives while 1,000 keys become disabled, and then other " +
				"keys that name models, until they are in force."},
			{"key_xds_bytes.of_a_route", "bytes", none, "The same of one new route: bytes are counted."},
			{"gate_failed", "requests", 0, "Requests with a valid key that fail while one of two processes with an " +
				"authorization server and a picker is frozen, continues, is killed and returns; then the other one."},
			{"gate_failed.of", "requests", none, ""},
			{"gate_failed.without", "requests", none, "Failed requests of 12 s before the faults."},
		}},
	{"100,000 keys, and what the gate costs: two minutes", haveAccess, measureGateCost, []figure{
		{"keys_memory", "MiB", 80, "Resident memory of penstock serve 5 s after 100,000 keys of a folder are in " +
			"force, less its memory before."},
		{"keys_memory.without", "MiB", none, ""},
		{"keys_memory.cpu", "s", none, "CPU of reading them."},
		{"gate_cpu", "ratio", 1.65, "CPU of Envoy and penstock serve with 100,000 keys for a request of 1 KB with a " +
			"key, through a gate to a pool that picks by headers alone, over the same on a host without a gate, in " +
			"turns."},
		{"gate_cpu.gated", "us", none, ""},
		{"gate_cpu.open", "us", none, ""},
		{"gate_cpu.watched", "us", none, "The same through a gate with revoke: Immediately."},
		{"gate_cpu.watch_call", "us", none, "CPU of the call that watches a request, both processes together."},
		{"gate_upload", "MiB", 20, "20 uploads of 30 MiB without a key, half of them chunked, to a host whose routes " +
			"are all gated and need the model of each body: largest resident memory of Envoy, less its memory before."},
	}},
	{"1,000 random changes around gates, beside clients without a key: five minutes", haveAccess, measureGateOpen,
		[]figure{
			{"gate_open", "responses", 0, "2xx to eight clients without a key, while 1,000 changes of a seed " +
				"($GATE_SEED, or the day) attach, replace and remove policies of a Gateway, routes and a pool, turn " +
				"byModel on and off, move routes between hosts, and restart control planes and Envoys. One route is " +
				"opened and gated in turn: it counts from its first denial on. The other routes always have a policy."},
			{"gate_open.of", "requests", none, ""},
			{"gate_open.served", "requests", none, "Requests with a key that were answered meanwhile."},
		}},
	{"200 stalled uploads beside another route's requests", haveEnvoy, measureUploads, []figure{
		{"attack_uploads", "ratio", 1.5, "200 HTTP/1.1 uploads of 32 MiB that stop before their end, half of them " +
			"chunked, to a route that holds bodies for their model's name: p99 of 3,000 requests through another " +
			"route of that Envoy, over the p99 of an Envoy without uploads, in turns."},
		{"attack_uploads.with", "ms", none, ""},
		{"attack_uploads.failed", "requests", 0, "Requests of the other route that failed, from the first upload on."},
	}},
	{"a route's change beside the largest routes of another namespace", haveEnvoy, measureNeighbour, []figure{
		{"attack_neighbour", "ratio", 1.1, "100 of the largest HTTPRoutes of another namespace, every other one " +
			"full of regular expressions, on another port of the Gateway: a small route is saved, until the first " +
			"request through a real Envoy follows it, over the same without them; medians of 300 changes, in turns."},
		{"attack_neighbour.same_chain", "ratio", 8, "The same with these routes on the small route's own port, " +
			"where Envoy builds one route configuration of all that fit the budget of their namespace."},
		{"attack_neighbour.alone", "ms", none, "The time without them."},
	}},
	{"one route's change among 5,000 on Kubernetes", haveKube, measureKube, []figure{
		{"kube_change_5000", "ratio", 3, "On Kubernetes, one HTTPRoute of 5,000 is written: until its bytes are at " +
			"a proxy, over until a watch of HTTPRoutes delivers it; medians of one run."},
		{"kube_change_5000.bytes", "ms", none, ""},
		{"kube_change_5000.event", "ms", none, ""},
		{"kube_memory", "MiB", 210, "Resident memory with 5,000 routes, each with its own Service and " +
			"EndpointSlice. 10 to 13 MiB of it are the board's go-memdb (BenchmarkBoard_Memory)."},
		{"kube_cold_start", "s", 3, "From the start with these 5,000 until a proxy has the last byte."},
	}},
	{"changed keys on Kubernetes", haveKube, measureKubeKeys, []figure{
		{"kube_key_in_force", "ratio", 3, "On Kubernetes, an APIKey becomes disabled: until the authorization " +
			"server denies it, over until a watch of APIKeys delivers it; medians of 30."},
		{"kube_key_in_force.denied", "ms", none, ""},
		{"kube_key_in_force.event", "ms", none, ""},
	}},
	{"100 simulated clusters with 100 pools each", haveClusters, measureSync, []figure{
		{"mc_sync", "ratio", 4.5, "100 clusters export 100 pools with 10 endpoints each: from saving the ClusterSet " +
			"until the last endpoint is in the importer's store, over streaming the same bytes from as many servers " +
			"over mTLS; medians, in turns."},
		{"mc_sync.ours", "ms", none, ""},
		{"mc_sync.streams", "ms", none, ""},
		{"mc_sync.bytes", "MiB", none, "What the members send, counted at their sockets; each stream has as many."},
	}},
	{"failures and losses of three clusters on Kubernetes: about 20 minutes", haveClustersLabs, measureMembers,
		[]figure{
			{"mc_failed_requests.control", "requests", 0, "Failed plain, streamed and 1 MB requests of three " +
				"clusters on Kubernetes, while Penstocks and hubs are killed, control links cut, exports withdrawn, " +
				"modes changed, members drained, removed and joined, versions and clocks apart " +
				"(conformance/promises/members)."},
			{"mc_failed_requests.control_of", "requests", none, ""},
			{"mc_failed_requests.data", "requests", 0, "The same where a cluster is lost whole, or its pickers, " +
				"servers or gateways, less data_excepted."},
			{"mc_failed_requests.data_of", "requests", none, ""},
			{"mc_failed_requests.data_excepted", "requests", none, "Failed requests that were in flight at the " +
				"loss, or sent within 3 s of it."},
			{"mc_failed_requests.experiments", "experiments", none, ""},
			{"mc_failed_requests.experiments_failed", "experiments", 0, "Experiments that did not show what they " +
				"are for, with or without a failed request."},
			{
				"mc_blackhole", "s", 3,
				"The longest request that was sent after such a loss, to the end of its response.",
			},
		}},
	{"hostile members of a cluster set, and of a hub: about 10 minutes", haveClustersEnvoy, measureHostileMembers,
		[]figure{
			{"attack_member_memory", "ratio", 0.5, "Peak resident memory of an importer under each attack of a " +
				"hostile member (conformance/promises/attacks), over the memory limit of its container in the chart."},
			{"attack_member_memory.peak", "MiB", none, ""},
			{"attack_hub_memory", "ratio", 0.5, "The same of a hub with three members whose API servers have " +
				"1,000,000 objects of each kind, in pages, in one response and as watched events, beside two honest " +
				"members."},
			{"attack_member_p99", "ratio", 1.5, "p99 of 2,000 requests through an importer's Envoy beside the worst " +
				"of 13 attacks of a member, which has a quarter of a core, over the p99 while the member is " +
				"stopped; median of 5 pairs, in turns."},
		}},
	{"CPU of picks through a real Envoy, beside echoes: two minutes", havePickerEnvoy, measurePicks, []figure{
		{"pick_none", "ratio", 1.1, "CPU of Penstock's picker for a request of 1 KB by headers alone, through a " +
			"real Envoy with one saturated worker and 10 model servers, over the CPU of an echo: grpc-go with its " +
			"default codec and as many processors, in turns."},
		{"pick_1k", "ratio", 1.1, "The same with the whole body (BUFFERED): its prompt is read, hashed and matched " +
			"with what each server has cached."},
		{"pick_10k", "ratio", 1, "The same for 10 KB."},
		{"pick_100k", "ratio", 0.7, "The same for 100 KB."},
		{"pick_none.ours", "us", none, ""},
		{"pick_1k.ours", "us", none, ""},
		{"pick_10k.ours", "us", none, ""},
		{"pick_100k.ours", "us", none, ""},
	}},
	{"CPU of penstock up and Envoy, with picks and without", havePickerEnvoy, measurePickTax, []figure{
		{"pick_tax", "ratio", 3.6, "CPU of Envoy and penstock up, access log included, for a request of 1 KB to a " +
			"pool that picks by headers alone, over a request to a Service of the same servers, through the same " +
			"saturated Envoy, in turns."},
		{"pick_tax.ours", "us", none, ""},
		{"pick_tax_prefix", "ratio", 6, "The same for a pool that reads prompts, the default."},
		{"pick_tax_prefix.ours", "us", none, ""},
	}},
	{"streams while one of three servers freezes: 50 s", havePickerEnvoy, measureFrozenWait, []figure{
		{"frozen_wait", "s", 3, "Longest time to the first token of streams at 60 % load of three servers of " +
			"penstock sim, one of which is stopped. Prompts have 100 KB, headers wait for a tokenizer. Streams that " +
			"had headers of the stopped server do not count."},
		{"frozen_wait.late", "streams", none, "Streams that took longer than 1 s."},
	}},
	{"streams at 120 % load, with and without limits for headers: 2 minutes", havePickerEnvoy, measureFrozenStorm,
		[]figure{
			{"frozen_storm", "ratio", 1.02, "The same at 120 % load, and no server stops: streams whose first token " +
				"comes within 3 s without a limit for headers, over with it (picker.headersTimeout). At most 1.02: " +
				"at least 0.98 of them are served in time."},
			{"frozen_storm.with", "share", none, "Streams in time with the limit."},
			{"frozen_storm.without", "share", none, "Streams in time without it."},
		}},
	{"when requests that have ended are counted as such", havePickerEnvoy, measureEnded, []figure{
		{"ended_lag", "ms", 10, "How long a request counts as in flight after its client's last byte, until the " +
			"page of picks shows its end. p99 of 400 requests of 4 ms, one after the other."},
		{"ended_lag.median", "ms", none, ""},
		{"ended_left", "requests", 2, "Of 100 identical requests of 20 ms, one after the other, to three servers by " +
			"chwbl: how many another server than the first request's answers."},
		{"ended_spilled", "requests", 0, "Of 40 requests of 4 ms, one after the other, to a pool with inFlight: 1, " +
			"which spills: how many another pool answers."},
	}},
	{"strategies of picking, by simulation", havePicker, measureBest, []figure{
		{"sim_best", "ratio", 1.03, "TTFT p90 of strategy load over the best other one, strategies of other routers " +
			"included: the worst of 7 workloads at 50 and 70 % load. All sim figures are means of 5 drawings; all " +
			"strategies get the same arrivals. Standard error has all figures."},
		{"sim_best.at_90", "ratio", 1.1, "The same at 90 % load."},
		{"sim_best.mean", "ratio", 0.9, "The geometric mean of all workloads and loads."},
		{"sim_best_p50", "ratio", 1.15, "The worst ratio of TTFT p50 at 50 and 70 % load."},
		{"sim_best_e2e", "ratio", 1.03, "The same for the mean time to the end of the response."},
	}},
	{"workloads on which nothing was tuned, by simulation", havePicker, measureHeldOut, []figure{
		{"sim_held_out", "ratio", 1.1, "TTFT p90 of strategy load over the best other one, for the shapes of " +
			"Mooncake's toolagent and synthetic traces and six workloads that a seed draws ($DRAW_SEED, or the day): " +
			"the worst of 50 and 70 % load. Each one's full load is found in the run."},
		{"sim_held_out.mean", "ratio", 0.9, "The geometric mean."},
		{"sim_held_out.e2e", "ratio", 1.03, "The worst for the mean time to the end of the response."},
	}},
	{"shared documents, by simulation", havePicker, measureDocs, []figure{
		{"sim_docs", "ratio", 1.02, "TTFT p90 over the best of llm-d, SGLang, smg and bounded-hash, for short " +
			"questions about documents of which each of eight servers has room for half; the worse of 50 and 70 % " +
			"load."},
		{"sim_docs.once", "ratio", none, "The same where all servers together have room for each document once."},
	}},
	{"servers of four speeds, by simulation", havePicker, measureSpeeds, []figure{
		{"rate_error", "%", 15, "Median error of the prefill rates that the picker learns for 8 servers of four " +
			"speeds at 50 % load: the worst of three workloads, with and without the series of prefill on pages."},
		{"sim_speeds", "ratio", 1.1, "TTFT p90 on these servers, with learned rates over known ones: the worst of " +
			"three workloads."},
	}},
	{"a second build of the release, in another folder: minutes", haveDist, measureSame, []figure{
		{"release_same", "bytes", 0, "Bytes that differ between dist/ and a second build of the same commit: in a " +
			"clone, later, in another time zone, with another umask. Signatures do not count. Both builds use one " +
			"cache of compiled packages."},
		{"release_same.files", "files", none, ""},
	}},
	{"the release's archive without Go and without a network", haveDist, measureStart, []figure{
		{"release_start", "s", 20, "The archive is unpacked until penstock demo has a streamed answer, in a network " +
			"namespace with loopback alone, without Go and without another Envoy."},
		{"release_start.unpack", "s", none, ""},
	}},
	{"the release's program", haveDist, measureSize, []figure{
		{"binary_size", "MiB", 90, "The stripped program of this machine's platform in the archive."},
	}},
	{"upgrades and rollbacks under load: some minutes", haveDistEnvoy, measureUpgrade, []figure{
		{"upgrade_failed", "requests", 0, "Two control planes are replaced, one after the other, by this version and " +
			"then by the earlier one again, five times, and Envoy stays: requests that fail."},
		{"upgrade_failed.of", "requests", none, ""},
		{"upgrade_failed.up", "requests", 0, "penstock up is replaced in place five times, and back: " +
			"requests that fail."},
		{"upgrade_failed.up_of", "requests", none, ""},
		{"upgrade_failed.lab", "requests", 0, "The same in a lab, by helm upgrade and helm rollback, which also " +
			"replace all proxies: requests, streams included, that fail."},
		{"upgrade_failed.lab_of", "requests", none, ""},
	}},
}
