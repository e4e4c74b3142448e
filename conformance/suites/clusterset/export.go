package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	exportAnnotation = importGroup + "/export"
	modeAnnotation   = importGroup + "/export-mode"
)

const (
	targetPort = 8080
	pickerPort = 9002
)

// pool writes an InferencePool. annotations have the form "key: value".
func (m *member) pool(name string, annotations ...string) {
	m.create(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s-epp}
spec:
  type: %[2]s
  selector: {app: %[1]s-epp}
  ports:
  - {name: ext-proc, port: %[3]d, targetPort: %[3]d, appProtocol: http2}
`, name, m.run.config.ServiceType, pickerPort))
	m.create(fmt.Sprintf(`
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: %[1]s, annotations: {%[2]s}}
spec:
  selector: {matchLabels: {app: %[1]s}}
  targetPorts: [{number: %[3]d}]
  endpointPickerRef: {name: %[1]s-epp, port: {number: %[4]d}}
`, name, strings.Join(annotations, ", "), targetPort, pickerPort))
}

func (m *member) export(name string) { m.pool(name, exportAnnotation+": ClusterSet") }

func (m *member) annotate(name string, exported bool) {
	value := "null"
	if exported {
		value = `"ClusterSet"`
	}
	m.change(pools, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, exportAnnotation, value))
}

// exportedIs requires that the pool's condition Exported has the status, and that its message
// contains all words. Status "" requires that the condition does not exist.
func (m *member) exportedIs(pool, status string, words ...string) error {
	u, err := m.in(pools).Get(m.run, pool, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, parent := range list(u.Object, "status", "parents") {
		ref, _, _ := unstructured.NestedMap(parent, "parentRef")
		if ref["kind"] != "InferencePoolImport" || ref["group"] != importGroup || ref["name"] != pool {
			continue
		}
		if status == "" {
			return fmt.Errorf("got the parent %v with the conditions %v, want none", ref, parent["conditions"])
		}
		if err := condition(parent, "Exported", status); err != nil {
			return err
		}
		for _, c := range list(parent, "conditions") {
			for _, w := range words {
				if c["type"] == "Exported" && !strings.Contains(fmt.Sprint(c["message"]), w) {
					return fmt.Errorf("condition Exported: got %v, want it to name %s", c["message"], w)
				}
			}
		}
		return nil
	}
	if status == "" {
		return nil
	}
	return fmt.Errorf("status.parents: got %v, want InferencePoolImport %s", u.Object["status"], pool)
}

func (m *member) becomes(pool, status string, words ...string) {
	m.run.until(fmt.Sprintf("cluster %s: condition Exported of InferencePool %s", m.name, pool),
		func() error { return m.exportedIs(pool, status, words...) })
}

func (r *run) everywhere() {
	for _, m := range r.members {
		m.settle()
	}
}

func exportCreatesImports(r *run) {
	r.everywhere()
	r.exporter().export("llm")
	for _, m := range r.importers() {
		m.imported("llm")
	}
}

func exportIsOptIn(r *run) {
	r.everywhere()
	from := r.exporter()
	silent := map[string]string{"plain": "", "everywhere": exportAnnotation + ": Everywhere",
		"mode": modeAnnotation + ": EndpointMode"}
	for name, annotation := range silent {
		from.pool(name, annotation)
	}
	from.export("llm") // llm is exported last: when it is imported, any other exported pool is, too
	for _, m := range r.importers() {
		m.imported("llm", r.exportedBy(from.name))
		for name := range silent {
			if err := m.without(imports, name); err != nil {
				r.fail("cluster %s: InferencePoolImport %s: %w", m.name, name, err)
			}
		}
	}
	for name := range silent {
		if from.exportedIs(name, "True") == nil {
			r.fail("InferencePool %s has the condition Exported, and it is True", name)
		}
	}
}

func importNamesExporter(r *run) { r.exported() }

func exportedCondition(r *run) {
	r.everywhere()
	from := r.exporter()
	from.export("llm")
	from.becomes("llm", "True")
	for _, m := range r.importers() {
		if _, err := m.in(imports).Get(r, "llm", metav1.GetOptions{}); err != nil {
			r.fail("the condition is True, but cluster %s has no import: %w", m.name, err)
		}
	}
	from.annotate("llm", false)
	from.becomes("llm", "")
}

func endpointWiring(r *run) {
	r.everywhere()
	from := r.exporter()
	from.export("llm")
	for _, m := range r.importers() {
		m.imported("llm", r.exportedBy(from.name),
			func(u *unstructured.Unstructured) error { return r.wired(r.entries(u)[from.name]) })
	}
}

func (r *run) wired(entry map[string]any) error {
	if entry["routingMode"] != "EndpointMode" {
		return fmt.Errorf("routingMode is %v, want EndpointMode", entry["routingMode"])
	}
	if entry["targetPortNumber"] != int64(targetPort) {
		return fmt.Errorf("targetPortNumber is %v, want %d", entry["targetPortNumber"], targetPort)
	}
	epp, _, _ := unstructured.NestedMap(entry, "endpointPicker")
	at := list(epp, "service")
	if one, ok := epp["service"].(map[string]any); ok { // an object in the proposal's text, a list in its Go type
		at = append(at, one)
	}
	svc, err := r.exporter().in(services).Get(r, "llm-epp", metav1.GetOptions{})
	if err != nil {
		return err
	}
	want := addresses(svc)
	if len(want) == 0 {
		return errors.New("the picker's Service has no address yet")
	}
	for _, s := range at {
		got, _, _ := unstructured.NestedStringSlice(s, "addresses")
		for _, p := range list(s, "ports") {
			if p["number"] == int64(pickerPort) &&
				slices.ContainsFunc(got, func(a string) bool { return slices.Contains(want, a) }) {
				return nil
			}
		}
	}
	return fmt.Errorf("endpointPicker.service is %v, want addresses of the Service, %v, and the port %d",
		epp["service"], want, pickerPort)
}

func addresses(svc *unstructured.Unstructured) (out []string) {
	if typ, _, _ := unstructured.NestedString(svc.Object, "spec", "type"); typ != "LoadBalancer" {
		ips, _, _ := unstructured.NestedStringSlice(svc.Object, "spec", "clusterIPs")
		return ips
	}
	for _, i := range list(svc.Object, "status", "loadBalancer", "ingress") {
		for _, key := range []string{"ip", "hostname"} {
			if a, ok := i[key].(string); ok && a != "" {
				out = append(out, a)
			}
		}
	}
	return out
}

func wiringFollows(r *run) {
	r.everywhere()
	from := r.exporter()
	from.export("llm")
	port := func(want int64) func(*unstructured.Unstructured) error {
		return func(u *unstructured.Unstructured) error {
			if got := r.entries(u)[from.name]["targetPortNumber"]; got != want {
				return fmt.Errorf("targetPortNumber is %v, want %d", got, want)
			}
			return nil
		}
	}
	for _, m := range r.importers() {
		m.imported("llm", port(targetPort))
	}
	from.change(pools, "llm", `{"spec":{"targetPorts":[{"number":8081}]}}`)
	for _, m := range r.importers() {
		m.imported("llm", port(8081))
	}
}

func importConditions(r *run) {
	r.everywhere()
	r.exporter().export("llm")
	for _, m := range r.importers() {
		m.imported("llm", func(u *unstructured.Unstructured) error {
			status, _, _ := unstructured.NestedMap(u.Object, "status")
			return errors.Join(condition(status, "Accepted", "True"), condition(status, "Ready", ""))
		})
	}
}
