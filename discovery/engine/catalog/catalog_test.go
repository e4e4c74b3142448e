package catalog_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/discovery/engine/catalog"
	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/engine/pod"
)

func TestCatalog_EveryEngineIsUsable(t *testing.T) {
	want := []string{"llama-cpp", "sglang", "sim", "vllm"}
	if got := catalog.Names(); !slices.Equal(got, want) {
		t.Fatalf("engines %v, want %v", got, want)
	}
	for _, name := range want {
		e, _ := catalog.Get(name)
		for _, f := range slices.Concat(commandline.Check(e), pod.Check(e)) {
			t.Errorf("%s: %s", name, f)
		}
		for _, v := range e.Spec.Versions {
			reserved := commandline.Reserved(&v.DeployTemplate.Process)
			for _, arg := range []string{"port"} {
				if name != "sim" && !slices.Contains(reserved, arg) {
					t.Errorf("%s %s: a variable can set --%s: %v", name, v.Version, arg, reserved)
				}
			}
		}
	}
}

// The schema of vLLM's arguments is generated. make test-engines compares it with the parser of the
// pinned version.
func TestCatalog_ArgumentsOfVLLMHaveTheTypesOfItsParser(t *testing.T) {
	e, _ := catalog.Get("vllm")
	v := &e.Spec.Versions[0]
	schema, err := commandline.Compile(v.ValuesSchema.Raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, value, want string }{
		{"dtype", `"bfloat16"`, "--dtype bfloat16"},
		{"dtype", `"bf16"`, "error"},
		{"max_model_len", `8192`, "--max-model-len 8192"},
		{"max-model-len", `"8k"`, "--max-model-len 8k"},
		{"max-model-len", `"auto"`, "--max-model-len auto"},
		{"max-model-len", `"long"`, "error"},
		{"max-num-seqs", `0`, "error"},
		{"gpu-memory-utilization", `0.5`, "--gpu-memory-utilization 0.5"},
		{"gpu-memory-utilization", `1.5`, "error"},
		{"max-lora-rank", `16`, "--max-lora-rank 16"},
		{"max-lora-rank", `17`, "error"},
		{"enforce-eager", `true`, "--enforce-eager"},
		{"enable-prefix-caching", `false`, ""},
		{"no-enable-prefix-caching", `true`, "--no-enable-prefix-caching"},
		{"no-enable-prefix-caching", `"yes"`, "error"},
		{"speculative-config", `{"method":"ngram"}`, `--speculative-config {"method":"ngram"}`},
		{"compilation-config", `{"cudagraph_mode":"NONE"}`, `--compilation-config {"cudagraph_mode":"NONE"}`},
		{"compilation-config", `3`, "error"},
		{"allowed-origins", `["https://a.example"]`, `--allowed-origins ["https://a.example"]`},
		{"lora-modules", `"a=/models/a"`, "--lora-modules a=/models/a"},
		{"shutdown-timeout", `5`, "error"}, // the template sets this argument
		{"swap-space", `4`, "warning --swap-space 4"},
	} {
		vars := map[string]apiextensionsv1.JSON{c.name: {Raw: []byte(c.value)}}
		args, found := commandline.Arguments(vars, schema, commandline.Reserved(&v.DeployTemplate.Process))
		got := strings.Join(args, " ")
		for _, f := range found {
			got = strings.TrimSpace(strings.ToLower(string(f.Severity)) + " " + got)
		}
		if got != c.want {
			t.Errorf("%s: %s gives %q %v, want %q", c.name, c.value, got, found, c.want)
		}
	}
}

// vLLM's --shutdown-timeout must be shorter than the time after which the server is killed.
// Otherwise, requests in flight would fail.
func TestCatalog_EnginesEndTheirRequestsBeforeTheyAreKilled(t *testing.T) {
	e, _ := catalog.Get("vllm")
	p := e.Spec.Versions[0].DeployTemplate.Process
	i := slices.Index(p.Args, "--shutdown-timeout") + 1
	seconds, err := strconv.Atoi(p.Args[i])
	if err != nil || seconds < 1 || seconds >= int(p.StopGraceSeconds) {
		t.Errorf("--shutdown-timeout %s, want less than the %d s of stopGraceSeconds", p.Args[i], p.StopGraceSeconds)
	}
}

// The Engine sim must use the same image as the chart, whose version each release sets.
func TestCatalog_SimIsTheImageOfTheChart(t *testing.T) {
	e, _ := catalog.Get("sim")
	values, err := os.ReadFile("../../../manifests/charts/penstock/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for accelerator, image := range e.Spec.Versions[0].Images {
		if !strings.Contains(string(values), "\nimage: "+string(image)+"\n") {
			t.Errorf("images.%s of engine sim is %s, want the image in the chart's values.yaml", accelerator, image)
		}
	}
}
