package endpointpicker

// EngineLabels are the pod labels that name the engine. The first label has precedence.
var EngineLabels = [...]string{"llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type"}

// Engines are the values of EngineLabels. The first engine is the default. triton is an alias of
// triton-tensorrt-llm.
var Engines = []string{"vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "llamacpp", "triton"}

// EngineOf returns the engine in a server's labels, and the label's key; "" without a label.
func EngineOf(labels map[string]string) (label, engine string) {
	for _, label := range EngineLabels {
		if engine := labels[label]; engine != "" {
			return label, engine
		}
	}
	return "", ""
}
