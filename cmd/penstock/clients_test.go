//go:build clients

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/modelserver"
)

// The Python clients use two pools whose InferenceModel and InferenceModelRewrite replace the
// requested model. Pool spilling can also use pool spare. $PENSTOCK_PYTHON is a Python with
// testdata/clients.txt installed (make test-clients).
func TestPythonClients_ModelsAreReplaced(t *testing.T) {
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		t.Fatal("PENSTOCK_PYTHON is empty: run make test-clients")
	}
	port := freePort(t)
	server := modelServer(t, modelserver.Config{Name: "pod", Model: "llama-v2"})
	files := map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"spare.yaml": poolYAML("spare") + "---\n" +
			serversYAML("spare", modelServer(t, modelserver.Config{Name: "spare", Model: "llama-v2"})),
		"policy.yaml": "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: spilling}\nspec: " +
			"{targetRef: {name: spilling}, spill: [{name: spare}]}\n",
	}
	for _, pool := range []string{"edge", "spilling"} {
		files[pool+".yaml"] = routeYAML(pool, "/"+pool, toPool(pool)) + "---\n" + poolYAML(pool) + "---\n" +
			serversYAML(pool, server) +
			modelYAML(pool, pool, "public", "{name: llama-v2}") +
			fmt.Sprintf(
				"---\napiVersion: llm-d.ai/v1alpha2\nkind: InferenceModelRewrite\nmetadata: {name: %s}\nspec: "+
					"{poolRef: {name: %[1]s}, rules: [{matches: [{model: {value: alias}}], targets: [{modelRewrite: "+
					"llama-v2, weight: 1}]}]}\n", pool)
	}
	up(t, files)
	for _, pool := range []string{"edge", "spilling"} {
		url := local(port) + "/" + pool
		eventually(t, pool+" answers", func() error {
			if got := ask(t, url,
				`{"model": "public", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}`); got.status != http.StatusOK {
				return fmt.Errorf("got %d: %s, want 200", got.status, got.body)
			}
			return nil
		})
		cmd := exec.CommandContext(t.Context(), python, "testdata/clients.py", url, "public", "alias", "llama-v2")
		var errs strings.Builder
		cmd.Stderr = &errs
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", pool, err, errs.String())
		}
		var got []struct {
			Client, API, Asked, Model, Text string
			Stream                          bool
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(got) != 3*8+3 { // 3 models × 8 kinds of request, 1 model list, 2 unknown models
			t.Errorf("%s: %d answers: %s, want %d", pool, len(got), text, 3*8+3)
		}
		for _, a := range got {
			switch a.API {
			case "models":
				if !strings.Contains(a.Text, "public") || !strings.Contains(a.Text, "alias") {
					t.Errorf(`%s: the list of models has %q, want a text with "public" and a text with "alias"`,
						pool, a.Text)
				}
			case "error":
				if !strings.Contains(a.Text, "does not exist") {
					t.Errorf(`%s: %s got %q for an unknown model, want a text with "does not exist"`,
						pool, a.Client, a.Text)
				}
			default:
				if a.Model != "llama-v2" || !strings.Contains(a.Text, "repeat <this> é") {
					t.Errorf(`%s: got %+v, want llama-v2 and a text with "repeat <this> é"`, pool, a)
				}
			}
		}
	}
}

func modelYAML(name, pool, model, targets string) string {
	return fmt.Sprintf(
		"---\napiVersion: inference.networking.x-k8s.io/v1alpha2\nkind: InferenceModel\nmetadata: {name: %s}\nspec: "+
			"{modelName: %s, poolRef: {name: %s}, targetModels: [%s]}\n", name, model, pool, targets)
}
