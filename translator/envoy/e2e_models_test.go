package envoy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// modelRig routes model "one" to pool one, "two" to pool two, and every other name to a Service that shows it.
func modelRig(t *testing.T) *rig {
	t.Helper()
	one, two, any := startPod(t, "one", 200), startPod(t, "two", 200), startPod(t, "any", 200)
	p := startPicker(t, map[string]script{"one": {endpoints: one.address.String()}, "two": {endpoints: two.address.String()}})
	r := newRig(t, p.address)
	byName := func(name string, regex bool, f model.Forward) model.Route {
		return model.Route{
			Name:   "model " + name,
			Match:  model.Match{PathKind: model.PathPrefix, Path: "/", Headers: []model.ValueMatch{{Name: modelHeader, Value: name, Regex: regex}}},
			Action: &model.Action{Forward: &f},
		}
	}
	r.cluster(model.Cluster{Name: named("one"), Protocol: model.HTTP1, Fallback: model.FallbackNone}, endpoints(one.address)...)
	r.cluster(model.Cluster{Name: named("two"), Protocol: model.HTTP1, Fallback: model.FallbackNone}, endpoints(two.address)...)
	r.cluster(model.Cluster{Name: named("any"), Protocol: model.HTTP1}, endpoints(any.address)...)
	r.host("models",
		byName("one", false, backends(pool("one", "one", model.BodyBuffered))),
		byName("two", false, backends(pool("two", "two", model.BodyNone))),
		byName(".+", true, backends(model.WeightedBackend{Cluster: named("any"), Weight: 1})))
	r.start()
	return r
}

func TestModelRouting_FollowsTheModelInTheBody(t *testing.T) {
	t.Parallel()
	r := modelRig(t)
	long := strings.Repeat(`put \"model\": \"two\" {[ `, 100_000)
	for body, want := range map[string]string{
		`{"model":"one"}`:                     "200 one",
		` { "model" : "two" , "stream":true}`: "200 two",
		`{"messages":[{"role":"user","content":"` + long + `"}],"model":"one"}`: "200 one",
		`{"a":{"model":"two"},"b":[{"model":"two"}],"model":"one"}`:             "200 one",
		`{"prompt":"\\","model":"one"}`:                                         "200 one",
		`{"prompt":"\\\",\"model\":\"two","model":"one"}`:                       "200 one",
		`{"x":"model","model":"one"}`:                                           "200 one",
		`{"mod\u0065l":"tw\u006f"}`:                                             "200 two",
		`{"model":"one","n":{"model":"two"}}`:                                   "200 one",
		`{"model":"one","model":"two"}`:                                         "400 ",
		`{"model":"one","mode\u006c":"one"}`:                                    "400 ",
		`{"model":1}`:                                                           "404 ",
		`{"model":null,"x":"one"}`:                                              "404 ",
		`{"model":"one\r\nx: y"}`:                                               "404 ",
		`{"model":"` + strings.Repeat(`\u006f`, 4_000_000) + `"}`:               "404 ",
		`{"model":""}`:                                                          "404 ",
		`["model","one"]`:                                                       "404 ",
		`[{"model":"one"}]`:                                                     "404 ",
		`{} {"model":"one"}`:                                                    "404 ",
		`"model"`:                                                               "404 ",
		`{"model":"on`:                                                          "404 ",
		`{"x":"`:                                                                "404 ",
		``:                                                                      "404 ",
		`{"tokens":[` + strings.Repeat("12345,", 200_000) + `1],"model":"one"}`: "200 one",
		`{"model":"one","pad":"` + strings.Repeat("x", maxBody-25) + `"}`:       "200 one",
		`{"model":"one","pad":"` + strings.Repeat("x", maxBody) + `"}`:          "413 ",
	} {
		if got := r.post(t, "models", []byte(body)); fmt.Sprint(got.status, " ", got.pod) != want {
			t.Errorf("%.80s: want %s, got %s", body, want, got)
		} else if got.pod != "" && got.body != digest([]byte(body)) {
			t.Errorf("%.80s: the body arrived changed", body)
		}
	}
	req := r.request("POST", "models", "/", []byte(`{"model":"one"}`))
	req.Header.Set(modelHeader, "two")
	if got, err := r.do(req); err != nil || got.pod != "one" {
		t.Errorf("a client's header wins over the body: %s %v", got, err)
	}
	req = r.request("GET", "models", "/v1/models", nil)
	req.Header.Set(modelHeader, "two")
	if got, err := r.do(req); err != nil || got.status != 404 {
		t.Errorf("a client's header chooses a route: %s %v", got, err)
	}
}

func TestModelRouting_ReadsTheModelAsAJSONParserDoes(t *testing.T) {
	t.Parallel()
	r := modelRig(t)
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		parts := []string{"model", "m", "{", "}", "[", "]", ":", ",", `"`, `\`, "é", "😀", "/", " ", "1"}
		var s string
		for range random.IntN(6) {
			s += parts[random.IntN(len(parts))]
		}
		return s
	}
	var value func(depth int) any
	value = func(depth int) any {
		switch random.IntN(6) {
		case 0:
			return random.IntN(100)
		case 1:
			return nil
		case 2, 3:
			if depth > 0 {
				m := map[string]any{}
				for range random.IntN(5) {
					m[word()] = value(depth - 1)
				}
				return m
			}
		case 4:
			if depth > 0 {
				return []any{value(depth - 1), value(depth - 1)}
			}
		}
		return word()
	}
	for range 300 {
		doc := map[string]any{"model": value(1)}
		for range random.IntN(5) {
			doc[word()] = value(3)
		}
		body, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(2) == 0 {
			body, _ = json.MarshalIndent(doc, " ", "\t")
		}
		want, _ := doc["model"].(string)
		want = strings.TrimSpace(want) // as header values are
		got := r.post(t, "models", body)
		if seen := got.header.Get("Echo-X-Gateway-Model-Name"); seen != want && want != "one" && want != "two" {
			t.Fatalf("%s: the route saw model %q, want %q (%s)", body, seen, want, got)
		}
	}
}
