package envoy

import (
	"bytes"
	"io"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// A picker that reads only headers may answer 429 or 503 while the client still sends the body. The
// next hop must receive the whole body.
func TestRetry_FullBeforeTheEndOfTheBodyIsSentOnWhole(t *testing.T) {
	t.Parallel()
	good := startPod(t, "good", 200)
	p := startPicker(t,
		map[string]script{"full": {status: 429}, "empty": {status: 503}, "good": {endpoints: good.address.String()}})
	r := newRig(t, p.address)
	next := model.HopTo("InferencePool", "ns", "next")
	r.cluster(model.Cluster{Name: named("last-next"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(good.address)...)
	r.hop(model.Hop{Name: next, Backends: []model.WeightedBackend{pool("last-next", "good", model.BodyNone)}})
	causes := []string{"full", "empty", "unreachable"}
	for _, how := range causes {
		at := pool("last-"+how, how, model.BodyNone)
		if how == "unreachable" { // no picker, and a pod with a closed port
			at.Picker = nil
			r.cluster(model.Cluster{Name: at.Cluster, Protocol: model.HTTP1}, endpoints(closedPort(t))...)
		} else {
			r.cluster(model.Cluster{Name: at.Cluster, Protocol: model.HTTP1, Fallback: model.FallbackNone},
				endpoints(good.address)...)
		}
		r.forward(how, model.Forward{Backends: []model.WeightedBackend{r.behindHop(how, at, next)}})
	}
	r.start()
	for _, how := range causes {
		for _, size := range []int{2 << 10, 2 << 20, 20 << 20} {
			retries := "cluster.hops-" + how + ".upstream_rq_retry"
			before := r.envoy.Stats(retries)[retries]
			body := bytes.Repeat([]byte("x"), size)
			reader, writer := io.Pipe()
			go func() {
				_, _ = writer.Write(body[:size/2])
				r.envoy.Wait("the request is sent again, with half of its body",
					func() bool { return r.envoy.Stats(retries)[retries] > before })
				_, _ = writer.Write(body[size/2:])
				_ = writer.Close()
			}()
			req := r.request("POST", how, "/v1/chat/completions", nil)
			req.Body, req.ContentLength = reader, int64(size)
			got, err := r.do(req)
			if err != nil || got.status != 200 || got.body != digest(body) {
				t.Errorf("%s, %d bytes: got %s, %v; want 200 with the digest of the body", how, size, got, err)
			}
		}
	}
}
