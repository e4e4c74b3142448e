package deployment_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func read(t testing.TB, text string) *v1alpha1.ModelDeployment {
	t.Helper()
	d := &v1alpha1.ModelDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "qwen"}}
	if err := yaml.UnmarshalStrict([]byte(text), &d.Spec); err != nil {
		t.Fatal(err)
	}
	return d
}

const llama = `
engine: {name: llama-cpp}
model: {name: qwen, file: /models/q.gguf, task: text-embedding}
variables: {ctx_size: 4096, swa-full: true, jinja: false}
env: [{name: A, value: "1"}]
gatewayRefs: [{name: gw}]
`

func TestDeployment_BecomesACommandAndObjects(t *testing.T) {
	p, found := deployment.New(read(t, llama), nil)
	if p == nil || len(found) > 0 {
		t.Fatal(found)
	}
	server := deployment.Server{Host: "127.0.0.1", Port: 9001}
	c, err := p.Command(server)
	want := "--host 127.0.0.1 --port 9001 --model /models/q.gguf --alias qwen --metrics --embeddings " +
		"--ctx-size 4096 --swa-full"
	if got := strings.Join(c.Args, " "); err != nil || got != want {
		t.Errorf("%s %v\nwant %s", got, err, want)
	}
	kinds := func(ready ...deployment.Server) (out []string) {
		for _, obj := range p.Objects(ready) {
			out = append(out, strings.TrimPrefix(strings.TrimPrefix(typeOf(obj), "*v1."), "*v1alpha1."))
		}
		return out
	}
	if got := kinds(); !slices.Equal(got, []string{"InferencePool", "PoolPolicy", "HTTPRoute"}) {
		t.Errorf("without servers: %v", got)
	}
	if got := kinds(server); !slices.Contains(got, "ModelServers") {
		t.Errorf("with a server: %v", got)
	}
	route := p.Objects(nil)[2].(*gatewayv1.HTTPRoute)
	if m := route.Spec.Rules[0].Matches; len(m) != 1 || *m[0].Path.Value != "/v1/embeddings" ||
		m[0].Headers[0].Value != "qwen" {
		t.Errorf("the route matches %v", m)
	}
}

func TestDeployment_MistakesNameTheFieldAndTheNearestName(t *testing.T) {
	for _, c := range []struct{ spec, field, text string }{
		{"engine: {name: llamacpp}\nmodel: {name: a}", "spec.engine.name", "write llama-cpp"},
		{"engine: {name: vllm, version: v0.32}\nmodel: {name: a}", "spec.engine.version", "write v0.32.0"},
		{"engine: {name: sim}\nmodel: {name: a, task: text-rank}", "spec.model.task", "text-rerank"},
		{"engine: {name: sim}\nmodel: {name: a}\nvariables: {max-num-seq: 1}", "spec.variables.max-num-seq",
			"write max-num-seqs"},
		{"engine: {name: sim}\nmodel: {name: a}\nvariables: {max-num-seqs: 0}", "spec.variables.max-num-seqs",
			"minimum"},
		{"engine: {name: sim}\nmodel: {name: a}\ngatewayRefs: [{name: gw, namespace: infra}]",
			"spec.gatewayRefs[0].namespace", "spec.hostnames"},
	} {
		p, found := deployment.New(read(t, c.spec), nil)
		if p != nil || !slices.ContainsFunc(found, func(f report.Finding) bool {
			return f.Severity == report.Error && f.Field == c.field && strings.Contains(f.String(), c.text)
		}) {
			t.Errorf("%s: %v, want %s: %s", c.spec, found, c.field, c.text)
		}
	}
}

func typeOf(v any) string { return fmt.Sprintf("%T", v) }

// seeded returns n random texts with characters that are special in YAML, JSON, shells or
// templates.
func seeded(n int) (out []string) {
	pieces := []string{"a", " ", "\n", ": ", "- ", "#", "{", "}", "[", ",", "\"", "'", "|", "&a", "!!x", "---",
		"${port}", "${", "$(id)", "$(SECRET)", "$", "`", ";", "--host", "=", "null", "é", "{{.X}}", "..", "/"}
	random := rand.New(rand.NewPCG(45, 1))
	for range n {
		text := "v"
		for range 1 + random.IntN(6) {
			text += pieces[random.IntN(len(pieces))]
		}
		out = append(out, text)
	}
	return out
}

// everywhere returns a deployment with the text in each field that a user may write.
func everywhere(t *testing.T, text string) *v1alpha1.ModelDeployment {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	d := &v1alpha1.ModelDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: text, Name: text}}
	d.Spec.Engine.Name = "own"
	d.Spec.Model = v1alpha1.DeploymentModel{Name: text, File: "/" + text, ServedName: text}
	d.Spec.Variables = map[string]apiextensionsv1.JSON{"variable": {Raw: raw}}
	d.Spec.Env = []v1alpha1.DeploymentEnv{{Name: "USERS", Value: text}}
	d.Spec.GatewayRefs = []v1alpha1.DeploymentGateway{{Name: "gw"}}
	return d
}

// Each text that a user may write appears only in its own arguments and environment variables, and
// does not change others.
func TestDeployment_NoFieldChangesTheRestOfTheCommand(t *testing.T) {
	engine := &v1alpha1.Engine{}
	if err := yaml.UnmarshalStrict([]byte(`
spec:
  versions:
  - version: v1
    supportedTasks: [text-generation]
    deployTemplate:
      process:
        program: x
        args: [serve, '${model.name}', --file, '${model.file}', --as, '${model.servedName}', --of, '${deployment}']
        env: [{name: NAME, value: '${model.name}'}]
`), engine); err != nil {
		t.Fatal(err)
	}
	for _, text := range seeded(500) {
		p, found := deployment.New(everywhere(t, text), map[string]*v1alpha1.Engine{"own": engine})
		if p == nil {
			t.Fatal(found)
		}
		c, err := p.Command(deployment.Server{})
		want := []string{"serve", text, "--file", "/" + text, "--as", text, "--of", text, "--variable", text}
		env := []v1alpha1.EngineEnv{{Name: "NAME", Value: text}, {Name: "USERS", Value: text}}
		if err != nil || !slices.Equal(c.Args, want) || !slices.Equal(c.Env, env) {
			t.Errorf("%q: %q %q %v", text, c.Args, c.Env, err)
		}
	}
}

func TestDeployment_AcceleratorsBecomeVariablesAndEnvironment(t *testing.T) {
	const vllm = "engine: {name: vllm}\nmodel: {name: m}\ngatewayRefs: [{name: gw}]\n"
	all := []devices.Device{{Index: 1, UUID: "GPU-1"}, {Index: 3, UUID: "GPU-3"}}
	for text, want := range map[string]string{
		"":                    "",
		"resources: {gpu: 0}": "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=",
		"resources: {gpu: 2}": "--tensor-parallel-size 2 CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,3",
		"resources: {gpu: 2}\nvariables: {pipeline_parallel_size: 2}": "--pipeline-parallel-size 2 " +
			"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,3",
		"resources: {gpu: 1.0}": "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1",
		"resources: {gpu: 0.4}": "--gpu-memory-utilization 0.4 CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1",
		"resources: {gpu: 0.4}\nvariables: {gpu_memory_utilization: 0.3}": "--gpu-memory-utilization 0.3 " +
			"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1",
	} {
		p, found := deployment.New(read(t, vllm+text), nil)
		if p == nil || len(found) > 0 {
			t.Errorf("%s: %v", text, found)
			continue
		}
		s := deployment.Server{Host: "127.0.0.1", Port: 1, Devices: all[:(p.Share+devices.Whole-1)/devices.Whole]}
		c, err := p.Command(s)
		if err != nil {
			t.Fatal(err)
		}
		got := c.Args[slices.Index(c.Args, "--shutdown-timeout")+2:]
		for _, env := range c.Env {
			if strings.HasPrefix(env.Name, "CUDA_") {
				got = append(got, env.Name+"="+env.Value)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s\nwant %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"resources: {gpu: 1.5}": "spec.resources.gpu: \"1.5\" devices: use a whole number",
		"placement: {strategy: Spread}": "spec.placement.strategy: Spread has no effect " +
			"without spec.resources.gpu",
		"resources: {gpu: 0}\nplacement: {strategy: Spread}": "spec.placement.strategy: Spread has no effect",
		"resources: {accelerator: L40S}": "spec.resources.accelerator: has no effect without " +
			"spec.resources.gpu",
		"resources: {gpu: 1}\nenv: [{name: CUDA_VISIBLE_DEVICES, value: '7'}]": "spec.env[0].name: " +
			"CUDA_VISIBLE_DEVICES is set from spec.resources.gpu",
		"resources: {gpu: 0.4}\nvariables: {gpu_memory_utilization: 0.5}": "spec.variables.gpu_memory_utilization: " +
			"is more than the 0.4 of an accelerator in spec.resources.gpu",
	} {
		_, found := deployment.New(read(t, vllm+text), nil)
		if len(found) != 1 || !strings.HasPrefix(found[0].Field+": "+found[0].Problem, want) {
			t.Errorf("%s: %v\nwant %s", text, found, want)
		}
	}
	plain := &v1alpha1.Engine{Spec: v1alpha1.EngineSpec{Versions: []v1alpha1.EngineVersion{
		{Version: "v1", SupportedTasks: []string{v1alpha1.TextGeneration}}}}}
	_, found := deployment.New(read(t, strings.Replace(vllm, "vllm", "plain", 1)+"resources: {gpu: 1}"),
		map[string]*v1alpha1.Engine{"plain": plain})
	if len(found) != 1 || found[0].Problem != "engine plain v1 uses no accelerators" {
		t.Error(found)
	}
}

func TestDeployment_ReservationsAreRoundedUp(t *testing.T) {
	for resources, want := range map[string]devices.Host{
		"":                              {},
		"cpu: 500m, memory: 16Gi":       {Cores: 500, Memory: 16384},
		"cpu: 4":                        {Cores: 4000},
		"cpu: '0.0001', memory: 1.1Mi":  {Cores: 1, Memory: 2},
		"cpu: '2.5', memory: 1G":        {Cores: 2500, Memory: 954},
		"memory: '9e14'":                {Memory: 858306885},
		"memory: 1048576, cpu: 999999":  {Cores: 999999000, Memory: 1},
		"memory: 1048577, cpu: '1e-12'": {Cores: 1, Memory: 2},
	} {
		p := planned(t, onGateway+"engine: {name: sim}\nresources: {"+resources+"}\n")
		if p.Host != want {
			t.Errorf("%s: %+v, want %+v", resources, p.Host, want)
		}
	}
}
