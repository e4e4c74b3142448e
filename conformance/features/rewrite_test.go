package features

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var asked = map[string]string{
	"/v1/completions":      `{"seed": 9007199254740993, "model":"public", "prompt":"<b>\u00e9", "stream":false}`,
	"/v1/chat/completions": `{"seed": 9007199254740993, "model":"public", "messages":[{"role":"user","content":"<b>\u00e9"}]}`,
}

func withModel(body, model string) string { return strings.Replace(body, "public", model, 1) }

func (s *site) receives(path, body, server string) received {
	s.Helper()
	got, err := s.post(s.base()+path, body)
	if err != nil || got.status != http.StatusOK || got.by() != server {
		s.Fatalf("%s: %d from %q: %s %v, want %d and %q",
			path, got.status, got.by(), got.body, err, http.StatusOK, server)
	}
	return s.last(server)
}

// The first pool's picker replaces the model, and its server is unreachable. The next pool's picker
// must get the client's body.
func TestRewrite_NextPoolAfterASpillSeesWhatTheClientSent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closed("nowhere")
	s.server("second", "--lora", "second-v7")
	s.server("third", "--lora", "public")
	s.up("rewrite.yaml", with("spills"))
	for server, model := range map[string]string{"second": "second-v7", "third": "public"} {
		s.answers("/to-"+server, http.StatusOK)
		for api, body := range asked {
			for range 5 {
				last := s.receives("/to-"+server+api, body, server)
				if header := last.Headers.Get("x-gateway-model-name"); last.Body != withModel(body, model) ||
					header != "public" {
					t.Errorf(`%s gets model header %q: %s, want "public", and the body with model %q`, server, header,
						last.Body, model)
				}
			}
		}
	}
}

// Under traffic, an added InferenceModel replaces the model in requests, and a removed one does
// not.
func TestRewrite_TakesEffectAndEndsWhileTrafficRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod", "--lora", "public,v1")
	s.up("rewrite.yaml", with("chat"))
	s.answers("/", http.StatusOK)
	becomes := func(model string) {
		t.Helper()
		for api, body := range asked {
			s.Eventually("the server gets "+model, func() error {
				last := s.receives(api, body, "pod")
				return because(last.Body == withModel(body, model), "it gets ", last.Body)
			})
		}
	}
	becomes("public")
	s.write("rewrite.yaml", with("chat", "model"))
	becomes("v1")
	s.write("rewrite.yaml", with("chat", "model"), swap("weight: 1", "weight: 0"))
	s.logged("spec.targetModels[0].weight: must be at least 1, is 0")
	becomes("v1") // the last valid weight
	s.write("rewrite.yaml", with("chat"))
	becomes("public")
}

// If no picker answers, a pool that replaces model names fails closed, so that no server receives
// an unreplaced name. Other pools fail open.
func TestRewrite_UnmappedNameReachesNoServerWithoutAPicker(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]int{"model": http.StatusServiceUnavailable, "": http.StatusOK} {
		t.Run("with "+part, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.server("pod", "--lora", "public,v1")
			edits := []edit{with("chat")}
			if part != "" {
				edits = append(edits, with(part))
			}
			s.write("rewrite.yaml", edits...)
			s.serve()
			s.attach(s.ads())
			s.answers("/", http.StatusOK)
			s.kill()
			for range 3 {
				if got, err := s.ask("/", withModel(asked["/v1/chat/completions"], "public")); err != nil ||
					got.status != want {
					t.Errorf("%d, want %d: %s %v", got.status, want, got.body, err)
				}
			}
		})
	}
	s := newSite(t)
	s.server("pod", "--lora", "public,v1")
	s.up("rewrite.yaml", with("chat", "model"), swap("strategy: random", "strategy: random, failureMode: FailOpen"))
	s.reports(
		"PoolPolicy default/chat spec.picker.failureMode: without a pick, servers get bodies as clients sent them")
}

// The InferenceModel of the inference extension's deep dive splits requests by weight. Its pool
// lacks a picker's Service, because no document shows one.
func TestSeedManifests_InferenceModelSplitsItsRequests(t *testing.T) {
	t.Parallel()
	seed := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../../discovery/file/testdata/seeds",
			"inference-extension-deep-dive-"+name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	pool, picker, found := strings.Cut(seed("2"), "  extensionRef:")
	if !found || strings.Count(picker, ":") != 1 {
		t.Fatalf("the seed's pool: got\n%s\nwant one picker with one port", seed("2"))
	}
	s := newSite(t)
	s.server("pod", "--lora", "vllm-llama2-7b-2024-11-20,vllm-llama2-7b-2025-03-24")
	s.Write("model.yaml", seed("1"))
	s.Write("pool.yaml", pool)
	s.up("rewrite.yaml", with("seed"))
	s.answers("/", http.StatusOK)
	const api = "/v1/completions"
	got := map[string]int{}
	for range 400 {
		last := s.receives(api, withModel(asked[api], "llama2"), "pod")
		for _, v := range []string{"vllm-llama2-7b-2024-11-20", "vllm-llama2-7b-2025-03-24"} {
			if last.Body == withModel(asked[api], v) {
				got[v]++
			}
		}
	}
	text := s.explain(s.base()+api, "--model", "llama2")
	if !strings.Contains(text, "replaced by vllm-llama2-7b-2024-11-20 (75%), vllm-llama2-7b-2025-03-24 (25%)") {
		t.Errorf("explain: got\n%s\nwant 75%% and 25%% for the two models", text)
	}
	// The range is five standard deviations.
	if n := got["vllm-llama2-7b-2024-11-20"]; n+got["vllm-llama2-7b-2025-03-24"] != 400 || n < 255 || n > 345 {
		t.Errorf("models of 400 requests: got %v, want 255 to 345 for the first, the rest for the second", got)
	}
}
