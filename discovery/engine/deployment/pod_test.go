package deployment_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/engine/catalog"
	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Each golden file has a deployment of a built-in engine, then the expected pod template and
// findings.
func TestPod_GoldenOfBuiltInEngines(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := txtar.Archive{Comment: archive.Comment, Files: archive.Files[:1]}
		d := read(t, string(archive.Files[0].Data))
		seen[d.Spec.Engine.Name] = true
		p, found := deployment.New(d, nil)
		if p == nil {
			t.Fatal(file, found)
		}
		pod, found := p.Pod("")
		var text strings.Builder
		for _, f := range found {
			fmt.Fprintf(&text, "%s: %s\n", f.Severity, f)
		}
		raw, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		got.Files = append(got.Files, txtar.File{Name: "pod.yaml", Data: raw})
		if text.Len() > 0 {
			got.Files = append(got.Files, txtar.File{Name: "findings", Data: []byte(text.String())})
		}
		decoded(t, raw)
		if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
			if err := os.WriteFile(file, txtar.Format(&got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(&got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	for _, name := range catalog.Names() {
		if !seen[name] {
			t.Errorf("no golden of engine %s in testdata", name)
		}
	}
}

// decoded decodes a Deployment with this pod template strictly, like an API server that rejects
// unknown fields.
func decoded(t *testing.T, pod []byte) *appsv1.Deployment {
	t.Helper()
	template, err := yaml.YAMLToJSON(pod)
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	strict, err := kjson.UnmarshalStrict(fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","spec":{`+
		`"selector":{"matchLabels":{"a":"b"}},"template":%s}}`, template), &d)
	if err != nil || len(strict) > 0 {
		t.Errorf("%v %v:\n%s", err, strict, pod)
	}
	return &d
}

// kubelet replaces $(NAME) and $$ as a kubelet does in command, args and env.
func kubelet(text string, env map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		name, _, closed := strings.Cut(text[i+1:], ")")
		switch value, known := env[strings.TrimPrefix(name, "(")]; {
		case text[i+1] == '$':
			out.WriteByte('$')
			i++
		case closed && strings.HasPrefix(name, "(") && known:
			out.WriteString(value)
			i += len(name) + 1
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

const podEngine = `
spec:
  versions:
  - version: v1
    supportedTasks: [text-generation]
    images: {cpu: 'own/image:1'}
    deployTemplate:
      process:
        program: x
        args: [serve, '${model.name}', --file, '${model.file}', --as, '${model.servedName}', --of, '${deployment}']
      kubernetes:
        metadata: {annotations: {model: '${model.name}', of: '${namespace}/${deployment}'}}
        spec:
          containers:
          - name: engine
            command: [x, '${model.servedName}', $(SECRET)]
            ports: [{name: http, containerPort: 9000}]
            livenessProbe: {httpGet: {path: '/${model.name}', port: '${port}'}}
            env: [{name: NAME, value: 'a${model.name}'}]
          - {name: beside, image: 'own/other:1', args: ['${model.file}']}
`

// Each text that a user may write appears only in its own scalars of the pod template, and does not
// change others, even after the kubelet's replacements.
func TestPod_NoFieldChangesTheRestOfTheTemplate(t *testing.T) {
	engine := &v1alpha1.Engine{}
	if err := yaml.UnmarshalStrict([]byte(podEngine), engine); err != nil {
		t.Fatal(err)
	}
	engines := map[string]*v1alpha1.Engine{"own": engine}
	for _, text := range append(seeded(500), "$", "$$", "$(SECRET)", "$$(SECRET)", "$(", "${port}$") {
		p, found := deployment.New(everywhere(t, text), engines)
		if p == nil {
			t.Fatal(found)
		}
		pod, found := p.Pod("")
		if pod == nil || len(found) > 0 {
			t.Fatalf("%q: %v", text, found)
		}
		raw, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		template := decoded(t, raw).Spec.Template
		for i := range template.Spec.Containers {
			c := &template.Spec.Containers[i]
			for _, list := range [][]string{c.Command, c.Args} {
				for j := range list {
					list[j] = kubelet(list[j], map[string]string{"SECRET": "revealed", "port": "revealed"})
				}
			}
			for j := range c.Env {
				c.Env[j].Value = kubelet(c.Env[j].Value, map[string]string{"SECRET": "revealed"})
			}
		}
		c := template.Spec.Containers[0]
		for _, check := range []struct {
			what      string
			got, want []string
		}{
			{"command", c.Command, []string{"x", text, "revealed"}},
			{"args", c.Args, []string{"serve", text, "--file", "/" + text, "--as", text, "--of", text,
				"--variable", text}},
			{"other args", template.Spec.Containers[1].Args, []string{"/" + text}},
			{"env", environment(c), []string{"NAME=a" + text, "USERS=" + text}},
			{"annotations", []string{template.Annotations["model"], template.Annotations["of"]},
				[]string{text, text + "/" + text}},
			{"probe", []string{c.LivenessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Port.String()},
				[]string{"/" + text, "9000"}},
			{"label", []string{template.Labels[v1alpha1.DeploymentLabel]}, []string{text}},
		} {
			if !slices.Equal(check.got, check.want) {
				t.Errorf("%q: %s: got %q, want %q", text, check.what, check.got, check.want)
			}
		}
		if len(template.Spec.Containers) != 2 || len(template.Annotations) != 2 || len(template.Labels) != 1 {
			t.Errorf("%q changes the structure:\n%s", text, raw)
		}
	}
}

func environment(c corev1.Container) (out []string) {
	for _, env := range c.Env {
		out = append(out, env.Name+"="+env.Value)
	}
	return out
}

func TestPod_WhatItCannotHaveIsReported(t *testing.T) {
	plain := &v1alpha1.Engine{Spec: v1alpha1.EngineSpec{Versions: []v1alpha1.EngineVersion{
		{Version: "v1", SupportedTasks: []string{v1alpha1.TextGeneration}}}}}
	own := &v1alpha1.Engine{}
	if err := yaml.UnmarshalStrict([]byte(strings.Replace(podEngine, "command: [x,", "args: [--seed, '1',", 1)),
		own); err != nil {
		t.Fatal(err)
	}
	const gpu = "spec.resources.gpu: "
	for _, c := range []struct{ spec, accelerator, want string }{
		{"engine: {name: vllm}\nresources: {gpu: 0.5}", "", gpu + "is a fraction"},
		{"engine: {name: vllm}\nresources: {gpu: 1}", "amd", "spec.engine.name: engine vllm v0.32.0 has no image " +
			"for amd"},
		{"engine: {name: vllm}\nresources: {gpu: 1}", "cpu", gpu + "engine vllm v0.32.0 has devices of no"},
		{"engine: {name: vllm}", "nvidia", gpu + "is 0 or absent"},
		{"engine: {name: sglang}", "", "spec.engine.name: engine sglang v0.5.23 has no image for cpu"},
		{"engine: {name: plain}", "", "spec.engine.name: engine plain v1 has no template for Kubernetes"},
		{"engine: {name: own}\nvariables: {seed: 2}", "", "spec.variables.seed: the engine's template of pods sets " +
			"--seed"},
		{"engine: {name: llama-cpp}\nresources: {gpu: 1, accelerator: L40S}", "",
			"spec.resources.accelerator: selects no node of Kubernetes yet"},
	} {
		p, found := deployment.New(read(t, onGateway+c.spec), map[string]*v1alpha1.Engine{"plain": plain, "own": own})
		if p == nil {
			t.Fatal(found)
		}
		pod, found := p.Pod(c.accelerator)
		i := slices.IndexFunc(found, func(f report.Finding) bool {
			return strings.HasPrefix(f.Field+": "+f.Problem, c.want)
		})
		if i < 0 || (pod == nil) != (found[i].Severity == report.Error) {
			t.Errorf("%s %s: %v, pod %t; want %s", c.spec, c.accelerator, found, pod != nil, c.want)
		}
	}
}

func TestPod_TheAcceleratorSelectsTheImageAndTheResource(t *testing.T) {
	p := planned(t, onGateway+"engine: {name: llama-cpp}\nresources: {gpu: 2, cpu: 4, memory: 16Gi}\n")
	for accelerator, want := range map[string]string{
		"":    "ghcr.io/ggml-org/llama.cpp:server-cuda12-b11549 nvidia.com/gpu",
		"amd": "ghcr.io/ggml-org/llama.cpp:server-rocm-b11549 amd.com/gpu",
	} {
		pod, found := p.Pod(accelerator)
		if pod == nil {
			t.Fatal(found)
		}
		c := pod.Spec.Containers[0]
		for name, quantity := range c.Resources.Limits {
			if got := c.Image + " " + string(name); got != want || quantity.Value() != 2 {
				t.Errorf("accelerator %q: got %s of %s, want 2 of %s", accelerator, quantity.String(), got, want)
			}
		}
		if r := c.Resources.Requests; r.Cpu().Value() != 4 || r.Memory().Value() != 16<<30 {
			t.Errorf("accelerator %q: requests %v, want 4 cores and 16Gi", accelerator, r)
		}
	}
}

func TestCapabilities_ErrorsNameTheVersionsThatHaveThem(t *testing.T) {
	own := &v1alpha1.Engine{}
	if err := yaml.UnmarshalStrict([]byte(`
spec:
  versions:
  - {version: v1, supportedTasks: [text-generation], deployTemplate: {process: {program: x}}}
  - version: v2
    supportedTasks: [text-generation]
    capabilities: {lora: {each: ['${adapter.name}']}, metricsExport: {path: /stats}}
    deployTemplate: {process: {program: x}}
`), own); err != nil {
		t.Fatal(err)
	}
	engines := map[string]*v1alpha1.Engine{"own": own}
	for engine, want := range map[string]string{
		"{name: own, version: v1}": "use version v2",
		"{name: llama-cpp}":        "remove it, or use an engine that has it: own v2, sim v1, vllm v0.32.0",
	} {
		_, found := deployment.New(read(t, onGateway+"adapters: [{name: sql}]\nengine: "+engine), engines)
		if len(found) != 1 || found[0].Field != "spec.adapters" || found[0].Fix != want {
			t.Errorf("%s: got %v, want spec.adapters: %s", engine, found, want)
		}
	}
	p, found := deployment.New(read(t, onGateway+"adapters: [{name: sql}]\nengine: {name: own, version: v2}"), engines)
	if p == nil {
		t.Fatal(found)
	}
	if m := derived[*v1alpha1.PoolPolicy](t, p).Spec.Picker.Metrics; m == nil || m.Path != "/stats" {
		t.Errorf("the metrics of the pool's policy: got %+v, want the path /stats", m)
	}
}
