package deployment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/memory"
)

func TestMemory_ArgumentsDecideAboutTheEstimate(t *testing.T) {
	vllm := func(s memory.Settings) deployment.Memory {
		return deployment.Memory{Path: "/models/m", Utilization: 0.92, Layers: -1, ContextArgument: "max-model-len",
			Settings: s}
	}
	llama := func(layers int64, s memory.Settings) deployment.Memory {
		s.LeastContext, s.HostEmbedding = 4096, true
		if s.Keys == "" {
			s.Keys, s.Values = "f16", "f16"
		}
		return deployment.Memory{Path: "/models/m", Utilization: 1, Layers: layers, ContextArgument: "ctx-size",
			Settings: s}
	}
	half, most := vllm(memory.Settings{}), vllm(memory.Settings{Context: 8000})
	half.Utilization, half.Limits = 0.5, true
	most.Utilization, most.Limits = 0.95, true
	for _, c := range []struct {
		name, spec string
		want       deployment.Memory
	}{
		{"defaults of vllm", "engine: {name: vllm}\nresources: {gpu: 1}", vllm(memory.Settings{})},
		{"a fraction", "engine: {name: vllm}\nresources: {gpu: 0.5}", half},
		{"a part, and a context", "engine: {name: vllm}\nresources: {gpu: 2}\nvariables: {gpu_memory_utilization: " +
			"0.95, " +
			"max_model_len: 8k}", most},
		{"types", "engine: {name: vllm}\nresources: {gpu: 1}\nvariables: {dtype: float32, kv-cache-dtype: fp8, " +
			"max-model-len: auto}", vllm(memory.Settings{Weights: "float32", Keys: "fp8", Values: "fp8",
			Context: memory.Auto})},
		{"all layers", "engine: {name: llama-cpp}\nresources: {gpu: 1}\nvariables: {gpu-layers: all, ctx-size: 8192, " +
			"cache-type-k: q8_0, cache-type-v: q4_0}", llama(-1, memory.Settings{Context: 8192, Keys: "q8_0",
			Values: "q4_0"})},
		{"a number of layers", "engine: {name: llama-cpp}\nresources: {gpu: 1}\nvariables: {n-gpu-layers: 99}",
			llama(99, memory.Settings{})},
		{"main memory", "engine: {name: llama-cpp}\nresources: {gpu: 0, memory: 1Gi}", deployment.Memory{
			Path: "/models/m", Utilization: 1, Layers: -1, ContextArgument: "ctx-size",
			Settings: memory.Settings{LeastContext: 4096, Keys: "f16", Values: "f16"}}},
	} {
		p, found := deployment.New(read(t, c.spec+"\nmodel: {name: m, file: /models/m}\n"), nil)
		if p == nil {
			t.Errorf("%s: %v", c.name, found)
			continue
		}
		if got, ok := p.Memory("", []string{"PATH=/bin"}); !ok || cmp.Diff(c.want, got) != "" {
			t.Errorf("%s: %v\n%s", c.name, ok, cmp.Diff(c.want, got))
		}
	}
}

// There is no estimate for these deployments, because the server may use main memory or the memory
// of other machines.
func TestMemory_SomeArgumentsHaveNoEstimate(t *testing.T) {
	for _, spec := range []string{
		"engine: {name: vllm}",
		"engine: {name: vllm}\nresources: {gpu: 0}",
		"engine: {name: vllm}\nresources: {gpu: 1}\nvariables: {cpu-offload-gb: 10}",
		"engine: {name: vllm}\nresources: {gpu: 1}\nvariables: {cpu_offload: 10}", // an abbreviation
		"engine: {name: vllm}\nresources: {gpu: 1}\nvariables: {quantization: fp8}",
		"engine: {name: vllm}\nresources: {gpu: 1}\nvariables: {hf-overrides: {num_hidden_layers: 2}}",
		"engine: {name: vllm}\nresources: {gpu: 1}\nvariables: {max-model-len: 1.2.3}",
		"engine: {name: llama-cpp}\nresources: {gpu: 1}",
		"engine: {name: llama-cpp}\nresources: {memory: 1Gi}", // this server may use accelerators
		"engine: {name: llama-cpp}\nresources: {gpu: 0, cpu: 1}",
		"engine: {name: llama-cpp}\nresources: {gpu: 1}\nvariables: {gpu-layers: auto}",
		"engine: {name: llama-cpp}\nresources: {gpu: 1}\nvariables: {gpu-layers: all, no-kv-offload: true}",
		"engine: {name: llama-cpp}\nresources: {gpu: 1}\nvariables: {gpu-layers: all}\n" +
			"env: [{name: GGML_CUDA_ENABLE_UNIFIED_MEMORY, value: '1'}]",
		"engine: {name: sim}",
	} {
		p, found := deployment.New(read(t, spec+"\nmodel: {name: m, file: /models/m}\n"), nil)
		if p == nil {
			t.Errorf("%s: %v", spec, found)
			continue
		}
		if got, ok := p.Memory("", nil); ok {
			t.Errorf("%s: got %+v, want none", spec, got)
		}
	}
	p, _ := deployment.New(read(t, "engine: {name: vllm}\nresources: {gpu: 1}\nmodel: {name: ORG/NAME}\n"), nil)
	if got, ok := p.Memory("", nil); ok {
		t.Errorf("a name on Hugging Face: got %+v, want none", got)
	}
	p, _ = deployment.New(read(t, "engine: {name: llama-cpp}\nresources: {gpu: 1}\nmodel: {name: m, file: /m}\n"+
		"variables: {gpu-layers: all}\n"), nil)
	if got, ok := p.Memory("", []string{"LLAMA_ARG_CTX_SIZE=64"}); ok {
		t.Errorf("an inherited variable: got %+v, want none", got)
	}
}
