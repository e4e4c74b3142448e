package pod_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/engine/pod"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func version(t testing.TB, text string) v1alpha1.EngineVersion {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v := v1alpha1.EngineVersion{Version: "v1", Images: map[string]v1alpha1.ImageReference{"cpu": "own/image:1"}}
	v.DeployTemplate.Kubernetes = &apiextensionsv1.JSON{Raw: raw}
	return v
}

func check(v v1alpha1.EngineVersion) string {
	var out []string
	for _, f := range pod.Check(&v1alpha1.Engine{Spec: v1alpha1.EngineSpec{Versions: []v1alpha1.EngineVersion{v}}}) {
		out = append(out, strings.TrimPrefix(f.Field, "spec.versions[0].deployTemplate.")+": "+f.Problem+"; "+f.Fix)
	}
	return strings.Join(out, "\n")
}

func TestTemplate_MistakesNameTheField(t *testing.T) {
	with := func(field string) string { return "spec: {containers: [{name: engine" + field + "}]}" }
	const kind, unknown = ": has another kind; write ", " is no value of a template"
	const first = ".spec.containers[0]"
	for text, want := range map[string]string{
		with(""):                               "",
		"[]":                                   kind + "an object",
		"{}":                                   ".spec.containers: has no container engine",
		"spec: {containers: [{name: server}]}": ".spec.containers: has no container engine",
		"spec: {containers: {name: engine}}":   ".spec.containers" + kind + "a list",
		with("}, {name: engine"):               `.spec.containers: container 2 has the name "engine"`,
		"spec: {containers: [null]}":           first + ": is null; write an object",
		with(", imge: a"):                      first + ".imge: is no field of a pod; write image",
		with(", args: [7]"):                    first + ".args[0]" + kind + "a text",
		with(", tty: 'yes'"):                   first + ".tty" + kind + "true or false",
		with(", args: ['x${y}']"):              first + ".args[0]: ${y}" + unknown,
		with(", args: ['${model.nam}']"):       first + ".args[0]: ${model.nam}" + unknown + ": write ${model.name}",
		with(", args: ['${replica}']"):         first + ".args[0]: ${replica}" + unknown,
		with("}], priority: '${port}0', initContainers: [{name: a"):  ".spec.priority" + kind + "an integer",
		with(", resources: {limits: {memory: 1GB}}"):                 first + ".resources.limits.memory: is invalid: ",
		with(", resources: {limits: {memory: '${model.name}'}}"):     first + ".resources.limits.memory: is invalid: ",
		"spec: {restartPolicy: Never, containers: [{name: engine}]}": ".spec.restartPolicy: is Never",
		with(", ports: [{name: http, containerPort: '${port}'}]"):    "",
		"{kind: Pod, spec: {containers: [{name: engine}]}}":          ".kind: is no field of a pod; remove it",
	} {
		if want != "" {
			want = "kubernetes" + want
		}
		got := check(version(t, text))
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	long := version(t, with(""))
	long.DeployTemplate.Kubernetes.Raw = fmt.Appendf(nil, `{"a": %q}`, strings.Repeat("a", 256<<10))
	if got := check(long); !strings.HasPrefix(got, "kubernetes: has 2621") {
		t.Errorf("a long template: got %.80s, want its size", got)
	}
}

func TestTemplate_WhatPodsLackOfProcessIsReported(t *testing.T) {
	v := version(t, "spec: {containers: [{name: engine}]}")
	v.DeployTemplate.Process = v1alpha1.ProcessTemplate{Args: []string{"${replica}", "${nothing}"},
		Tasks: map[string][]string{"text-generation": {"${replica}"}}}
	const want = "kubernetes: takes process.args[0] from process, and in a pod ${replica} is no value of a " +
		"template: write one of deployment, host, model.file, model.name, model.servedName, model.source, namespace, " +
		"port; write args of the container engine"
	const task = "kubernetes: takes process.tasks.text-generation[0]"
	got := strings.Split(check(v), "\n")
	if len(got) != 2 || got[0] != want || !strings.HasPrefix(got[1], task) {
		t.Errorf("got %q, want %q", got, want)
	}
	v = version(t, "spec: {containers: [{name: engine}]}")
	v.Images = nil
	if got := check(v); !strings.HasPrefix(got, "kubernetes.spec.containers: the container engine has no image") {
		t.Errorf("without images: got %q", got)
	}
}

func TestTemplate_ItsOwnFieldsStay(t *testing.T) {
	v := version(t, `
metadata: {labels: {team: a}}
spec:
  terminationGracePeriodSeconds: 7
  containers:
  - name: engine
    image: own/image:2
    args: []
    env: []
    ports: [{name: http, containerPort: 9000}]
    resources: {limits: {memory: 1Gi}}
    startupProbe: {tcpSocket: {port: http}}
`)
	template, found := pod.Parse(v.DeployTemplate.Kubernetes.Raw)
	if template == nil || template.Port() != 9000 || !template.Args() {
		t.Fatal(found)
	}
	process := &v1alpha1.ProcessTemplate{Env: []v1alpha1.EngineEnv{{Name: "A", Value: "b"}}, Ready: "/ready"}
	got, found := template.Render(pod.Server{Values: template.Values(commandline.Values{}), Image: "own/image:1",
		Process: process, Labels: map[string]string{"of": "b"}})
	if got == nil {
		t.Fatal(found)
	}
	c := got.Spec.Containers[0]
	if c.Image != "own/image:2" || len(c.Args) > 0 || len(c.Env) > 0 || len(c.Ports) != 1 ||
		c.Resources.Limits.Memory().Value() != 1<<30 || c.StartupProbe.TCPSocket == nil ||
		c.ReadinessProbe.HTTPGet.Path != "/ready" || *got.Spec.TerminationGracePeriodSeconds != 7 ||
		got.Labels["team"] != "a" || got.Labels["of"] != "b" {
		t.Errorf("got %+v %+v, want the template's own fields, and the other label", c, got.ObjectMeta)
	}
}

// shape returns the structure of a template: the names of fields and the lengths of lists, without
// texts.
func shape(node any) any {
	switch node := node.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range node {
			out[name] = shape(value)
		}
		return out
	case []any:
		out := make([]any, len(node))
		for i := range node {
			out[i] = shape(node[i])
		}
		return out
	case string:
		return ""
	}
	return node
}

func isEngine(c corev1.Container) bool { return c.Name == "engine" }

func FuzzTemplate_NoValueChangesTheStructure(f *testing.F) {
	for _, text := range []string{`{"spec": {"containers": [{"name": "engine", "args": ["${model.name}"]}]}}`,
		`{"metadata": {"labels": {"a": "${model.name}"}}, "spec": {"containers": [{"name": "engine", "env": ` +
			`[{"name": "A", "value": "${model.source}"}], "ports": [{"name": "http", "containerPort": "${port}"}]}]}}`,
		`{"spec": {"containers": [{"name": "engine", "livenessProbe": {"httpGet": {"port": "${port}"}}}]}}`} {
		f.Add([]byte(text), `a", "b`)
		f.Add([]byte(text), "${port}$(A)\n- x")
	}
	f.Fuzz(func(t *testing.T, raw []byte, value string) {
		template, found := pod.Parse(raw)
		if template == nil {
			if len(found) == 0 {
				t.Errorf("%s: no template and no finding", raw)
			}
			return
		}
		var shapes []any
		for _, v := range []string{"a", "a" + strings.ToValidUTF8(value, "") + "a"} {
			got, _ := template.Render(pod.Server{Values: template.Values(commandline.Values{ModelName: v, ServedName: v,
				Namespace: v, Deployment: v}), Args: []string{v}, Process: &v1alpha1.ProcessTemplate{Ready: "/"}})
			if got == nil {
				return // a type with its own JSON form, such as a quantity
			}
			out, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var tree any
			if err := json.Unmarshal(out, &tree); err != nil {
				t.Fatal(err)
			}
			shapes = append(shapes, shape(tree))
			if last := got.Spec.Containers[slices.IndexFunc(got.Spec.Containers, isEngine)].Args; last[len(last)-1] !=
				strings.ReplaceAll(v, "$", "$$") {
				t.Errorf("%q: the arguments are %q", v, last)
			}
		}
		if !reflect.DeepEqual(shapes[0], shapes[1]) {
			t.Errorf("%s: %q changes the structure: got %v, want %v", raw, value, shapes[1], shapes[0])
		}
	})
}
