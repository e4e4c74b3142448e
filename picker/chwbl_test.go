package picker

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

// owner returns a key's endpoint on Neutree's ring. Texts of equal length have the order of their
// numbers.
func owner(key string, list []endpoint.Spec) string {
	hash := func(text string) string { return fmt.Sprintf("%x", md5.Sum([]byte(text)))[:16] }
	var ring []string
	for _, e := range list {
		for i := range 100 {
			ring = append(ring, hash(fmt.Sprintf("%s:%d", e.Addr, i))+" "+e.Pod)
		}
	}
	slices.Sort(ring)
	i, _ := slices.BinarySearch(ring, hash(key))
	return strings.Fields(ring[i%len(ring)])[1]
}

func TestCHWBL_ThroughEnvoy(t *testing.T) {
	g := startGateway(t,
		route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true},
		route{Name: "duplex", Cluster: "closed", Mode: duplex, Allow: true})
	// The high load factor keeps all endpoints below their bounds: ended requests still count until
	// the access log reports their ends.
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Strategy: "chwbl", Hashing: schedule.Hashing{LoadFactor: 1000},
			Endpoints: g.endpoints(), Body: BodyBuffered})
	seen := map[string]int{}
	for i := range 12 {
		for _, mode := range []string{"/buffered", "/duplex"} {
			chat := fmt.Sprintf(
				`{"messages":[{"role":"system","content":"s%d"},{"role":"user","content":[{"type":"text",`+
					`"text":"a"},{"type":"text","text":"b"}]}]}`, i)
			whole := fmt.Sprintf(`{"prompt":"p%d"}`, i)
			long := `{"prompt":"` + strings.Repeat("x", 300_000+i) + `"}`
			for _, tt := range []struct{ path, body, key string }{
				{"/v1/chat/completions", chat, fmt.Sprintf("system:s%d|user_0:ab", i)},
				{"/v1/completions", whole, whole},
				{"/v1/unknown", whole, whole},
				{"/v1/unknown", long, long},
				{"/v1/unknown", chat, chat},
			} {
				response, text := g.post(t, mode+tt.path, []byte(tt.body))
				pod := response.Header.Get("x-pod")
				if want := owner(tt.key, g.endpoints()); response.StatusCode != 200 || pod != want {
					t.Errorf("%s%s, key %.40q: %s %s, want %s: %s", mode, tt.path, tt.key, response.Status, pod, want,
						text)
				}
				seen[pod]++
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("all keys on one endpoint: %v, want 2 of them", seen)
	}
	if e := g.picker.Explain("ns/pool", nil); e.Strategy != "chwbl" || e.Endpoints == "" {
		t.Errorf("explanation: got %+v, want strategy chwbl and endpoints", e)
	}
	if records := g.picker.History("ns/pool"); len(records) == 0 || records[0].Verdicts[0].Place == 0 {
		t.Errorf("got records %+v, want the first with places on the ring", records)
	}
}

func TestCHWBL_InvalidBodyIs400(t *testing.T) {
	g := startGateway(t,
		route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true},
		route{Name: "duplex", Cluster: "closed", Mode: duplex, Allow: true})
	broken := map[string]string{
		"truncated": `{"messages":[{"role":"user","content":"`,
		"text":      `hello`,
		"deep":      strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"huge":      `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 2<<20),
	}
	profiles := map[string]*endpointpicker.Profile{
		"prefixes alone": parsed(t, "plugins: [{type: prefix-cache-scorer}]"),
	}
	for _, strategy := range []string{"chwbl", "load", "tree", "random", "prefixes alone"} {
		pool := Pool{ID: poolID("ns/pool"), Strategy: strategy, Endpoints: g.endpoints(), Body: BodyBuffered,
			Plugins: profiles[strategy]}
		needs := strategy == "chwbl"
		if pool.Plugins != nil {
			pool.Strategy, needs = schedule.Plugins, true
		}
		setPools(t, g.picker, pool)
		for _, mode := range []string{"/buffered", "/duplex"} {
			for name, body := range broken {
				response, text := g.post(t, mode+"/v1/chat/completions", []byte(body))
				switch {
				case !needs:
					if _, got := g.podOf(response).received(); response.StatusCode != 200 ||
						!bytes.Equal(got, []byte(body)) {
						t.Errorf("%s %s, %s: got %s and %d of %d bytes, want 200 and the same bytes",
							strategy, mode, name, response.Status, len(got), len(body))
					}
				case response.StatusCode != 400 || response.Header.Get("x-penstock-reason") != "invalid_body" ||
					response.Header.Get("content-type") != "application/json" ||
					!strings.Contains(text, `"type":"invalid_request_error"`) ||
					!strings.Contains(text, `"code":"invalid_body"`):
					t.Errorf("%s, %s: got %s %s, want 400 with invalid_body", mode, name, response.Status, text)
				}
				if response, text := g.post(t, mode+"/v1/other", []byte(body)); response.StatusCode != 200 {
					t.Errorf("%s %s, %s at another path: got %s %s, want 200",
						strategy, mode, name, response.Status, text)
				}
			}
		}
	}
}

func (g *gateway) podOf(response *http.Response) *pod {
	for _, p := range g.pods {
		if p.name == response.Header.Get("x-pod") {
			return p
		}
	}
	return g.pods[0]
}
