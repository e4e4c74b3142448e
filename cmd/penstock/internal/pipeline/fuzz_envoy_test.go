package pipeline_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// answerLimit is how long Envoy may take to answer one change. The fuzzer ends a worker after 10 s.
const answerLimit = 9 * time.Second

const maxAcked = 100_000

// fuzzEnvoy is an Envoy with its control plane. It starts once and receives the resources of all
// executions.
type fuzzEnvoy struct {
	control *xdstest.Control
	sent    []resource.Ref
	count   int
	acked   map[uint64]bool // digests of accepted resources, because most invalid objects give the same ones
}

func startFuzzEnvoy(f testing.TB) *fuzzEnvoy {
	e := &fuzzEnvoy{control: xdstest.Serve(f, server.Config{}), acked: map[uint64]bool{}}
	e.control.Commit(nil)
	e.start(f).WaitLive()
	return e
}

func (e *fuzzEnvoy) start(t testing.TB) *envoytest.Envoy {
	return envoytest.StartGateway(t, bootstrap.Config{
		Gateway: xdstest.Gateway, ADS: []string{e.control.Address}, DrainTime: time.Second, Concurrency: 1,
	})
}

func (e *fuzzEnvoy) check(t *testing.T, objects []map[string]any) {
	t.Helper()
	tr, _ := translate(t, objects)
	for _, gateway := range tr.Gateways() {
		if problem := e.rejects(t, tr.Resources(gateway)); problem != "" {
			t.Errorf("gateway %s: got the problem %s, want none", gateway, problem)
		}
	}
}

// rejects replaces all of Envoy's resources, and waits for its answers. It returns the NACKs; "":
// none.
func (e *fuzzEnvoy) rejects(t *testing.T, now []*resource.Resource) string {
	t.Helper()
	digest := digestOf(now)
	if e.acked[digest] {
		return ""
	}
	// A cluster with a new name identifies Envoy's answers to this change.
	e.count++
	mark, err := resource.New(resource.Cluster, "mark", &clusterv3.Cluster{
		Name: "mark", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout: durationpb.New(time.Duration(e.count) * time.Millisecond),
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.commit(append(now[:len(now):len(now)], mark))
	ctx, cancel := context.WithTimeout(t.Context(), answerLimit)
	defer cancel()
	marked := make(chan error, 1)
	go func() { marked <- e.control.Server.WaitAcked(ctx, xdstest.Gateway, mark.Ref, mark.Version) }()
	var problems []string
	seen := false
	poll.For(t, "Envoy answers", answerLimit, func() bool {
		if !seen && len(marked) > 0 {
			if err := <-marked; err != nil {
				t.Fatal(err)
			}
			seen = true
		}
		var pending bool
		problems, pending = e.nacks()
		return len(problems) > 0 || seen && !pending
	})
	if len(problems) > 0 { // the next execution needs an Envoy that rejects nothing
		e.commit(nil)
		poll.For(t, "Envoy has dropped what it rejected", answerLimit, func() bool {
			left, _ := e.nacks()
			return len(left) == 0
		})
		return strings.Join(problems, "\n")
	}
	if len(e.acked) >= maxAcked {
		clear(e.acked)
	}
	e.acked[digest] = true
	return ""
}

func digestOf(all []*resource.Resource) uint64 {
	h := fnv.New64a()
	for _, r := range all {
		_, _ = fmt.Fprintln(h, r.Ref, r.Version) // never fails
	}
	return h.Sum64()
}

// nacks returns Envoy's NACKs, except for addresses that this machine cannot bind. pending reports
// whether an answer is missing, other than to removals.
func (e *fuzzEnvoy) nacks() (problems []string, pending bool) {
	for _, p := range e.control.Server.Proxies() {
		for _, t := range p.Types {
			pending = pending || t.Pending > t.Leaving // removals wait until nothing uses the resources
			if t.Rejected > 0 && !strings.Contains(t.LastNack, "cannot bind") {
				problems = append(problems, t.Type+": "+t.LastNack)
			}
		}
	}
	return problems, pending
}

func (e *fuzzEnvoy) commit(now []*resource.Resource) {
	keep := map[resource.Ref]bool{}
	for _, r := range now {
		keep[r.Ref] = true
	}
	e.sent = slices.DeleteFunc(e.sent, func(ref resource.Ref) bool { return keep[ref] })
	e.control.Commit(now, e.sent...)
	e.sent = slices.Collect(maps.Keys(keep))
}
