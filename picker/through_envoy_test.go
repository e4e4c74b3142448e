package picker

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/schedule"
)

func TestEnvoyFollowsThePickInEveryMode(t *testing.T) {
	g := startGateway(t,
		route{Name: "none", Cluster: "closed", Mode: none, Allow: true},
		route{Name: "resp", Cluster: "closed", Mode: noneResp, Allow: true},
		route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true},
		route{Name: "duplex", Cluster: "closed", Mode: duplex, Allow: true},
		route{Name: "duplex2", Cluster: "closed", Mode: duplex2, Allow: true},
	)
	for _, body := range []Body{BodyNone, BodyBuffered} {
		if err := g.picker.SetPools([]Pool{{Name: "ns/pool", Strategy: "round-robin", Endpoints: g.endpoints(), Body: body}}); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []string{"none", "resp", "buffered", "duplex", "duplex2"} {
			for _, size := range []int{0, 10, 100 << 10, 3 << 20} {
				sent := bytes.Repeat([]byte("x"), size)
				seen := map[string]int{}
				for range 4 {
					response, text := g.post(t, "/"+mode+"/", sent)
					if response.StatusCode != 200 {
						t.Fatalf("%s %s %d bytes: %s %s", body, mode, size, response.Status, text)
					}
					seen[response.Header.Get("x-pod")]++
				}
				if seen["pod-0"] != 2 || seen["pod-1"] != 2 {
					t.Errorf("%s %s %d bytes: %v", body, mode, size, seen)
				}
				for _, p := range g.pods {
					header, got := p.received()
					if !bytes.Equal(got, sent) {
						t.Errorf("%s %s: the pod got %d bytes of %d", body, mode, len(got), size)
					}
					if h := header.Get("x-gateway-destination-endpoint"); h != p.addr().String() {
						t.Errorf("%s %s: header %q at %s", body, mode, h, p.addr())
					}
				}
			}
		}
	}
}

func TestAFullPoolAnswers429AndAnEmptyOne503(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: buffered, Allow: true})
	_ = schedule.Full{}
	if err := g.picker.SetPools([]Pool{{Name: "ns/pool"}}); err != nil {
		t.Fatal(err)
	}
	response, text := g.post(t, "/a/", []byte("{}"))
	if response.StatusCode != 503 || response.Header.Get("x-penstock-reason") != ReasonNoEndpoints || !strings.Contains(text, `"code":"no_endpoints"`) {
		t.Errorf("%s %v %s", response.Status, response.Header, text)
	}
}
