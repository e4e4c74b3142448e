package envoy

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// Envoy repeats no call that was answered in part, and a picker that reads bodies has answered the headers before it has the
// body: when it is killed then, the pick is lost. The cluster of a pool that fails closed therefore falls back to a hop to
// the pool itself, where another picker is asked.
func TestAPickThatIsLostHalfWayIsMadeAgainWhereThePoolFailsClosed(t *testing.T) {
	t.Parallel()
	a1, a2 := startPod(t, "a1", 200), startPod(t, "a2", 200)
	p := startPicker(t, map[string]script{
		"quits":  {quits: true},
		"silent": {silent: true},
		"again":  {endpoints: a2.address.String()},
		"full":   {status: 429},
	})
	r := newRig(t, p.address)
	eps := endpoints(a1.address, a2.address)
	r.cluster(model.Cluster{Name: "last/pool-a", Protocol: model.HTTP1, Fallback: model.FallbackNone}, eps...)
	for _, c := range []struct{ first, again string }{{"quits", "again"}, {"silent", "again"}, {"quits", "quits"}, {"quits", "full"}, {"full", "again"}} {
		name := c.first + "-" + c.again
		hop := model.HopName("InferencePool", "ns", name)
		call := func(pool string) *model.PickerCall {
			return &model.PickerCall{Cluster: model.OurPicker, Pool: pool, Body: model.BodyBuffered}
		}
		r.hop(model.Hop{Name: hop, Backends: []model.WeightedBackend{{Cluster: "last/pool-a", Weight: 1, Picker: call(c.again)}}})
		r.cluster(model.Cluster{Name: name, Protocol: model.HTTP1, Fallback: model.FallbackAgain, Trailers: true}, append(eps[:2:2], model.Endpoint{Hop: hop})...)
		r.forward(name, model.Forward{Backends: []model.WeightedBackend{{Cluster: name, Weight: 1, Picker: call(c.first)}}})
	}
	r.start()
	for _, size := range []int{1 << 10, 4 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		for host, want := range map[string]outcome{
			"quits-again": "picked", "silent-again": "picked", "quits-quits": "503", "quits-full": "429", "full-again": "429",
		} {
			t.Run(fmt.Sprintf("%s/%d", host, size), func(t *testing.T) {
				got, err := r.do(r.request("POST", host, "/v1/chat/completions", body))
				if err != nil {
					t.Fatal(err)
				}
				checkOutcome(t, got, want, a2, body)
			})
		}
	}
}
