package endpointpicker

// EngineLabels are the labels of pods that name their engine, by precedence.
var EngineLabels = [...]string{"llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type"}

// Engines are the values of these labels: the programs of model servers whose metrics
// picker/endpoint knows. The first is the default, and triton another name of triton-tensorrt-llm.
var Engines = []string{"vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "llamacpp", "triton"}

// EngineOf returns the engine that a server's labels name, and the label; "" without one.
func EngineOf(labels map[string]string) (label, engine string) {
	for _, label := range EngineLabels {
		if engine := labels[label]; engine != "" {
			return label, engine
		}
	}
	return "", ""
}
