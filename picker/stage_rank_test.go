package picker

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/schedule"
)

func TestTree_ThroughEnvoy(t *testing.T) {
	g := startGateway(t, route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true},
		route{Name: "none", Cluster: "closed", Mode: none, Allow: true})
	g.pods[0].shows(0, 0.85, "chat,law")
	g.pods[1].shows(0, 0.95, "sql,law")
	ask := func(c schedule.Criticality, path, model string) (pod string, status int, reason string) {
		t.Helper()
		setPools(t, g.picker,
			Pool{ID: poolID("ns/pool"), Strategy: "tree", Criticality: c, Endpoints: g.endpoints(), Body: BodyBuffered})
		if e := g.picker.Explain("ns/pool", map[string]string{modelHeader: model}); e.Criticality != c ||
			len(e.Verdicts) != 2 || !e.Verdicts[0].State.Fresh {
			t.Fatalf("explained as %+v, want criticality %q and two fresh servers", e, c)
		}
		request, err := http.NewRequest(http.MethodPost, g.url+path, strings.NewReader(`{"model":"`+model+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if path == "/none/" {
			request.Header.Set(modelHeader, model) // the Gateway's scanner does the same
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.Header.Get("x-pod"), response.StatusCode, response.Header.Get("x-penstock-reason")
	}
	for _, path := range []string{"/buffered/", "/none/"} {
		for model, want := range map[string]string{
			"sql": "pod-1", "chat": "pod-0", "law": "pod-0", "unknown": "pod-0",
		} {
			for range 3 {
				if pod, status, _ := ask(schedule.Critical, path, model); pod != want || status != 200 {
					t.Errorf("%s, model %s: %d by %s, want %s", path, model, status, pod, want)
				}
			}
		}
		if _, status, reason := ask(schedule.Sheddable, path, "law"); status != 429 || reason != ReasonShed {
			t.Errorf("%s: a sheddable request without capacity: got %d %q, want 429 and %q",
				path, status, reason, ReasonShed)
		}
		if e := g.picker.Explain("ns/pool", nil); e.Status != 429 || len(e.Exceeded) != 1 || e.Exceeded[0].Value != 85 {
			t.Errorf("%s: explained as %d by %+v, want 429 by one limit at 85", path, e.Status, e.Exceeded)
		}
		if pod, status, _ := ask(schedule.Standard, path, "law"); status != 200 || pod != "pod-0" {
			t.Errorf("%s: a standard request without capacity: got %d by %q, want 200 by pod-0", path, status, pod)
		}
	}
	for _, record := range g.picker.Picks(Picks{}) {
		if shed := record.Status == http.StatusTooManyRequests; shed != (len(record.Exceeded) == 1) ||
			shed && (record.Exceeded[0].Value != 85 || record.Exceeded[0].Endpoints != 2) {
			t.Errorf("got %d by %+v, want one limit, at 85 of 2 endpoints, exactly for 429",
				record.Status, record.Exceeded)
		}
	}
	for _, record := range g.picker.History("ns/pool") {
		dropped := func(v schedule.Verdict) bool { return v.Out != "" }
		if record.Criticality == "" || !slices.ContainsFunc(record.Verdicts, dropped) {
			t.Errorf("got %+v, want a criticality, and a verdict with a reason", record)
		}
	}
}

// If the picker reads no bodies, but the Gateway's script sends the model in a header, requests for
// an adapter go to servers that have the adapter.
func TestLoad_AdaptersCountWithoutBodies(t *testing.T) {
	g := startGateway(t, route{Name: "none", Cluster: "closed", Mode: none, Allow: true})
	g.pods[0].shows(0, 0, "chat")
	g.pods[1].shows(0, 0, "sql")
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Endpoints: g.endpoints()})
	for _, v := range g.picker.Explain("ns/pool", nil).Verdicts { // Explain reads the pages
		if !v.State.Fresh {
			t.Fatalf("got %+v, want its page read", v)
		}
	}
	for model, want := range map[string]string{"chat": "pod-0", "sql": "pod-1"} {
		for range 2 { // no access log ends these requests
			request, err := http.NewRequest(http.MethodPost, g.url+"/none/", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set(modelHeader, model)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if pod := response.Header.Get("x-pod"); pod != want {
				t.Errorf("model %s: answered by %s, want %s", model, pod, want)
			}
		}
	}
	for _, record := range g.picker.Picks(Picks{}) {
		if record.Model == "" {
			t.Errorf("got %+v, want a record with its model", record)
		}
	}
}

func TestTree_ShedRequestSpills(t *testing.T) {
	g := startGateway(t,
		route{Name: "a", Cluster: "closed-spill", Mode: none, Allow: true, Filter: "picker-spill",
			Spill: "envoy://hop-b/"})
	g.pods[0].shows(6, 0.1, "")
	g.pods[1].shows(6, 0.1, "")
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Strategy: "tree", Criticality: schedule.Sheddable, Endpoints: g.endpoints(),
			Spills: true, Spill: []string{"envoy://hop-b/"}})
	g.picker.Explain("ns/pool", nil)
	if response, text := g.post(t, "/a/", nil); response.StatusCode != 200 || response.Header.Get("x-pod") != "other" {
		t.Errorf("got %s %s, want 200 from other", response.Status, text)
	}
}
