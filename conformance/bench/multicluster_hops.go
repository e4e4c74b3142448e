package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

// hoppedObjects are imports of the same gateways: of one cluster, and of two, which are a hop each.
const hoppedObjects = gatewayText + `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: all}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{headers: [{name: x-bench, value: direct}]}]
    backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: one}]
  - matches: [{headers: [{name: x-bench, value: hop}]}]
    backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: two}]
---
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: one}
status:
  clusters:
  - {name: east, routingMode: ParentMode, parents: [%[2]s]}
---
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: two}
status:
  clusters:
  - {name: east, routingMode: ParentMode, parents: [%[2]s]}
  - {name: west, routingMode: ParentMode, parents: [%[2]s]}
`

// measureHopCPU measures the CPU of Envoy for a request of 1 KB through a hop, and without.
func measureHopCPU(ctx context.Context, c config, out report) error {
	models, err := picks.StartModels(pickModels)
	if err != nil {
		return err
	}
	defer models.Close()
	parents := ""
	for i, m := range models.Addresses {
		if i > 0 {
			parents += ", "
		}
		parents += fmt.Sprintf(
			"{name: gw%d, namespace: default, service: [{addresses: [127.0.0.1], ports: [{number: %d, "+
				"appProtocol: http}]}]}", i, m.Port())
	}
	t := &taxed{routes: []string{"direct", "hop"}}
	stop, err := t.start(ctx, c, func(dir string, port int32) error {
		return os.WriteFile(filepath.Join(dir, "all.yaml"), fmt.Appendf(nil, hoppedObjects, port, parents), 0o600)
	})
	if err != nil {
		return err
	}
	defer stop()
	t.cpu = func() (time.Duration, error) { return cpuOf(t.envoy) }
	costs, err := t.costs(ctx)
	if err != nil {
		return err
	}
	out("mc_hop_cpu", "", costs["hop"].each()/costs["direct"].each())
	out("mc_hop_cpu", "hop", costs["hop"].each())
	out("mc_hop_cpu", "direct", costs["direct"].each())
	return nil
}

// latencyTurns is how many requests go each way.
const latencyTurns = 400

// spillingPolicy has the pool busy, which has no server, spill to the import endpoint.
const spillingPolicy = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: busy}
spec: {targetRef: {name: busy}, spill: [{kind: InferencePoolImport, name: endpoint}]}
`

// measureAddedLatency measures requests to the pools of another cluster, one at a time, in both
// modes, and those that a local pool spills there.
func measureAddedLatency(ctx context.Context, c config, out report) error {
	servers, stop, err := modelServers(1)
	if err != nil {
		return err
	}
	defer stop()
	modes := []string{"endpoint", "parent"}
	hereFiles, eastFiles := map[string]string{}, map[string]string{"servers.yaml": serversText(servers...)}
	for _, mode := range modes {
		annotations := exportAnnotation
		if mode == "parent" {
			annotations += ", inference.networking.x-k8s.io/export-mode: ParentMode"
		}
		hereFiles[mode+"-route.yaml"] = importRoute(mode)
		eastFiles[mode+".yaml"], eastFiles[mode+"-route.yaml"] = poolText(mode, annotations),
			routeText(mode, "inference.networking.k8s.io", "InferencePool")
	}
	hereFiles["busy.yaml"], hereFiles["policy.yaml"], hereFiles["busy-route.yaml"] = poolText("busy", ""),
		spillingPolicy, routeText("busy", "inference.networking.k8s.io", "InferencePool")
	here, err := newSite(ctx, c, "here", hereFiles)
	if err != nil {
		return err
	}
	defer here.stop()
	east, err := newSite(ctx, c, "east", eastFiles)
	if err != nil {
		return err
	}
	defer east.stop()
	if err := joinSites(here, east); err != nil {
		return err
	}
	client := &http.Client{Timeout: timeout}
	timed := func(s *site, path string) (took time.Duration, err error) {
		start := time.Now()
		by, err := s.request(ctx, client, path)
		took = time.Since(start)
		if err == nil && by == "" {
			err = fmt.Errorf("cluster %s does not serve /%s/", s.name, path)
		}
		return took, err
	}
	took := map[string][]time.Duration{}
	for _, mode := range modes {
		for _, s := range []*site{here, east} {
			if err := eventually(ctx, func() error { _, err := timed(s, mode); return err }); err != nil {
				return errors.Join(err, s.running())
			}
		}
	}
	if err := eventually(ctx, func() error { _, err := timed(here, "busy"); return err }); err != nil {
		return errors.Join(err, here.running())
	}
	for turn := range latencyTurns + latencyTurns/10 {
		for _, way := range []struct {
			name, path string
			at         *site
		}{{"own", "endpoint", east}, {"endpoint", "endpoint", here}, {"parent", "parent", here},
			{"spilled", "busy", here}} {
			d, err := timed(way.at, way.path)
			if err != nil {
				return err
			}
			if turn >= latencyTurns/10 { // the first ones warm
				took[way.name] = append(took[way.name], d)
			}
		}
	}
	own := median(took["own"])
	out("mc_added_latency", "", float64(median(took["endpoint"]))/float64(own))
	out("mc_added_latency_parent", "", float64(median(took["parent"]))/float64(own))
	out("mc_spill", "", float64(median(took["spilled"]))/float64(median(took["endpoint"])))
	out("mc_spill", "spilled", milliseconds(median(took["spilled"])))
	out("mc_added_latency", "own", milliseconds(own))
	out("mc_added_latency", "endpoint", milliseconds(median(took["endpoint"])))
	out("mc_added_latency", "parent", milliseconds(median(took["parent"])))
	return nil
}
