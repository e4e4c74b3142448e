package file_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/store"
)

func TestEngine_MistakesInTemplatesAndSchemasAreReported(t *testing.T) {
	engine := func(version string) string {
		return object("penstock.dev/v1alpha1", "Engine", "spec:\n  versions:\n  - {version: v1, supportedTasks: "+
			"[text-generation], "+version+"}\n")
	}
	valid(t, store.Engines, engine("deployTemplate: {process: {program: x, args: ['--port', '${port}']}}"))
	invalid(t, store.Engines, engine("deployTemplate: {process: {program: x, args: ['${model.nam}']}}"),
		"spec.versions[0].deployTemplate.process.args[0]: ${model.nam} is no value of a template: write ${model.name}")
	invalid(t, store.Engines,
		engine("valuesSchema: {$ref: 'file:///etc/passwd'}, deployTemplate: {process: {program: x}}"),
		"spec.versions[0].valuesSchema: is no usable JSON Schema: it refers to file:///etc/passwd")
	const pods = "images: {cpu: 'a:1'}, deployTemplate: {process: {program: x}, kubernetes: {spec: {containers: "
	valid(t, store.Engines, engine(pods+"[{name: engine, args: ['${model.source}']}]}}}"))
	invalid(t, store.Engines, engine(pods+"[{name: engine, imge: a}]}}}"),
		"spec.versions[0].deployTemplate.kubernetes.spec.containers[0].imge: is no field of a pod; write image")
	invalid(t, store.Engines, engine("capabilities: {lora: {each: ['${adapter.nam}']}}, deployTemplate: {process: "+
		"{program: x}}"), "spec.versions[0].capabilities.lora.each[0]: ${adapter.nam} is no value of a template")
	invalid(t, store.Engines, engine("deployTemplate: {process: {program: x, listener: All}}"),
		"spec.versions[0].deployTemplate.process.listener: must be one of Owned, Any")
}

func TestEngine_ImagesHaveATagOrADigestAndAKnownAccelerator(t *testing.T) {
	image := func(accelerator, reference string) string {
		return object("penstock.dev/v1alpha1", "Engine", "spec:\n  versions:\n  - {version: v1, supportedTasks: "+
			"[text-generation], images: {"+accelerator+": '"+reference+"'}, deployTemplate: {process: {program: x}}}\n")
	}
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, accelerator := range devices.AcceleratorNames() {
		valid(t, store.Engines, image(accelerator, "vllm/vllm-openai:v0.32.0"))
	}
	for _, reference := range []string{"a:1", "registry.example:5000/a/b_c:V1.0_x", "[fd00::1]:5000/a:1", "a@" + digest,
		"ghcr.io/a/b:1@" + digest} {
		valid(t, store.Engines, image("cpu", reference))
	}
	for _, reference := range []string{"a", "vllm/vllm-openai", "registry.example:5000/a", "a:", "A:1", "a b:1",
		"a:1@sha256:0a", "https://a/b:1", "a:${port}", "-a:1", "a//b:1", "a:1 --privileged"} {
		invalid(t, store.Engines, image("cpu", reference),
			"spec.versions[0].images[cpu]: write an image with a tag or a digest, such as vllm/vllm-openai:v0.32.0")
	}
	invalid(t, store.Engines, image("nvidia_gpu", "a:1"), "spec.versions[0].images: an accelerator has another name: "+
		"write nvidia, amd or cpu")
}
