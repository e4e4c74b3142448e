package main

import (
	"context"
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
	runIfChild(followerEnv, runFollower)
	runIfChild(readerEnv, runReader)
	m.Run()
}

// promised has the limits that README and issues promise.
var promised = map[string]float64{
	"change_growth": 2, "change_vs_rebuild": 0.02, "change_to_effective": 40, "change_cleartext": 10,
	"cold_start": 3, "memory_rss": 200, "reconnect_storm": 2, "reconnect_resent": 0, "failed_requests": 0,
	"idle_cpu": 2, "dead_pool_seen": 2, "explain_differs": 0, "drain_cut": 0, "attack_uploads": 1.5,
	"attack_uploads.failed": 0, "attack_neighbour": 1.1, "attack_neighbour.same_chain": 8, "kube_change_5000": 3,
	"kube_memory": 210, "kube_cold_start": 3, "mc_sync": 4.5, "mc_failed_requests.control": 0,
	"mc_failed_requests.data": 0, "mc_blackhole": 3, "attack_member_memory": 0.5, "attack_hub_memory": 0.5,
	"attack_member_p99": 1.5, "pick_none": 1.1, "pick_1k": 1.1, "pick_10k": 1, "pick_100k": 0.7, "pick_tax": 3.6,
	"pick_tax_prefix": 6, "frozen_wait": 3, "frozen_storm": 1.02, "ended_lag": 10, "ended_left": 2,
	"ended_spilled": 0, "sim_best": 1.03, "sim_best_p50": 1.15, "sim_best_e2e": 1.03, "sim_docs": 1.02,
	"rate_error": 15, "sim_speeds": 1.1, "release_same": 0, "release_start": 20, "binary_size": 90,
	"upgrade_failed": 0, "upgrade_failed.up": 0, "upgrade_failed.lab": 0,
	"usage_true": 1.01, "usage_true.estimated": 1.25, "key_in_force": 3, "revoke_ends": 1000,
	"key_xds_bytes": 0, "keys_memory": 80,
	"rollout_failed": 0, "adopt_restarts": 0, "deploy_overhead": 1, "swap_overhead": 1, "fleet_idle": 1,
	"gate_cpu": 1.65, "gate_upload": 20, "gate_failed": 0, "gate_open": 0,
}

func TestBench_EveryFigureIsMeasuredAndExplained(t *testing.T) {
	names := map[string]bool{}
	for _, m := range measurements {
		for _, f := range m.figures {
			if f.unit == "" || f.limit >= 0 && f.about == "" || names[f.name] {
				t.Errorf("got %+v, want a unit, a text beside a limit, and a name of its own", f)
			}
			names[f.name] = true
		}
		if m.figures[0].limit < 0 {
			t.Errorf("%s has no limit, want one", m.figures[0].name)
		}
	}
	for name, want := range promised {
		if f, ok := declared(name); !ok || f.limit != want {
			t.Errorf("%s: got the limit %g, want %g", name, f.limit, want)
		}
	}
}

func TestBench_MedianAndRoundKeepPrecision(t *testing.T) {
	if got := median([]time.Duration{9, 1, 5}); got != 5 {
		t.Errorf("median: %d, want 5", got)
	}
	if got := round(0.0012345); got != 0.00123 {
		t.Errorf("round: %g, want 0.00123", got)
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
		t.Errorf("times: got %v and %s, want 3 and one above 0", c.time, took)
	}
}

func TestDeltaADS_ReconnectedProxiesGetChangesOnly(t *testing.T) {
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
	const n = 20
	c, _, err := resume(t.Context(), r.address, n, have)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if got := c.resent.Load(); got != 0 {
		t.Errorf("%d resources were resent, want 0", got)
	}
	_, slice := r.world.Service(2, 1)
	if err := r.change(store.EndpointSlices.Put(slice)); err != nil {
		t.Fatal(err)
	}
	poll.NoError(t, "as many resources arrive as there are proxies", poll.Limit, func() error {
		if got := c.resent.Load(); got != n {
			return fmt.Errorf("%d resources were sent, want %d", got, n)
		}
		return nil
	})
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
			return fmt.Errorf("%d resources were resent, want 3", n)
		}
		return nil
	})
}

func TestBench_LostRequestsAreAFigureAndMissingReportFails(t *testing.T) {
	got := map[string]float64{}
	out := func(name, suffix string, value float64) { got[name+"/"+suffix] = value }
	script := `echo 'FAILED request 7'; echo '{"name":"failed_requests","value":1,"unit":"requests","limit":0}'
echo '{"name":"failed_requests.of","value":900,"unit":"requests"}'; exit 1`
	if err := printed(t.Context(), exec.Command("sh", "-c", script), out); err != nil ||
		got["failed_requests/"] != 1 || got["failed_requests/of"] != 900 {
		t.Errorf("got %v %v, want 1 failed request of 900", got, err)
	}
	if err := printed(t.Context(), exec.Command("sh", "-c", "exit 1"), out); err == nil {
		t.Error("a harness that did not run returned no error")
	}
}

func (r *rig) attach(ctx context.Context, handle func(proxy.Response)) (*proxy.Proxy, error) {
	p, err := proxy.Connect(ctx,
		proxy.Config{Address: r.address, Node: "bench", Cluster: world.Gateway, Follow: true, Handle: handle})
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		p.Close()
		return nil, err
	}
	return p, complete(ctx, p, len(r.translator.Resources(world.Gateway)))
}
