package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// prefillDecode is llm-d's example of a document for prefill and decode; prompts of 64 and more tokens that are not cached have prefill.
const prefillDecode = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: approx-prefix-cache-producer
- type: prefix-cache-scorer
- type: queue-scorer
- type: prefill-filter
- type: decode-filter
- type: max-score-picker
- type: disagg-profile-handler
  parameters:
    deciders:
      prefill: prefix-based-pd-decider
- type: prefix-based-pd-decider
  parameters:
    nonCachedTokens: 64
schedulingProfiles:
- name: prefill
  plugins:
  - pluginRef: prefill-filter
  - pluginRef: max-score-picker
  - {pluginRef: prefix-cache-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 1}
- name: decode
  plugins:
  - pluginRef: decode-filter
  - pluginRef: max-score-picker
  - {pluginRef: prefix-cache-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 1}
`

// inRole is serversYAML of servers of the pool chat in a role.
func inRole(role string, addresses ...string) string {
	return strings.Replace(serversYAML(role, addresses...), "app: "+role, "app: chat, llm-d.ai/role: "+role, 1)
}

// received is the last request that a model server got.
type received struct {
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
}

func lastHeaders(t *testing.T, server string) http.Header {
	t.Helper()
	return lastRequest(t, server).Headers
}

func lastRequest(t *testing.T, server string) (last received) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server+"/debug/last", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := do(client(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got.body), &last); err != nil {
		t.Fatal(err, got.body)
	}
	return last
}

// prompt is a request with a prompt of some tokens that begins with a text.
func prompt(begin string, tokens int) string {
	return fmt.Sprintf(`{"model":"llama","max_tokens":4,"messages":[{"role":"user","content":"%s %s"}]}`, begin, strings.Repeat("abc ", tokens))
}

// A long prompt is read by a server of prefill, which a header names; a short one, and one that decode has cached, is not. What clients
// write into the header is removed.
func TestDisagg_PrefillServerIsNamed(t *testing.T) {
	t.Parallel()
	prefill, decode := modelServer(t, sim.Config{Name: "prefill"}), modelServer(t, sim.Config{Name: "decode"})
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = inRole("prefill", prefill) + "---\n" + inRole("decode", decode)
	files["policy.yaml"] = zonePolicy("{kind: EndpointPickerConfig, name: zone}")
	files["roles.yaml"] = named(prefillDecode)
	s := up(t, files)
	answers(t, local(port), http.StatusOK)
	const header = "X-Prefiller-Host-Port"
	served := func(body, want string) {
		t.Helper()
		got := ask(t, local(port), body, header, "169.254.169.254:80", "x-encoder-hosts-ports", "10.0.0.1:1", "x-dynamo-worker-instance-id", "7")
		if got.status != http.StatusOK || got.header.Get("x-served-by") != "decode" {
			t.Fatalf("%d from %q: %s", got.status, got.header.Get("x-served-by"), got.body)
		}
		h := lastHeaders(t, decode)
		if h.Get(header) != want || h.Get("x-encoder-hosts-ports") != "" || h.Get("x-dynamo-worker-instance-id") != "" {
			t.Errorf("%s..: it got %v, want %q", body[:80], h, want)
		}
	}
	served(prompt("short", 8), "")
	served(prompt("long", 400), prefill)
	served(prompt("long", 400), "") // decode has it now
	// The last pick had no prefill, the one before has. Sampled picks show verdicts, which name servers too: only the label counts.
	if text := s.penstock("explain", "--last", "2"); len(regexp.MustCompile(`(?m)^  prefill +`+regexp.QuoteMeta(prefill)+`$`).FindAllString(text, -1)) != 1 {
		t.Errorf("explain --last:\n%s", text)
	}
	if text := s.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text, "out: decode-filter") || !strings.Contains(text, "out: prefill-filter") {
		t.Errorf("explain:\n%s", text)
	}

	// Without a server of prefill, decode does all.
	s.write("servers.yaml", inRole("decode", decode))
	eventually(t, "decode is alone", func() error {
		ask(t, local(port), prompt(fmt.Sprint(freePort(t)), 400))
		if h := lastHeaders(t, decode).Get(header); h != "" {
			return fmt.Errorf("it got %q", h)
		}
		return nil
	})
	// Without one of decode, there is no answer.
	s.write("servers.yaml", inRole("prefill", prefill))
	answers(t, local(port), http.StatusServiceUnavailable)
}

// The first pool's servers are gone: the second pool's, which serves the request, gets no header of the first one.
func TestDisagg_NextPoolAfterASpillSeesNoPrefillServer(t *testing.T) {
	t.Parallel()
	closed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	prefill, other := modelServer(t, sim.Config{Name: "prefill"}), modelServer(t, sim.Config{Name: "other"})
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = inRole("prefill", prefill) + "---\n" + inRole("decode", closed) + "---\n" + serversYAML("other", other)
	files["other.yaml"] = poolYAML("other")
	files["policy.yaml"] = strings.Replace(zonePolicy("{kind: EndpointPickerConfig, name: zone}"), "spec:", "spec:\n  spill: [{name: other}]", 1)
	files["roles.yaml"] = named(prefillDecode)
	s := up(t, files)
	spilled := func(body string) {
		t.Helper()
		eventually(t, "the other pool serves what the client sent", func() error {
			for range 3 {
				got := ask(t, local(port), body)
				last := lastRequest(t, other)
				if got.status != http.StatusOK || got.header.Get("x-served-by") != "other" || last.Headers.Get("x-prefiller-host-port") != "" || last.Headers.Get("x-dynamo-worker-instance-id") != "" || last.Body != body {
					return fmt.Errorf("%d from %q, which got %v: %.100s", got.status, got.header.Get("x-served-by"), last.Headers, last.Body)
				}
			}
			return nil
		})
	}
	answers(t, local(port), http.StatusOK)
	spilled(prompt("one", 400))
	// Dynamo's picks change bodies too.
	s.write("servers.yaml", strings.ReplaceAll(files["servers.yaml"], "app: chat", `app: chat, penstock.dev/dynamo-instance-id: "5"`))
	s.write("roles.yaml", named(strings.Replace(prefillDecode, "- type: max-score-picker", "- type: max-score-picker\n- type: dynamo-headers", 1)))
	spilled(strings.Replace(prompt("two", 400), "{", `{"nvext":{"token_data":[1,2]},`, 1))
}

// Dynamo's frontends get the numbers of the workers, and no others than those of the pick.
func TestDynamo_FrontendsGetTheWorkersOfThePick(t *testing.T) {
	t.Parallel()
	prefill, decode := modelServer(t, sim.Config{Name: "prefill"}), modelServer(t, sim.Config{Name: "decode"})
	numbered := func(role, address, number string) string {
		return strings.Replace(inRole(role, address), "app: chat", "app: chat, penstock.dev/dynamo-instance-id: \""+number+"\"", 1)
	}
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = numbered("prefill", prefill, "17") + "---\n" + numbered("decode", decode, "18")
	files["policy.yaml"] = zonePolicy("{kind: EndpointPickerConfig, name: zone}")
	files["roles.yaml"] = named(strings.Replace(prefillDecode, "- type: max-score-picker", "- type: max-score-picker\n- type: dynamo-headers", 1))
	up(t, files)
	answers(t, local(port), http.StatusOK)
	body := strings.Replace(prompt("long", 400), "{", `{"nvext":{"token_data":[1,2],"prefill_worker_id":666,"annotations":["big: 9007199254740993"]},`, 1)
	got := ask(t, local(port), body, "x-worker-instance-id", "666", "x-dynamo-prefill-instance-id", "666", "x-dp-rank", "5")
	if got.status != http.StatusOK || got.header.Get("x-served-by") != "decode" {
		t.Fatalf("%d from %q: %s", got.status, got.header.Get("x-served-by"), got.body)
	}
	last := lastRequest(t, decode)
	for name, want := range map[string]string{
		"x-dynamo-worker-instance-id": "18", "x-dynamo-prefill-instance-id": "17", "x-dynamo-routing-mode": "disaggregated",
		"x-worker-instance-id": "", "x-dp-rank": "", "x-prefiller-host-port": prefill,
	} {
		if got := last.Headers.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if want := strings.NewReplacer("[1,2]", "null", "666", "null").Replace(body); last.Body != want {
		t.Errorf("the server got %.200s, want %.200s", last.Body, want)
	}
}

// A request with an image has it encoded elsewhere; one without does not.
func TestDisagg_ImagesAreEncodedElsewhere(t *testing.T) {
	t.Parallel()
	encode, decode := modelServer(t, sim.Config{Name: "encode"}), echoServer(t, "decode")
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = inRole("encode", encode) + "---\n" + inRole("decode", decode)
	files["policy.yaml"] = zonePolicy("{kind: EndpointPickerConfig, name: zone}")
	files["roles.yaml"] = named(`apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: encode-filter
- type: decode-filter
- type: max-score-picker
- type: always-disagg-multimodal-decider
- {type: disagg-profile-handler, parameters: {deciders: {encode: always-disagg-multimodal-decider}}}
schedulingProfiles:
- {name: encode, plugins: [{pluginRef: encode-filter}]}
- {name: decode, plugins: [{pluginRef: decode-filter}]}
`)
	up(t, files)
	answers(t, local(port), http.StatusOK)
	for content, want := range map[string]string{
		`"text"`: "",
		`[{"type":"text","text":"what is it?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]`: encode,
		`[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]`:                                       encode,
	} {
		got := ask(t, local(port), `{"model":"llama","messages":[{"role":"user","content":`+content+`}]}`)
		if got.status != http.StatusOK || got.header.Get("x-encoders") != want {
			t.Errorf("%s: %d, encoded at %q, want %q", content, got.status, got.header.Get("x-encoders"), want)
		}
	}
}

// A sidecar at the pod's first port passes requests on to its data-parallel ranks, which the picker counts apart.
func TestDisagg_DataParallelRankIsNamed(t *testing.T) {
	t.Parallel()
	first, second := freePort(t), freePort(t)
	server := modelServer(t, sim.Config{Name: "pod", Listen: []string{fmt.Sprintf("127.0.0.1:%d", first), fmt.Sprintf("127.0.0.1:%d", second)}})
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = strings.Replace(serversYAML("chat", server), fmt.Sprintf("ports: [%d]", first), fmt.Sprintf("ports: [%d, %d]", first, second), 1)
	files["policy.yaml"] = zonePolicy("{kind: EndpointPickerConfig, name: zone}")
	files["roles.yaml"] = named(fmt.Sprintf("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: random-picker\n- {type: data-parallel-profile-handler, parameters: {primaryPort: %d}}\n", first))
	up(t, files)
	answers(t, local(port), http.StatusOK)
	seen := map[string]int{}
	for range 40 {
		got := ask(t, local(port), question)
		if got.status != http.StatusOK || got.header.Get("x-served-at") != server {
			t.Fatalf("%d at %q: %s", got.status, got.header.Get("x-served-at"), got.body)
		}
		seen[lastHeaders(t, server).Get("x-data-parallel-host-port")]++
	}
	if len(seen) != 2 || seen[server] == 0 || seen[fmt.Sprintf("127.0.0.1:%d", second)] == 0 {
		t.Errorf("ranks: %v", seen)
	}
}
