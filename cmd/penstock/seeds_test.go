package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seeds returns a folder with published example manifests, and the Gateways in with, which they
// lack.
func seeds(t *testing.T, with string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "discovery", "file", "testdata", "seeds"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "gateways.yaml"), []byte(with), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const seedGateways = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: inference-gateway}
spec:
  gatewayClassName: penstock
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: inf-gw, namespace: example}
spec:
  gatewayClassName: penstock
  listeners: [{name: http, port: 80, protocol: HTTP}]
`

func TestSeedManifests_ReadVerbatimAndMistakesReported(t *testing.T) {
	t.Parallel()
	dir := seeds(t, seedGateways)
	got := acceptedByEnvoy(t, dir)
	var errors []string
	for line := range strings.Lines(got) {
		if rest, ok := strings.CutPrefix(line, "error "); ok {
			errors = append(errors, strings.TrimSpace(rest))
		}
	}
	// The published manifests have two errors: the route's pool is called vllm-llama2-7b-pool
	// elsewhere, and the picker's Service is missing.
	want := []string{
		"inference-extension-deep-dive-2.yaml:10: InferencePool default/vllm-llama2-7b-pool " +
			"spec.endpointPickerRef.name: ",
		"inference-extension-deep-dive-3.yaml:10: HTTPRoute default/llm-route spec.rules[0].backendRefs[0]: ",
	}
	if !slices.EqualFunc(errors, want, strings.HasPrefix) ||
		len(errors) == 2 && !strings.Contains(errors[1], "InferencePool default/vllm-llama2-7b") {
		t.Errorf("errors are\n%s\nwant\n%s", strings.Join(errors, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(got, "BackendNotFound: ") ||
		!strings.Contains(got, "InferenceModel default/inferencemodel-llama2 ") {
		t.Errorf("status: got\n%s\nwant BackendNotFound and InferenceModel default/inferencemodel-llama2", got)
	}

	explained := run(t, dir, "explain", "--state", t.TempDir(), "--gateway", "example/inf-gw",
		"http://my.model.com/completions")
	for _, want := range []string{
		"HTTPRoute example/llm-route, rule 0: PathPrefix /completions",
		"100.0% of requests to InferencePoolImport example/llm-pool (cluster import/example/llm-pool/cluster-a)",
		"HTTPRoute example/llm-route at inf-gw ResolvedRefs=True",
	} {
		if !strings.Contains(explained, want) {
			t.Errorf("explain: got\n%s\nwant %q", explained, want)
		}
	}
}

// The multi-cluster proposal demands that the split "MUST be split equally between Cluster A and
// B".
func TestSeedManifests_SplitIsExact(t *testing.T) {
	t.Parallel()
	route := `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: split, namespace: example}
spec:
  parentRefs: [{name: inf-gw}]
  rules:
  - matches: [{path: {value: /split}}]
    backendRefs:
    - group: inference.networking.k8s.io
      kind: InferencePool
      name: llm-pool
      weight: 50
    - group: inference.networking.x-k8s.io
      kind: InferencePoolImport
      name: llm-pool
      weight: 50
`
	dir := seeds(t, seedGateways+route)
	explained := run(t, dir, "explain", "--state", t.TempDir(), "--gateway", "example/inf-gw", "http://localhost/split")
	shares := map[string]string{}
	for line := range strings.Lines(explained) {
		if share, to, ok := strings.Cut(strings.TrimPrefix(line, "backend"), " of requests to "); ok {
			kind, _, _ := strings.Cut(to, " ")
			shares[kind] = strings.TrimSpace(share)
		}
	}
	if diff := cmp.Diff(map[string]string{"InferencePool": "50.0%", "InferencePoolImport": "50.0%"},
		shares); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, explained)
	}
}
