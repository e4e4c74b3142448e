package main

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

var small = world.Size{Listeners: 2, Hosts: 10, Backends: 4, Endpoints: 2, Port: 8443}

func TestMain(m *testing.M) {
	asFollower()
	asReader()
	m.Run()
}

// promised are the names, units and limits of the figures.
var promised = map[string]figure{
	"change_growth": {unit: "ratio", limit: 2}, "change_cpu": {unit: "ms", limit: 2},
	"change_vs_rebuild":   {unit: "ratio", limit: 0.02},
	"change_to_effective": {unit: "ms", limit: 40}, "change_cleartext": {unit: "ms", limit: 10},
	"endpoint_fanout": {unit: "ratio", limit: 1.5}, "endpoint_fanout_vs_gcp": {unit: "ratio", limit: 0.05},
	"cold_start": {unit: "s", limit: 3}, "memory_heap": {unit: "MiB", limit: 120},
	"memory_rss":      {unit: "MiB", limit: 200},
	"reconnect_storm": {unit: "s", limit: 2}, "reconnect_resent": {unit: "resources", limit: 0},
	"failed_requests": {unit: "requests", limit: 0}, "idle_cpu": {unit: "% of a core", limit: 0.5},
	"served_after_absence": {unit: "s", limit: 1}, "dead_pool_seen": {unit: "s", limit: 2},
	"pick_none": {unit: "ratio", limit: 1.1}, "pick_1k": {unit: "ratio", limit: 1.1},
	"pick_10k":  {unit: "ratio", limit: 1},
	"pick_100k": {unit: "ratio", limit: 0.7}, "pick_400k": {unit: "ratio", limit: 0.7},
	"pick_vs_json": {unit: "ratio", limit: 0.25},
	"pick_tax":     {unit: "ratio", limit: 3.6}, "pick_tax_prefix": {unit: "ratio", limit: 6},
	"pick_p99":    {unit: "ratio", limit: 1.5},
	"pick_memory": {unit: "MiB", limit: 300}, "kv_event": {unit: "us", limit: 3},
	"scrape_rate": {unit: "pages/s", limit: 2},
	"pick_idle":   {unit: "% of a core", limit: 2}, "pick_scrape_50ms": {unit: "% of a core", limit: 30},
	"rewrite_100k": {unit: "ratio", limit: 1.15}, "models_1000": {unit: "ratio", limit: 1.05},
	"process_down":    {unit: "ratio", limit: 1.2},
	"explain_differs": {unit: "requests", limit: 0}, "drain_cut": {unit: "streams", limit: 0},
	"frozen_wait": {unit: "s", limit: 3}, "frozen_storm": {unit: "ratio", limit: 1.02},
	"mc_export_to_request": {unit: "ratio", limit: 10}, "mc_pod_gone": {unit: "ratio", limit: 3},
	"mc_export_to_request_hub": {unit: "ratio", limit: 20}, "mc_hub_writes": {unit: "writes", limit: 1},
	"mc_hub_writes_restart":      {unit: "writes", limit: 0},
	"mc_failed_requests.control": {unit: "requests", limit: 0}, "mc_failed_requests.data": {unit: "requests", limit: 0},
	"mc_blackhole": {unit: "s", limit: 3},
	"mc_hop_cpu":   {unit: "ratio", limit: 1.6}, "mc_added_latency": {unit: "ratio", limit: 1.3},
	"mc_added_latency_parent": {unit: "ratio", limit: 2.5}, "mc_sync": {unit: "ratio", limit: 4.5},
	"mc_spill":          {unit: "ratio", limit: 1.3},
	"mc_imports_memory": {unit: "ratio", limit: 1.15}, "mc_imports_live": {unit: "ratio", limit: 1.3},
	"mc_change_cpu": {unit: "ratio", limit: 2}, "mc_memory": {unit: "MiB", limit: 250},
	"attack_member_memory": {unit: "ratio", limit: 0.5}, "attack_hub_memory": {unit: "ratio", limit: 0.5},
	"attack_member_p99": {unit: "ratio", limit: 1.5},
	"sel_p90":           {unit: "ratio", limit: 1.05}, "sel_leave": {unit: "ratio", limit: 1.05},
	"sel_stale": {unit: "ratio", limit: 1.15}, "sel_dead": {unit: "ratio", limit: 1.15},
	"flow_off": {unit: "ns", limit: 5}, "flow_idle": {unit: "ratio", limit: 1.08},
	"flow_fair":     {unit: "ratio", limit: 1.1},
	"flow_critical": {unit: "ratio", limit: 1.3},
	"sim_chat":      {unit: "ratio", limit: 0.25}, "sim_best": {unit: "ratio", limit: 1.03},
	"sim_best_p50": {unit: "ratio", limit: 1.15},
	"sim_best_e2e": {unit: "ratio", limit: 1.03}, "sim_capacity": {unit: "ratio", limit: 1},
	"sim_two_pickers": {unit: "ratio", limit: 1.1},
	"sim_slow_pages":  {unit: "ratio", limit: 1.1}, "sim_join": {unit: "ratio", limit: 2},
	"sim_overload_lost": {unit: "share", limit: 0.3},
	"ended_lag":         {unit: "ms", limit: 10}, "ended_left": {unit: "requests", limit: 2},
	"ended_spilled": {unit: "requests", limit: 0},
	"release_same":  {unit: "bytes", limit: 0}, "release_start": {unit: "s", limit: 20},
	"binary_size": {unit: "MiB", limit: 90},
	"sim_docs":    {unit: "ratio", limit: 1.02}, "rate_error": {unit: "%", limit: 15},
	"sim_speeds": {unit: "ratio", limit: 1.1},
}

func TestBench_EveryFigureIsMeasuredAndExplained(t *testing.T) {
	measured := map[string]bool{}
	for _, m := range measurements {
		for _, name := range m.names {
			measured[name] = true
			f, ok := figures[name]
			if !ok || f.limit < 0 || f.about == "" || f.unit == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
	for name, want := range promised {
		if f := figures[name]; f.unit != want.unit || f.limit != want.limit || !measured[name] {
			t.Errorf("%s must have the limit %g %s; it is %+v, measured: %t", name, want.limit, want.unit, f,
				measured[name])
		}
	}
}

func TestBench_MedianAndRoundKeepPrecision(t *testing.T) {
	if got := median([]time.Duration{9, 1, 5}); got != 5 {
		t.Errorf("median: %d", got)
	}
	if got := round(0.0012345); got != 0.00123 {
		t.Errorf("round: %g", got)
	}
}

func TestBench_ChangeIsTimedToBytesAtProxy(t *testing.T) {
	c, err := newRouteChanges(t.Context(), small)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.measure(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	took, _, err := c.one(t.Context(), c.rebuild)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.time) != 3 || c.time[0] <= 0 || took <= 0 {
		t.Errorf("times: %v and %s", c.time, took)
	}
}

func TestDeltaADS_ReconnectedProxiesGetChangesOnly(t *testing.T) {
	var tp tap
	r, err := newRig(small, tp.option())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	first, err := r.attach(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	have := first.Have()
	first.Close()
	const n = 20
	c, _, err := resume(t.Context(), r.address, n, have)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	name := model.ServiceCluster("default", "svc-2", 80).String()
	_, slice := r.world.Service(2, 1)
	c.expect(name)
	tp.begin()
	start := time.Now()
	if err := r.change(store.EndpointSlices.Put(slice)); err != nil {
		t.Fatal(err)
	}
	if _, err := tp.wait(t.Context(), n, start); err != nil {
		t.Fatal(err)
	}
	if _, err := c.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tp.answered(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	c.expect(name)
	if _, err := tp.constant(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.resent.Load(); got != 0 {
		t.Errorf("%d resources were resent", got)
	}
}

func TestBench_ResentResourcesAreCounted(t *testing.T) {
	r, err := newRig(small)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	first, err := r.attach(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	have := first.Have()
	first.Close()
	have[resource.Endpoints] = map[string]string{model.ServiceCluster("default", "svc-2", 80).String(): "old"}
	c, _, err := resume(t.Context(), r.address, 3, proxy.Have(have))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	poll.NoError(t, "the resent resources are counted", poll.Limit, func() error {
		if n := c.resent.Load(); n < 3 {
			return fmt.Errorf("%d resources were resent", n)
		}
		return nil
	})
}

func TestBench_LostRequestsAreAFigureAndMissingReportFails(t *testing.T) {
	got := map[string]float64{}
	out := func(name, suffix string, value float64) { got[name+"/"+suffix] = value }
	script := `echo 'FAILED request 7'; echo '{"name":"failed_requests","value":1,"unit":"requests","limit":0}'
echo '{"name":"failed_requests.of","value":900,"unit":"requests"}'; exit 1`
	if err := loss(t.Context(), exec.Command("sh", "-c", script), "", out); err != nil ||
		got["failed_requests/"] != 1 || got["failed_requests/of"] != 900 {
		t.Errorf("%v %v", got, err)
	}
	if err := loss(t.Context(), exec.Command("sh", "-c", "exit 1"), "", out); err == nil {
		t.Error("a harness that did not run returned no error")
	}
}
