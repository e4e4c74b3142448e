package envoy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

// pickedAgain adds a fail-close pool with a picker that reads bodies. If a pick is lost, the
// cluster falls back to a hop (internal listener) to the pool itself. Picker calls have the pool
// name `first` on the edge and the pool name `again` behind the hop.
func (r *rig) pickedAgain(name string, protocol model.Protocol, first, again string, eps []model.Endpoint) {
	r.t.Helper()
	hop, last := model.HopTo("InferencePool", "ns", name), named(name).As(model.LastVariant)
	to := func(cluster model.ClusterID, pool string) []model.WeightedBackend {
		return []model.WeightedBackend{
			{
				Cluster: cluster, Weight: 1, Picker: &model.PickerCall{
					Cluster: model.OurPicker, Pool: poolNamed(pool), Body: model.BodyBuffered,
				},
			},
		}
	}
	r.cluster(model.Cluster{Name: last, Protocol: protocol, Fallback: model.FallbackNone}, eps...)
	r.hop(model.Hop{Name: hop, Backends: to(last, again)})
	r.cluster(model.Cluster{Name: named(name), Protocol: protocol, Fallback: model.FallbackAgain, Hops: true},
		append(eps[:len(eps):len(eps)], model.Endpoint{Hop: hop})...)
	r.forward(name, model.Forward{Backends: to(named(name), first)})
}

// A picker that reads bodies answers the headers first. If the picker then ends, Envoy does not
// retry the call, because it is partly answered. So the cluster of a fail-close pool must fall back
// to a hop to the pool itself, where Envoy calls another picker.
func TestEndpointPicker_LostPickIsRepeatedWhereThePoolFailsClosed(t *testing.T) {
	t.Parallel()
	a1, a2 := startPod(t, "a1", 200), startPod(t, "a2", 200)
	p := startPicker(t, map[string]script{
		"quits":  {quits: true},
		"silent": {silent: true},
		"again":  {endpoints: a2.address.String()},
		"full":   {status: 429},
	})
	r := newRig(t, p.address)
	spoken := map[model.Protocol]string{model.HTTP1: "HTTP/1.1", model.H2C: "HTTP/2.0"}
	pairs := map[string]outcome{"quits-again": "picked", "silent-again": "picked", "quits-quits": "503",
		"quits-full": "429", "full-again": "429"}
	for pair := range pairs {
		first, again, _ := strings.Cut(pair, "-")
		for protocol := range spoken {
			r.pickedAgain(pair+"-"+string(protocol), protocol, first, again, endpoints(a1.address, a2.address))
		}
	}
	r.start()
	for _, size := range []int{1 << 10, 4 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		for pair, want := range pairs {
			for protocol, version := range spoken {
				t.Run(fmt.Sprintf("%s/%s/%d", pair, protocol, size), func(t *testing.T) {
					got, err := r.do(r.request("POST", pair+"-"+string(protocol), "/v1/chat/completions", body))
					if err != nil {
						t.Fatal(err)
					}
					checkOutcome(t, got, want, a2, body)
					if want == "picked" && got.header.Get("Spoken") != version {
						t.Errorf("the pod was spoken to in %s, want %s", got.header.Get("Spoken"), version)
					}
				})
			}
		}
	}
}

func streamer(t *testing.T, gate chan struct{}) *pod {
	return (&pod{name: "streamer"}).serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "%s %s\n", req.Proto, req.Trailer.Get("X-End"))
		_ = http.NewResponseController(w).Flush()
		<-gate
		fmt.Fprint(w, "end")
		w.Header().Set("X-Sum", "7")
	}))
}

// Envoy closes a connection to a hop after too many early cancellations, for example because of
// silent pickers. Over HTTP/2, this would end all other streams of the connection. Here eight
// streams must survive such cancellations.
func TestHop_CancelledRequestsCutNoStream(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	p := startPicker(t, map[string]script{"quits": {quits: true}})
	picks := func(sc script) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.scripts["again"] = sc
	}
	pod := streamer(t, gate)
	picks(script{endpoints: pod.address.String()})
	r := newRig(t, p.address)
	r.pickedAgain("llm", model.H2C, "quits", "again", endpoints(pod.address))
	r.start()
	over2 := &http.Transport{Protocols: &http.Protocols{}}
	over2.Protocols.SetUnencryptedHTTP2(true)
	var streams []*http.Response
	for range 8 { // enough for both workers
		req := r.request("POST", "llm", "/", nil)
		req.Body, req.ContentLength, req.Trailer = io.NopCloser(strings.NewReader("hello")), -1,
			http.Header{"X-End": {"yes"}}
		resp, err := over2.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		line := make([]byte, len("HTTP/2.0 yes\n"))
		if _, err := io.ReadFull(resp.Body, line); err != nil || string(line) != "HTTP/2.0 yes\n" {
			t.Fatalf(`got %s %q %v, want "HTTP/2.0 yes"`, resp.Status, line, err)
		}
		streams = append(streams, resp)
	}
	picks(script{silent: true})
	var given sync.WaitGroup
	for range 60 {
		given.Go(func() {
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				if got, err := r.do(r.request("POST", "llm", "/", []byte("hello")).WithContext(ctx)); err == nil {
					t.Errorf("a request without any pick: got %s, want an error", got)
				}
				cancel()
			}
		})
	}
	given.Wait()
	close(gate)
	for i, resp := range streams {
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "end" || resp.Trailer.Get("X-Sum") != "7" {
			t.Errorf(`stream %d: got %q, trailers %v, %v; want "end", and X-Sum 7`, i, rest, resp.Trailer, err)
		}
	}
}
