package envoy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/translator/model"
)

func pool(cluster, name string, mode model.BodyMode) model.WeightedBackend {
	return model.WeightedBackend{
		Cluster: named(cluster), Weight: 1,
		Picker: &model.PickerCall{Cluster: model.OurPicker, Pool: poolNamed(name), Body: mode},
	}
}

func spilling(b model.WeightedBackend, hops ...model.HopID) model.WeightedBackend {
	b.Picker.Spills = true
	for _, h := range hops {
		b.Picker.Spill = append(b.Picker.Spill, h.Address())
	}
	return b
}

func backends(b ...model.WeightedBackend) model.Forward { return model.Forward{Backends: b} }

func TestWeightedBackends_EachHasItsOwnPickerAndUnresolvedAnswer500(t *testing.T) {
	t.Parallel()
	a, b := startPod(t, "a", 200), startPod(t, "b", 200)
	p := startPicker(t, map[string]script{"a": {endpoints: a.address.String()}, "b": {endpoints: b.address.String()}})
	r := newRig(t, p.address)
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(a.address)...)
	r.cluster(model.Cluster{Name: named("b"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(b.address)...)
	share := func(b model.WeightedBackend, weight uint32) model.WeightedBackend { b.Weight = weight; return b }
	r.forward("split", backends(
		share(pool("a", "a", model.BodyBuffered), 25),
		share(pool("b", "b", model.BodyNone), 25),
		model.WeightedBackend{Weight: 50}))
	r.forward("nothing", backends(model.WeightedBackend{Cluster: named("a"), Weight: 0}))
	r.start()
	const requests = 600
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range requests / 6 {
				resp := r.post(t, "split", []byte("{}"))
				mu.Lock()
				got[fmt.Sprint(resp.status, " ", resp.pod)]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// The tolerance of 0.1 is five standard deviations.
	for who, want := range map[string]float64{"200 a": .25, "200 b": .25, "500 ": .5} {
		if share := float64(got[who]) / requests; share < want-.1 || share > want+.1 {
			t.Errorf("%s answered %.2f of the requests, want %.2f: %v", who, share, want, got)
		}
	}
	if len(got) != 3 {
		t.Errorf("other answers: %v, want 3 of them", got)
	}
	if a := r.post(t, "nothing", nil); a.status != 500 {
		t.Errorf("a rule whose weights are all 0: got %s, want 500", a)
	}
}

func TestRetry_WalksThePickersListThenSpills(t *testing.T) {
	t.Parallel()
	good, full, other := startPod(t, "good", 200), startPod(t, "full", 503), startPod(t, "other", 200)
	closed := closedPort(t)
	hopB, hopC := model.HopTo("InferencePool", "ns", "b"), model.HopTo("InferencePool", "ns", "c")
	p := startPicker(t, map[string]script{
		"closed-then-good":     {endpoints: list(closed, good.address), retries: "1"},
		"full-then-good":       {endpoints: list(full.address, good.address), retries: "1"},
		"unknown-then-good":    {endpoints: list("10.9.9.9:1", good.address)},
		"full-then-fallback":   {endpoints: list(full.address), retries: "1"},
		"full-then-c":          {endpoints: list(full.address, hopC.Address()), retries: "1"},
		"c-alone":              {endpoints: hopC.Address()},
		"no-pick":              {},
		"b":                    {endpoints: other.address.String()},
		"c":                    {endpoints: good.address.String()},
		"all-full-list-of-one": {endpoints: list(full.address), retries: "0"},
	})
	r := newRig(t, p.address)
	b := r.poolB(other)
	r.cluster(model.Cluster{Name: named("pool-c"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(good.address)...)
	r.hop(model.Hop{Name: hopC, Backends: []model.WeightedBackend{pool("pool-c", "c", model.BodyNone)}})
	if b != hopB {
		t.Fatal(b)
	}
	r.cluster(model.Cluster{Name: named("spilling"), Protocol: model.HTTP1, Fallback: model.FallbackSpill, Hops: true},
		append(endpoints(good.address, full.address, closed), model.Endpoint{Hop: hopB},
			model.Endpoint{Hop: hopC, Later: true})...)
	r.cluster(model.Cluster{Name: named("strict"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(good.address, full.address, closed)...)
	// In a pool that fails open and spills, the picker's answer names the hop.
	r.cluster(model.Cluster{Name: named("open"), Protocol: model.HTTP1, Fallback: model.FallbackPods, Hops: true},
		append(endpoints(full.address), model.Endpoint{Hop: hopB}, model.Endpoint{Hop: hopC, Later: true})...)
	open := map[string]string{"full-then-c": "200 good", "c-alone": "200 good"}
	for name := range open {
		r.forward("open."+name, backends(spilling(pool("open", name, model.BodyNone), hopB, hopC)))
	}
	want := map[string]string{
		"closed-then-good": "200 good", "full-then-good": "200 good", "unknown-then-good": "200 good",
		"full-then-fallback": "200 other", "no-pick": "200 other", "full-then-c": "200 good", "c-alone": "200 good",
	}
	for name := range want {
		r.forward("spilling."+name, backends(spilling(pool("spilling", name, model.BodyBuffered), hopB, hopC)))
	}
	strict := map[string]string{"closed-then-good": "200 good", "all-full-list-of-one": "503 full"}
	for name := range strict {
		r.forward("strict."+name, backends(pool("strict", name, model.BodyBuffered)))
	}
	r.forward("strict.user-retries", model.Forward{
		Backends: []model.WeightedBackend{pool("strict", "full-then-good", model.BodyBuffered)},
		Retry:    &model.Retry{Attempts: 5, Codes: []uint32{503}},
	})
	// A rule splits its requests between a pool that spills to b and a pool behind hops, whose next
	// hop is c.
	r.forward("mixed", backends(
		spilling(pool("spilling", "full-then-fallback", model.BodyBuffered), hopB),
		r.behindHop("mixed", pool("strict", "all-full-list-of-one", model.BodyBuffered), hopC, hopB)))
	r.start()
	by := map[string]int{}
	for range 40 {
		got := r.post(t, "mixed", []byte("{}"))
		by[fmt.Sprint(got.status, " ", got.pod)]++
	}
	if by["200 other"] == 0 || by["200 good"] == 0 || len(by) != 2 {
		t.Errorf("a pool that spills to b and one whose next hop is c: got %v, want 200 of other and of good alone", by)
	}
	r.serves(t, "spilling.", want)
	r.serves(t, "strict.", strict)
	r.serves(t, "open.", open)
	if a := r.post(t, "strict.user-retries", []byte("{}")); a.pod != "good" {
		t.Errorf("a user's retry on 503 does not walk the list: got %s, want pod good", a)
	}
	for _, call := range p.seen("full-then-good") {
		retries := call.metadata.Get(metaRetries)
		spill := call.metadata.Get(metaSpill)
		if asked := len(retries) == 1 && retries[0] == "5"; asked == (len(spill) == 1) {
			t.Errorf("the picker received retries %q and spill %q, want 5 retries, or one spill", retries, spill)
		}
	}
}

func (r *rig) serves(t *testing.T, prefix string, want map[string]string) {
	for name, w := range want {
		t.Run(prefix+name, func(t *testing.T) {
			for range 5 { // a single success may be chance
				if a := r.post(t, prefix+name, []byte("{}")); fmt.Sprint(a.status, " ", a.pod) != w {
					t.Fatalf("want %s, got %s", w, a)
				}
			}
		})
	}
}

func TestHop_NeverSpillsAgain(t *testing.T) {
	t.Parallel()
	// Two full pools spill to each other. The client must get the second pool's answer, and no
	// request may return to the first pool.
	p := startPicker(t, map[string]script{"a": {status: 503}, "b": {status: 429}})
	r := newRig(t, p.address)
	pod := startPod(t, "never", 200)
	hops := map[string]model.HopID{}
	for _, name := range []string{"a", "b"} {
		hops[name] = model.HopTo("InferencePool", "ns", name)
		last := named(name).As(model.LastVariant)
		r.cluster(model.Cluster{Name: last, Protocol: model.HTTP1, Fallback: model.FallbackNone},
			endpoints(pod.address)...)
		r.hop(
			model.Hop{
				Name: hops[name], Backends: []model.WeightedBackend{pool(last.String(), name, model.BodyBuffered)},
			})
	}
	for name, other := range map[string]string{"a": "b", "b": "a"} {
		r.cluster(model.Cluster{Name: named(name), Protocol: model.HTTP1, Fallback: model.FallbackSpill, Hops: true},
			append(endpoints(pod.address), model.Endpoint{Hop: hops[other]})...)
		r.forward("to-"+name, backends(spilling(pool(name, name, model.BodyBuffered), hops[other])))
	}
	r.start()
	if a := r.post(t, "to-a", []byte("{}")); a.status != 429 || a.pod != "" {
		t.Errorf("want the second pool's 429, got %s", a)
	}
	if a := r.post(t, "to-b", []byte("{}")); a.status != 503 || a.pod != "" {
		t.Errorf("want the second pool's 503, got %s", a)
	}
	// Each attempt on the edge calls the other pool's picker at most once.
	if n := len(p.seen("a")) + len(p.seen("b")); n > 2*(1+1+poolRetries) {
		t.Errorf("the pickers were asked %d times for two requests, want at most %d", n, 2*(1+1+poolRetries))
	}
}

func TestRequestBody_Of32MiBArrivesAndLargerOnesGet413(t *testing.T) {
	t.Parallel()
	a, b1 := startPod(t, "a", 200), startPod(t, "b1", 200)
	p := startPicker(t,
		map[string]script{"a": {endpoints: a.address.String()}, "full": {status: 429},
			"b": {endpoints: b1.address.String()}})
	duplex := startPicker(t, map[string]script{"": {endpoints: a.address.String(), duplex: true}})
	r := newRig(t, p.address)
	r.cluster(model.Cluster{Name: named("external"), Protocol: model.GRPC, HealthService: extProcService},
		endpoints(duplex.address)...)
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(a.address)...)
	hop := r.poolB(b1)
	r.cluster(model.Cluster{Name: named("spilling"), Protocol: model.HTTP1, Fallback: model.FallbackSpill, Hops: true},
		append(endpoints(a.address), model.Endpoint{Hop: hop})...)
	r.forward("None", backends(pool("a", "a", model.BodyNone)))
	r.forward("Buffered", backends(pool("a", "a", model.BodyBuffered)))
	r.forward("spilled", backends(spilling(pool("spilling", "full", model.BodyBuffered), hop)))
	external := pool("a", "", model.BodyDuplex)
	external.Picker.Cluster = named("external")
	r.forward("Duplex", backends(external))
	r.start()
	body := make([]byte, maxBody)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(body)
	for _, host := range []string{"None", "Buffered", "Duplex", "spilled"} {
		for _, size := range []int{0, 1, 100_000, 1<<20 + 1, 10 << 20, maxBody} {
			r.healthy("external") // so much data may delay the picker's health checks
			if got := r.post(t, host, body[:size]); got.status != 200 || got.body != digest(body[:size]) {
				t.Errorf("%s: %d bytes: %s, want %s", host, size, got, digest(body[:size]))
			}
		}
	}
	large := append(bytes.Clone(body), 'x')
	for _, host := range []string{"Buffered", "spilled"} {
		if got := r.post(t, host, large); got.status != 413 || !openAIError(got.body, "body_too_large") ||
			got.header.Get("X-Penstock-Reason") != "body_too_large" ||
			!strings.Contains(got.body, "where this gateway reads bodies it takes at most 32 MiB") {
			t.Errorf("%s: one byte too many: got %s, want 413 with body_too_large, and the limit", host, got)
		}
	}
	// If no picker reads the body, its size has no limit.
	if got := r.post(t, "None", large); got.status != 200 || got.body != digest(large) {
		t.Errorf("None: one byte more: got %s, want 200 with the digest of the body", got)
	}
}

func TestClientHeaders_CannotChooseThePodOrPoseAsTheGateway(t *testing.T) {
	t.Parallel()
	a1, a2 := startPod(t, "a1", 200), startPod(t, "a2", 200)
	p := startPicker(t, map[string]script{"a": {endpoints: a1.address.String()}, "none": {}})
	r := newRig(t, p.address)
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(a1.address, a2.address)...)
	r.forward("picked", backends(pool("a", "a", model.BodyNone)))
	r.forward("unpicked", backends(pool("a", "none", model.BodyNone)))
	r.forward("service", backends(model.WeightedBackend{Cluster: named("a"), Weight: 1}))
	r.start()
	for host, want := range map[string]string{"picked": "200 a1", "unpicked": "503 ", "service": "503 "} {
		req := r.request("POST", host, "/", []byte("{}"))
		for k, v := range map[string]string{
			endpointHeader: a2.address.String(), ModelHeader: "x", "x-penstock-pool": "x", "x-penstock-hop": "x",
			"x-envoy-max-retries": "9", "x-envoy-upstream-rq-timeout-ms": "1", "x-request-id": "forged",
		} {
			req.Header.Set(k, v)
		}
		got, err := r.do(req)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got.status, " ", got.pod) != want {
			t.Errorf("%s: want %s, got %s", host, want, got)
		}
		for _, h := range []string{"Echo-X-Gateway-Model-Name", "Echo-X-Penstock-Pool", "Echo-X-Penstock-Hop",
			"Echo-X-Envoy-Upstream-Rq-Timeout-Ms", "Echo-X-Envoy-Expected-Rq-Timeout-Ms", "Echo-X-Envoy-Internal"} {
			if v := got.header.Get(h); v != "" {
				t.Errorf("%s: the pod got the client's %s: %s, want it removed", host, h, v)
			}
		}
		if got.header.Get("X-Request-Id") == "" || got.header.Get("X-Request-Id") == "forged" {
			t.Errorf("%s: want a request id of ours in the answer: %v", host, got.header)
		}
	}
	for _, call := range p.seen("a") {
		if v := call.headers[endpointHeader]; v != "" {
			t.Errorf("the picker saw the client's %s: %s, want it removed", endpointHeader, v)
		}
	}
}

func TestEndpointPicker_LosingOneOfTwoLosesNoPick(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	p := startPicker(t, map[string]script{"a": {endpoints: a.address.String()}})
	r := newRig(t, p.address)
	r.cluster(model.Cluster{Name: named("two-pickers"), Protocol: model.GRPC}, endpoints(p.address, closedPort(t))...)
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(a.address)...)
	for _, mode := range []model.BodyMode{model.BodyNone, model.BodyBuffered} {
		b := pool("a", "a", mode)
		b.Picker.Cluster = named("two-pickers")
		r.forward(string(mode), backends(b))
	}
	r.start()
	for _, host := range []string{"None", "Buffered"} {
		for i := range 20 {
			if got := r.post(t, host, []byte("{}")); got.pod != "a" {
				t.Errorf("%s, request %d: got %s, want pod a", host, i, got)
			}
		}
	}
}

func TestHop_SpilledRequestLooksLikeAnyOther(t *testing.T) {
	t.Parallel()
	a, b1 := startPod(t, "a", 200), startPod(t, "b1", 200)
	p := startPicker(t,
		map[string]script{"a": {endpoints: a.address.String()}, "full": {status: 429},
			"b": {endpoints: b1.address.String()}})
	r := newRig(t, p.address)
	hop := r.poolB(b1)
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1, Fallback: model.FallbackSpill, Hops: true},
		append(endpoints(a.address), model.Endpoint{Hop: hop})...)
	r.forward("local", backends(spilling(pool("a", "a", model.BodyBuffered), hop)))
	r.forward("spilled", backends(spilling(pool("a", "full", model.BodyBuffered), hop)))
	r.start()
	seen := map[string]string{}
	for host, want := range map[string]string{"local": "a", "spilled": "b1"} {
		req := r.request("POST", host, "/v1/chat/completions?x=%2F", []byte("{}"))
		req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		req.Header.Set("X-Forwarded-For", "192.0.2.7")
		got, err := r.do(req)
		if err != nil || got.pod != want {
			t.Fatalf("%s: got %s %v, want pod %s", host, got, err, want)
		}
		if id := got.header.Get("Echo-X-Request-Id"); id == "" || id != got.header.Get("X-Request-Id") {
			t.Errorf("%s: the pod knows request %q, the client %q; want one ID",
				host, id, got.header.Get("X-Request-Id"))
		}
		if h := got.header.Get("Echo-Host"); h != host {
			t.Errorf("%s: the pod saw host %q, want the client's", host, h)
		}
		var lines []string
		for k, v := range got.header {
			if strings.HasPrefix(k, "Echo-") && k != "Echo-X-Request-Id" && k != "Echo-Host" &&
				k != "Echo-X-Gateway-Destination-Endpoint" {
				lines = append(lines, fmt.Sprint(k, v))
			}
		}
		slices.Sort(lines)
		seen[host] = strings.Join(lines, "\n")
	}
	if diff := cmp.Diff(seen["local"], seen["spilled"]); diff != "" {
		t.Errorf("pods see different requests, want equal ones (-local +spilled):\n%s", diff)
	}
}
