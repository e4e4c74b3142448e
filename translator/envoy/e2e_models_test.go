package envoy

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

// modelRig routes model "one" to pool one, model "two" to pool two, and other models to a Service.
func modelRig(t *testing.T) *rig {
	t.Helper()
	one, two, any := startPod(t, "one", 200), startPod(t, "two", 200), startPod(t, "any", 200)
	p := startPicker(t,
		map[string]script{"one": {endpoints: one.address.String()}, "two": {endpoints: two.address.String()}})
	r := newRig(t, p.address)
	byName := func(name string, regex bool, f model.Forward) model.Route {
		return model.Route{
			Name: "model " + name,
			Match: model.Match{PathKind: model.PathPrefix, Path: "/",
				Headers: []model.ValueMatch{{Name: ModelHeader, Value: name, Regex: regex}}},
			Action: &model.Action{Forward: &f},
		}
	}
	r.cluster(model.Cluster{Name: named("one"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(one.address)...)
	r.cluster(model.Cluster{Name: named("two"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(two.address)...)
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
			t.Errorf("%.80s: the body arrived changed, want it unchanged", body)
		}
	}
	req := r.request("POST", "models", "/", []byte(`{"model":"one"}`))
	req.Header.Set(ModelHeader, "two")
	if got, err := r.do(req); err != nil || got.pod != "one" {
		t.Errorf("a client's header and the body name two models: got %s %v, want pod one, by the body", got, err)
	}
	req = r.request("GET", "models", "/v1/other", nil)
	req.Header.Set(ModelHeader, "two")
	if got, err := r.do(req); err != nil || got.status != 404 {
		t.Errorf("a client's header without a body: got %s %v, want 404", got, err)
	}
}

// hostile returns bodies whose scan would occupy a worker thread for long. The scan reaches its
// work limit before it finds the model.
func hostile() map[string]string {
	const size = maxBody - 100
	fill := func(start, part, end string) string {
		return start + strings.Repeat(part, (size-len(start)-len(end))/len(part)) + end
	}
	return map[string]string{
		"strings":           fill(`{"a":[`, `"",`, `""],"model":"one"}`),
		"keys":              fill(`{`, `"":0,`, `"model":"one"}`),
		"brackets":          fill(`{"a":`, `[`, `,"model":"one"}`),
		"pairs of brackets": fill(`{"a":[`, `[],`, `[]],"model":"one"}`),
		"escaped quotes":    fill(`{"a":"`, `\"`, `","model":"one"}`),
		"backslashes":       fill(`{"a":"`, `\\`, `","model":"one"}`),
		"brackets, strings": fill(`{"a":[`, `[""],`, `""],"model":"one"}`),
		"many brackets":     fill(`{"a":[`, `[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]["",`, `""],"model":"one"}`),
		"numbers":           fill(`{"a":[`, `1,`, `1],"model":"one"}`),
		"spaces":            fill(``, ` `, `{"model":"one"}`),
		"spaces of a key":   fill(`{"model"`, ` `, `:"one"}`),
		"spaces of a value": fill(`{"model":`, ` `, `"one"}`),
		"hidden second":     fill(`{"model":"one","a":[`, `"",`, `""],"model":"two"}`),
	}
}

func TestModelRouting_HostileBodyIsAnswered413(t *testing.T) {
	t.Parallel()
	r := modelRig(t)
	for name, body := range hostile() {
		got := r.post(t, "models", []byte(body))
		if got.status != 413 || got.pod != "" || got.header.Get("Content-Type") != "application/json" ||
			!openAIError(got.body, "body_too_large") || got.header.Get("X-Penstock-Reason") != "body_too_large" ||
			!strings.Contains(got.body, "fewer strings") {
			t.Errorf("%s: want 413 in OpenAI's form with what to send instead, got %s, %s", name, got,
				got.header.Get("Content-Type"))
		}
	}
	got := r.post(t, "models", []byte(`{"pad":"`+strings.Repeat("x", maxBody)+`","model":"one"}`))
	if got.status != 413 || !openAIError(got.body, "body_too_large") ||
		got.header.Get("X-Penstock-Reason") != "body_too_large" || !strings.Contains(got.body, "32 MiB") {
		t.Errorf("a body above the limit: want 413 in OpenAI's form, got %s", got)
	}
}

func openAIError(body, code string) bool {
	var answer struct {
		Error struct{ Message, Type, Code string }
	}
	err := json.Unmarshal([]byte(body), &answer)
	return err == nil && answer.Error.Message != "" && answer.Error.Type == "invalid_request_error" &&
		answer.Error.Code == code
}

// The model must be found after large messages, because openai-python sends the messages first.
func TestModelRouting_LargeMessagesMayStandBeforeTheModel(t *testing.T) {
	t.Parallel()
	r := modelRig(t)
	image := `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		strings.Repeat(`iVBORw0KGgo\/`, 2<<20/12) + `"}}]}`
	long := strings.Repeat(
		`{"role":"tool","tool_call_id":"call_1","content":"{\"path\": \"a.go\", \"lines\": [1, 2, 3]}"},`, 20_000)
	tokens := strings.Repeat("123456,", 1<<20)
	for name, body := range map[string]string{
		"image":           `{"messages":[` + image + `],"model":"one"}`,
		"agent":           `{"messages":[` + long + image + `],"model":"one"}`,
		"million tokens":  `{"input":[` + tokens + `1],"model":"one"}`,
		"text of 30 MiB":  `{"prompt":"` + strings.Repeat("word ", 6<<20) + `","model":"one"}`,
		"lines of 30 MiB": `{"prompt":"` + strings.Repeat(`word\n`, 5<<20) + `","model":"one"}`,
	} {
		if got := r.post(t, "models", []byte(body)); got.pod != "one" || got.body != digest([]byte(body)) {
			t.Errorf("%s: want one, got %s", name, got)
		}
	}
}

// Envoy must not buffer bodies for a route without a model match, except if an earlier route
// matches the same requests with a model.
func TestModelRouting_OtherRoutesDoNotHoldBodies(t *testing.T) {
	t.Parallel()
	one, files := startPod(t, "one", 200), startPod(t, "files", 200)
	begun := make(chan struct{}, 1)
	early := (&pod{name: "early"}).serve(t, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		begun <- struct{}{}
		_, _ = io.Copy(io.Discard, req.Body)
	}))
	r := newRig(t, closedPort(t))
	for name, p := range map[string]*pod{"one": one, "files": files, "early": early} {
		r.cluster(model.Cluster{Name: named(name), Protocol: model.HTTP1}, endpoints(p.address)...)
	}
	route := func(to string, m model.Match) model.Route {
		f := backends(model.WeightedBackend{Cluster: named(to), Weight: 1})
		return model.Route{Name: to, Match: m, Action: &model.Action{Forward: &f}}
	}
	byModel := []model.ValueMatch{{Name: ModelHeader, Value: "one"}}
	r.host("models",
		route("early", model.Match{PathKind: model.PathPrefix, Path: "/v1/files"}),
		route("one", model.Match{PathKind: model.PathPrefix, Path: "/v1", Headers: byModel}),
		route("files", model.Match{PathKind: model.PathPrefix, Path: "/"}))
	r.start()
	body, feed := io.Pipe()
	req := r.request("POST", "models", "/v1/files/upload", nil)
	req.Body, req.ContentLength = body, -1
	ended := make(chan error, 1)
	go func() {
		_, err := r.do(req)
		ended <- err
	}()
	if _, err := feed.Write([]byte(`{"model":"one",`)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-begun:
	case err := <-ended:
		t.Fatalf("the request ended before its body: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the body is held although its route does not match on the model")
	}
	_ = feed.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/v1/completions": "one", "/other": "files"} {
		req := r.request("POST", "models", path, []byte(`{"model":"one"}`))
		if got, err := r.do(req); err != nil || got.pod != want {
			t.Errorf("%s: want %s, got %s %v", path, want, got, err)
		}
	}
	// Requests without a readable model go to the next route.
	for _, content := range []string{"application/json", "multipart/form-data; boundary=x", "application/grpc"} {
		req := r.request("POST", "models", "/v1/completions", []byte(`{"x":"one"}`))
		req.Header.Set("Content-Type", content)
		if got, err := r.do(req); err != nil || got.pod != "files" {
			t.Errorf("%s: want files, got %s %v", content, got, err)
		}
	}
	if got, err := r.do(r.request("GET", "models", "/v1/models", nil)); err != nil || got.pod != "files" {
		t.Errorf("GET: want files, got %s %v", got, err)
	}
	if got := r.post(t, "models", []byte(hostile()["strings"])); got.status != 413 || got.pod != "" {
		t.Errorf("a body whose model is not known, at a route without a model: got %s, want 413", got)
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
		want = strings.TrimSpace(want) // header values are trimmed
		got := r.post(t, "models", body)
		if seen := got.header.Get("Echo-X-Gateway-Model-Name"); seen != want && want != "one" && want != "two" {
			t.Fatalf("%s: the route saw model %q, want %q (%s)", body, seen, want, got)
		}
	}
}
