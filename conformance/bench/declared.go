package main

const none = -1

// figures declares every name that is given out.
var figures = map[string]figure{
	"change_growth":             {"ratio", 2, "One route changes: time from the store's commit to the last byte at a proxy, among 5,000 routes over the same among 100. 1 means that size does not matter."},
	"change_growth.at_100":      {"ms", none, ""},
	"change_growth.at_5000":     {"ms", none, ""},
	"change_cpu":                {"ms", 2, "CPU of one such change among 5,000, mean: all of the process, garbage collection and the measuring client included, until its ACK is in."},
	"change_cpu.median":         {"ms", none, ""},
	"change_vs_rebuild":         {"ratio", 0.02, "The same change over translating everything again, as a control plane does that has no incremental path: same objects, same bytes, same stream."},
	"change_vs_rebuild.rebuild": {"ms", none, ""},
	"change_cleartext":          {"ms", 10, "CPU of one route's change where 5,000 hosts share one cleartext port, and so one route configuration of over a megabyte, which Envoy takes only whole."},
	"change_cleartext.median":   {"ms", none, ""},
	"change_cleartext.time":     {"ms", none, ""},

	"endpoint_fanout":            {"ratio", 1.5, "One endpoint of 50,000 changes and 1,000 streams are told: from the store's commit until the last send has returned, over sending the same bytes once more on the same streams."},
	"endpoint_fanout.ours":       {"ms", none, ""},
	"endpoint_fanout.constant":   {"ms", none, ""},
	"endpoint_fanout.received":   {"ratio", none, "The same until the last proxy has read it."},
	"endpoint_fanout_vs_gcp":     {"ratio", 0.05, "The same over go-control-plane's LinearCache, which is spared translation and everything but endpoints."},
	"endpoint_fanout_vs_gcp.gcp": {"ms", none, ""},
}

// measurements are all runs, in order.
var measurements = []measurement{
	{names: []string{"change_growth", "change_cpu", "change_vs_rebuild"}, what: "one route's change among 100 and among 5,000 routes", run: measureChange},
	{names: []string{"change_cleartext"}, what: "one route's change among 5,000 on one cleartext port", run: measureCleartext},
	{names: []string{"endpoint_fanout", "endpoint_fanout_vs_gcp"}, what: "one endpoint's change to 1,000 streams", run: measureFanout},
}
