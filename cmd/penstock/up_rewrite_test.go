package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// echoServer is a model server that answers with the body that it received, and with its name, the model's header and that of encoders in headers.
func echoServer(t *testing.T, name string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-served-by", name)
		w.Header().Set("x-model-header", r.Header.Get("x-gateway-model-name"))
		w.Header().Set("x-encoders", r.Header.Get("x-encoder-hosts-ports"))
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func modelYAML(name, pool, model, targets string) string {
	return fmt.Sprintf("---\napiVersion: inference.networking.x-k8s.io/v1alpha2\nkind: InferenceModel\nmetadata: {name: %s}\nspec: {modelName: %s, poolRef: {name: %s}, targetModels: [%s]}\n", name, model, pool, targets)
}

const askedModel = `{"seed": 9007199254740993, "model":"public", "prompt":"<b>\u00e9", "stream":false}`

func withModel(model string) string { return strings.Replace(askedModel, "public", model, 1) }

// The first pool's picker has replaced the model when its pod refuses the connection.
func TestInferenceModel_NextPoolAfterASpillSeesWhatTheClientSent(t *testing.T) {
	t.Parallel()
	closed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	port := freePort(t)
	files := map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"servers.yaml": serversYAML("first", closed) + "---\n" + serversYAML("second", echoServer(t, "second")) + "---\n" + serversYAML("third", echoServer(t, "third")),
		"pools.yaml":   poolYAML("first") + "---\n" + poolYAML("second") + "---\n" + poolYAML("third"),
		"models.yaml":  modelYAML("a", "first", "public", "{name: first-v1}") + modelYAML("b", "second", "public", "{name: second-v7}") + modelYAML("c", "second", "first-v1", "{name: wrong}"),
	}
	for _, to := range []string{"second", "third"} {
		files["to-"+to+".yaml"] = routeYAML("to-"+to, "/to-"+to, toPool("first-"+to)) + "---\n" + strings.Replace(poolYAML("first-"+to), "app: first-"+to, "app: first", 1) +
			modelYAML("of-first-"+to, "first-"+to, "public", "{name: first-v1}") +
			fmt.Sprintf("---\napiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: %s}\nspec: {targetRef: {name: first-%s}, spill: [{name: %s}]}\n", to, to, to)
	}
	up(t, files)
	for path, want := range map[string]struct{ by, model string }{"/to-second": {"second", "second-v7"}, "/to-third": {"third", "public"}} {
		answers(t, local(port)+path, http.StatusOK)
		for range 5 {
			got := ask(t, local(port)+path, askedModel)
			if got.status != http.StatusOK || got.body != withModel(want.model) || got.header.Get("x-served-by") != want.by || got.header.Get("x-model-header") != "public" {
				t.Errorf("%s: %d from %s, model header %q: %s", path, got.status, got.header.Get("x-served-by"), got.header.Get("x-model-header"), got.body)
			}
		}
	}
}

// Adding and removing an InferenceModel changes what its pool's picker gets, while requests go on.
func TestInferenceModel_TakesEffectAndEndsWhileTrafficRuns(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"chat.yaml":    routeYAML("chat", "/", toPool("chat")) + "---\n" + poolYAML("chat") + "---\n" + serversYAML("chat", echoServer(t, "pod")),
		"policy.yaml":  pickerYAML("{strategy: random}"),
	})
	answers(t, local(port), http.StatusOK)
	becomes := func(model string) {
		t.Helper()
		eventually(t, "the server gets "+model, func() error {
			got := ask(t, local(port), askedModel)
			if got.status != http.StatusOK {
				t.Fatalf("%d: %s", got.status, got.body)
			}
			if got.body != withModel(model) {
				return fmt.Errorf("it gets %s", got.body)
			}
			return nil
		})
	}
	becomes("public")
	s.write("model.yaml", modelYAML("m", "chat", "public", "{name: v1, weight: 1}"))
	becomes("v1")
	s.write("model.yaml", modelYAML("m", "chat", "public", "{name: v1, weight: 0}"))
	s.errs.expect(t, "spec.targetModels[0].weight: must be at least 1, is 0")
	becomes("v1") // the last good one
	s.remove("model.yaml")
	becomes("public")
}

// The deep dive's InferenceModel, verbatim, and its pool without the picker's Service, which no document shows.
func TestSeedManifests_InferenceModelSplitsItsRequests(t *testing.T) {
	t.Parallel()
	seed := func(n int) string {
		text, err := os.ReadFile(filepath.Join(root, "discovery", "file", "testdata", "seeds", fmt.Sprintf("inference-extension-deep-dive-%d.yaml", n)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	port := freePort(t)
	pool, picker, found := strings.Cut(seed(2), "  extensionRef:")
	if !found || strings.Count(picker, ":") != 1 {
		t.Fatalf("the seed's pool is another one:\n%s", seed(2))
	}
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"model.yaml":   seed(1),
		"pool.yaml":    pool,
		"route.yaml":   routeYAML("llm", "/", toPool("vllm-llama2-7b-pool")),
		"servers.yaml": serversYAML("vllm-llama2-7b", echoServer(t, "pod")),
	})
	answers(t, local(port), http.StatusOK)
	got := map[string]int{}
	for range 400 {
		a := ask(t, local(port), strings.Replace(askedModel, "public", "llama2", 1))
		for _, v := range []string{"vllm-llama2-7b-2024-11-20", "vllm-llama2-7b-2025-03-24"} {
			if a.body == withModel(v) {
				got[v]++
			}
		}
	}
	if text := s.penstock("explain", local(port)+"/v1/completions", "--model", "llama2"); !strings.Contains(text, "replaced by vllm-llama2-7b-2024-11-20 (75%), vllm-llama2-7b-2025-03-24 (25%)") {
		t.Errorf("explain:\n%s", text)
	}
	// Five standard deviations.
	if n := got["vllm-llama2-7b-2024-11-20"]; n+got["vllm-llama2-7b-2025-03-24"] != 400 || n < 255 || n > 345 {
		t.Errorf("of 400 requests: %v", got)
	}
}
