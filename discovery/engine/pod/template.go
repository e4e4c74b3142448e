package pod

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const (
	container   = "engine"     // name of the model server's container
	portName    = "http"       // name of the container's port
	defaultPort = 8000         // number of the port, if the template has none
	maxTemplate = 256 << 10    // bounds the size of a template, in bytes
	portValue   = "${port}"    // the only text that may replace an integer
	field       = "kubernetes" // the field of a deployTemplate
)

// Template is a parsed deployTemplate.kubernetes.
type Template struct {
	tree any
	port int32
	args []string // of the container; nil: the arguments of deployTemplate.process are used
}

// Parse parses deployTemplate.kubernetes of an Engine's version. The fields of its findings begin
// with "kubernetes".
func Parse(raw []byte) (*Template, []report.Finding) {
	if len(raw) > maxTemplate {
		return nil, []report.Finding{mistake(field, fmt.Sprintf("has %d bytes, more than %d", len(raw), maxTemplate),
			"write a shorter template")}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	t := &Template{port: defaultPort}
	if err := d.Decode(&t.tree); err != nil {
		return nil, []report.Finding{mistake(field, "is no JSON: "+err.Error(), "correct it")}
	}
	pod, found := t.expand(commandline.Values{Pod: true, Host: listenAll, Port: strconv.Itoa(defaultPort),
		Namespace: "a", Deployment: "a", ModelName: "a", ModelFile: "a", ServedName: "a"})
	if len(found) > 0 {
		return nil, found
	}
	engine := engineOf(pod)
	if engine == nil {
		return nil, []report.Finding{mistake(field+".spec.containers", "has no container "+container+
			", which is the model server", "name one container "+container)}
	}
	names := map[string]bool{}
	for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if names[c.Name] {
			return nil, []report.Finding{mistake(field+".spec.containers", fmt.Sprintf("container %d has the name %q, "+
				"as another one has", i+1, c.Name), "write another name")}
		}
		names[c.Name] = true
	}
	if p := pod.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		return nil, []report.Finding{mistake(field+".spec.restartPolicy", "is "+string(p)+": pods of a Deployment "+
			"restart always", "remove it")}
	}
	for _, p := range engine.Ports {
		if p.Name == portName {
			t.port = p.ContainerPort
		}
	}
	t.args = engine.Args
	return t, nil
}

func engineOf(pod *corev1.PodTemplateSpec) *corev1.Container {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		return nil
	}
	return &pod.Spec.Containers[i]
}

// Port returns the port at which the server listens.
func (t *Template) Port() uint16 { return uint16(t.port) }

// Args reports whether the template replaces the arguments of deployTemplate.process.
func (t *Template) Args() bool { return t.args != nil }

// Reserved returns the normalized names of the template's arguments.
func (t *Template) Reserved() []string {
	return commandline.Reserved(&v1alpha1.ProcessTemplate{Args: t.args})
}

func (t *Template) expand(values commandline.Values) (*corev1.PodTemplateSpec, []report.Finding) {
	e := expander{plain: values, literal: literal(values)}
	tree := e.node(reflect.TypeFor[corev1.PodTemplateSpec](), t.tree, field, e.plain)
	if len(e.found) > 0 {
		return nil, e.found
	}
	raw, err := json.Marshal(tree)
	if err != nil { // not expected, because the tree was parsed from JSON
		return nil, []report.Finding{mistake(field, err.Error(), "correct it")}
	}
	return decode(raw)
}

func literal(v commandline.Values) commandline.Values {
	for _, text := range []*string{&v.Host, &v.Port, &v.Namespace, &v.Deployment, &v.Replica, &v.ModelName,
		&v.ModelFile, &v.ServedName} {
		*text = Literal(*text)
	}
	return v
}

// Literal escapes a text for the command, an argument or an environment variable of a container, so
// that the kubelet replaces nothing in it.
func Literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

type expander struct {
	plain, literal commandline.Values
	found          []report.Finding
}

func (e *expander) mistake(field, problem, fix string) any {
	e.found = append(e.found, mistake(field, problem, fix))
	return nil
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	intOrString = reflect.TypeFor[intstr.IntOrString]()
)

func (e *expander) node(t reflect.Type, node any, field string, values commandline.Values) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text, isText := node.(string)
	number := t == intOrString || t.Kind() == reflect.Int32 || t.Kind() == reflect.Int64
	if isText && number && text == portValue {
		return json.Number(values.Port)
	}
	if isText {
		expanded, err := values.Expand(text)
		if err != nil {
			return e.mistake(field, err.Error(), "correct the template")
		}
		node = expanded
	}
	custom := reflect.PointerTo(t).Implements(unmarshaler)
	list, isList := node.([]any)
	object, isObject := node.(map[string]any)
	switch kind := t.Kind(); {
	case node == nil:
		return nil
	case custom || kind == reflect.String || kind == reflect.Bool || number:
		return e.scalar(t, node, field)
	case kind == reflect.Struct && isObject:
		return e.object(t, object, field, values)
	case kind == reflect.Map && isObject:
		out := map[string]any{}
		for name, value := range object {
			out[name] = e.node(t.Elem(), value, field+"."+name, values)
		}
		return out
	case kind == reflect.Slice && isList:
		out := make([]any, len(list))
		for i, item := range list {
			if out[i] = e.node(t.Elem(), item, fmt.Sprintf("%s[%d]", field, i), values); item == nil {
				return e.mistake(fmt.Sprintf("%s[%d]", field, i), "is null", "write "+kindOf(t.Elem()))
			}
		}
		return out
	}
	return e.mistake(field, "has another kind", "write "+kindOf(t))
}

// scalar checks that a value has type t, which may have its own JSON form, such as a quantity.
func (e *expander) scalar(t reflect.Type, node any, field string) any {
	raw, err := json.Marshal(node)
	if err == nil {
		err = json.Unmarshal(raw, reflect.New(t).Interface())
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return e.mistake(field, "has another kind", "write "+kindOf(t))
	}
	if err != nil {
		return e.mistake(field, "is invalid: "+err.Error(), "write "+kindOf(t))
	}
	return node
}

func kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int32, reflect.Int64:
		return "an integer"
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return "a " + t.Name()
	}
	return "an object"
}

func (e *expander) object(t reflect.Type, object map[string]any, field string, values commandline.Values) any {
	fields, out := fieldsOf(t), map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		typ, known := fields[name]
		if !known {
			fix := "remove it"
			if near := report.Nearest(name, slices.Sorted(maps.Keys(fields))); near != "" {
				fix = "write " + near
			}
			e.mistake(field+"."+name, "is no field of a pod", fix)
			continue
		}
		inside := values
		if t == reflect.TypeFor[corev1.Container]() && (name == "command" || name == "args") ||
			t == reflect.TypeFor[corev1.EnvVar]() && name == "value" {
			inside = e.literal
		}
		out[name] = e.node(typ, object[name], field+"."+name, inside)
	}
	return out
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name == "-":
		case name == "" && f.Anonymous:
			maps.Copy(out, fieldsOf(f.Type))
		default:
			out[cmp.Or(name, f.Name)] = f.Type
		}
	}
	return out
}

func mistake(field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Error, Field: field, Problem: problem, Fix: fix}
}

// Check returns the mistakes in deployTemplate.kubernetes of an Engine's versions.
func Check(e *v1alpha1.Engine) (out []report.Finding) {
	for i := range e.Spec.Versions {
		v := &e.Spec.Versions[i]
		if v.DeployTemplate.Kubernetes == nil {
			continue
		}
		prefix := fmt.Sprintf("spec.versions[%d].deployTemplate.", i)
		t, found := Parse(v.DeployTemplate.Kubernetes.Raw)
		if t != nil {
			found = t.check(v)
		}
		for _, f := range found {
			f.Field = prefix + f.Field
			out = append(out, f)
		}
	}
	return out
}

// check reports a missing image. It also reports arguments of deployTemplate.process whose ${path}
// has no value in a pod.
func (t *Template) check(v *v1alpha1.EngineVersion) (out []report.Finding) {
	p := &v.DeployTemplate.Process
	values := commandline.Values{Pod: true}
	texts := map[string]string{}
	for task, args := range p.Tasks {
		for i, arg := range args {
			texts[fmt.Sprintf("process.tasks.%s[%d]", task, i)] = arg
		}
	}
	for i, arg := range p.Args {
		if !t.Args() {
			texts[fmt.Sprintf("process.args[%d]", i)] = arg
		}
	}
	for _, place := range slices.Sorted(maps.Keys(texts)) {
		_, err := values.Expand(texts[place])
		_, process := (commandline.Values{}).Expand(texts[place])
		if err != nil && process == nil { // the path is valid in process, but not in a pod
			out = append(out, mistake(field, "takes "+place+" from process, and in a pod "+err.Error(),
				"write args of the container "+container))
		}
	}
	if pod, _ := t.expand(commandline.Values{Pod: true, Port: strconv.Itoa(int(t.port))}); pod != nil &&
		engineOf(pod).Image == "" && len(v.Images) == 0 {
		out = append(out, mistake(field+".spec.containers", "the container "+container+" has no image, and the "+
			"version has no images", "write images of this version"))
	}
	return out
}
