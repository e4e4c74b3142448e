package picker

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func (g *gateway) chat(t testing.TB, pairs ...string) (pod string, status int, reason string) {
	t.Helper()
	response := g.send(t, http.MethodPost, "/a/v1/chat/completions",
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}`, pairs...)
	return response.Header.Get("x-pod"), response.StatusCode, response.Header.Get("x-penstock-reason")
}

// By Envoy's access log, one server takes 200 ms to its first token. The picker then avoids the
// server for requests with a shorter objective.
func TestSLO_ThroughEnvoy(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: buffered, Allow: true})
	g.pods[0].answer(func() int { time.Sleep(200 * time.Millisecond); return 200 })
	pools := func(c schedule.Criticality, endpoints ...endpoint.Spec) {
		t.Helper()
		setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Criticality: c, Endpoints: endpoints, Body: BodyPrompts})
	}
	slow, fast := g.endpoints()[0], g.endpoints()[1]
	predicted := func() float64 {
		for _, v := range g.picker.Explain("ns/pool", nil).Verdicts {
			if v.Pod == "pod-0" {
				return v.TTFT
			}
		}
		return 0
	}
	pools("", slow)
	poll.Until(t, "the latency is learned", func() bool {
		g.chat(t)
		return predicted() > 0.15
	})
	pools("", slow, fast)
	for _, header := range []string{"x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"} {
		for range 5 {
			if pod, status, _ := g.chat(t, header, "120"); pod != "pod-1" || status != 200 {
				t.Errorf(`%s 120: %d by %s, want "pod-1" and 200`, header, status, pod)
			}
		}
	}
	if e := g.picker.Explain("ns/pool", map[string]string{
		"x-slo-ttft-ms": "120",
	}); e.Criticality != schedule.Standard || !strings.HasPrefix(e.Endpoints, fast.Addr.String()) {
		t.Errorf("explanation: got %+v, want Standard, and %s first", e, fast.Addr)
	}
	pools(schedule.Sheddable, slow)
	for value, want := range map[string]int{"120": 429, "5000": 200, "": 200, "soon": 200, "-1": 200} {
		if _, status, reason := g.chat(t, "x-llm-d-slo-ttft-ms", value); status != want ||
			status == 429 && reason != ReasonShed {
			t.Errorf("a sheddable request that asks for %q ms: got %d %q, want %d", value, status, reason, want)
		}
	}
	if _, status, _ := g.chat(t, "x-llm-d-slo-tpot-ms", "1"); status != 429 {
		t.Errorf("a sheddable request that asks for 1 ms a token: %d, want 429", status)
	}
	pools(schedule.Standard, slow)
	if _, status, _ := g.chat(t, "x-llm-d-slo-ttft-ms", "120"); status != 200 {
		t.Errorf("a standard request: %d, want 200", status)
	}
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Strategy: "random", Criticality: schedule.Sheddable,
			ShedAfter: 120 * time.Millisecond, Endpoints: []endpoint.Spec{slow}, Body: BodyPrompts})
	if _, status, reason := g.chat(t); status != 429 || reason != ReasonShed {
		t.Errorf("shedAfter with strategy random: %d %q, want 429 and %q", status, reason, ReasonShed)
	}
	if e := g.picker.Picks(Picks{Last: 1})[0].Exceeded; len(e) != 1 || e[0].Limit != "picker.shedAfter" ||
		e[0].Max != 0.12 || e[0].Value < 0.12 || e[0].Endpoint != slow.Addr.String() {
		t.Errorf("shed by %+v, want picker.shedAfter of 0.12 at %s", e, slow.Addr)
	}
}

// After a denied prompt of megabytes, or a request without a prompt, small requests must not be
// predicted as slow.
func TestSLO_HugePromptShedsNoSmallRequest(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: buffered, Allow: true})
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Criticality: schedule.Sheddable, Endpoints: g.endpoints()[:1], Body: BodyPrompts})
	g.pods[0].answer(func() int { return 400 })
	huge := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 10<<20) + `"}]}`
	if response := g.send(t, http.MethodPost, "/a/v1/chat/completions", huge); response.StatusCode != 400 {
		t.Fatal(response.Status)
	}
	poll.Until(t, "it has ended", func() bool { return g.picker.Explain("ns/pool", nil).Verdicts[0].State.Unread == 0 })
	g.pods[0].answer(func() int { return 200 })
	for what, tt := range map[string]struct{ method, path, body string }{
		"a prompt of one byte": {http.MethodPost, "/a/v1/completions", `{"model":"m","prompt":"a"}`},
		"no prompt":            {http.MethodGet, "/a/health", ""},
		"no JSON":              {http.MethodPost, "/a/v1/completions", "nope"},
	} {
		if response := g.send(t, tt.method, tt.path, tt.body, "x-slo-ttft-ms", "200"); response.StatusCode != 200 {
			t.Errorf("%s: got %s %s, want 200", what, response.Status, response.Header.Get("x-penstock-reason"))
		}
	}
}
