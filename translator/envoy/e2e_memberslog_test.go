package envoy

import (
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// Each request to an exporting cluster of an import must be logged exactly once, with or without a
// hop. Requests with a lease are in the log of leases, others in the log for members. Requests to
// other backends must not be logged there.
func TestAccessLog_ReportsEachRequestToAnExportingCluster(t *testing.T) {
	t.Parallel()
	missing, well := startPod(t, "missing", 404), startPod(t, "well", 200)
	var f feedback
	p := startPicker(t, map[string]script{"west": {endpoints: well.address.String()}}, &f)
	r := newRig(t, p.address)
	service, direct := named("service/ns/svc/80"), model.ParentCluster("ns", "far", "north")
	empty, west := model.ParentCluster("ns", "chat", "empty").As(model.LastVariant),
		model.ParentCluster("ns", "chat", "west").As(model.LastVariant)
	picked, all := model.ImportCluster("ns", "chat", "picked"), model.MembersCluster("ns", "chat")
	r.cluster(model.Cluster{Name: service, Protocol: model.HTTP1, Fallback: model.FallbackPods},
		endpoints(well.address)...)
	r.cluster(model.Cluster{Name: direct, Protocol: model.HTTP1, Fallback: model.FallbackPods},
		endpoints(missing.address)...)
	r.cluster(model.Cluster{Name: empty, Protocol: model.HTTP1, Fallback: model.FallbackPods})
	r.cluster(model.Cluster{Name: west, Protocol: model.HTTP1, Fallback: model.FallbackPods},
		endpoints(well.address)...)
	r.cluster(model.Cluster{Name: picked, Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(well.address)...)
	toEmpty, toWest, spill := model.HopTo("InferencePoolImport", "ns", "chat"),
		model.HopTo("InferencePoolImport", "ns", "chat"), model.HopTo("InferencePoolImport", "ns", "far")
	toEmpty.Member, toWest.Member = "empty", "west"
	one := func(c model.ClusterID) model.WeightedBackend {
		return model.WeightedBackend{Cluster: c, Weight: 1, MaxGateways: 4}
	}
	r.hop(model.Hop{Name: toEmpty, Backends: []model.WeightedBackend{one(empty)}})
	r.hop(model.Hop{Name: toWest, Backends: []model.WeightedBackend{one(west)}})
	r.hop(model.Hop{Name: spill, Backends: []model.WeightedBackend{one(direct)}})
	r.cluster(model.Cluster{Name: all, Protocol: model.HTTP1, Fallback: model.FallbackMembers, Hops: true},
		model.Endpoint{Hop: toEmpty}, model.Endpoint{Hop: toWest, Priority: 1})
	r.cluster(model.Cluster{Name: named("hops"), Protocol: model.HTTP1, Fallback: model.FallbackHops, Hops: true},
		model.Endpoint{Hop: spill})
	r.forward("service", backends(model.WeightedBackend{Cluster: service, Weight: 1}))
	r.forward("direct", backends(one(direct)))
	r.forward("several",
		backends(model.WeightedBackend{Cluster: all, Weight: 1, Members: []model.WeightedBackend{one(empty), one(west)},
			Order: model.HopOrder{Priorities: 2, Largest: 1, InOrder: true}}))
	r.forward("spilled", backends(model.WeightedBackend{Cluster: named("hops"), Weight: 1, Hops: true}))
	call := pool(picked.String(), "west", model.BodyNone)
	r.forward("picked", backends(call))
	r.start()
	for _, host := range []string{"service", "direct", "several", "spilled", "picked"} {
		r.post(t, host, []byte("{}"))
	}
	list := func() map[logged]int { return f.logged(t) }
	want := []logged{
		{"members", "direct", "ns/far@north", direct.String(), "via_upstream", "direct", 404, false},
		{"members", "several", "", "", "no_healthy_upstream", toEmpty.String(), 503, true},
		{"members", "several", "", west.String(), "via_upstream", toWest.String(), 200, false},
		{"members", "spilled", "", direct.String(), "via_upstream", spill.String(), 404, false},
		{"ns/gw", "picked", "ns/chat@picked", picked.String(), "via_upstream", "picked", 200, false},
	}
	r.envoy.Wait("all are reported", func() bool { return len(list()) >= len(want) })
	// A duplicate entry would arrive before the entry of this request.
	r.post(t, "direct", []byte("{}"))
	r.envoy.Wait("the last one is reported", func() bool { return list()[want[0]] == 2 })
	for _, w := range want {
		n := 1
		if w == want[0] {
			n = 2
		}
		if list()[w] != n {
			t.Errorf("%v is reported %d times, want %d", w, list()[w], n)
		}
	}
	if len(list()) != len(want) {
		t.Errorf("reported: %v\nwant %v", list(), want)
	}
}

type logged struct {
	log, host, member, cluster, details, route string
	status                                     uint32
	declined                                   bool
}

func (f *feedback) logged(t *testing.T) map[logged]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[logged]int{}
	for _, e := range f.entries {
		common, answer := e.GetCommonProperties(), e.GetResponse()
		if e.GetRequest().GetRequestId() == "" || common.GetStartTime().AsTime().IsZero() {
			t.Errorf("an entry lacks an ID or a time, want both: %v", e)
		}
		out[logged{
			e.log, e.GetRequest().GetAuthority(),
			common.GetMetadata().GetFilterMetadata()["penstock"].GetFields()["member"].GetStringValue(),
			common.GetUpstreamCluster(), answer.GetResponseCodeDetails(),
			common.GetRouteName(), answer.GetResponseCode().GetValue(), answer.GetResponseHeaders()[peerMark] != "",
		}]++
	}
	return out
}
