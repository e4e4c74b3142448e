package file

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// oldInferencePool converts an InferencePool of v1alpha2 to v1: targetPortNumber, selector and
// extensionRef. In v1alpha2, the picker's default port was 9002.
func oldInferencePool(d *draft) {
	spec, ok := d.obj["spec"].(map[string]any)
	if !ok {
		return
	}
	if n, ok := spec["targetPortNumber"]; ok && spec["targetPorts"] == nil {
		spec["targetPorts"] = []any{map[string]any{"number": n}}
		delete(spec, "targetPortNumber")
		d.move("spec.targetPorts[0].number", "spec.targetPortNumber")
		d.move("spec.targetPorts[0]", "spec.targetPortNumber")
		d.move("spec.targetPorts", "spec.targetPortNumber")
	}
	if sel, ok := spec["selector"].(map[string]any); ok {
		if _, isNew := sel["matchLabels"].(map[string]any); !isNew {
			spec["selector"] = map[string]any{"matchLabels": sel}
			d.move("spec.selector.matchLabels", "spec.selector")
		}
	}
	if ref, ok := spec["extensionRef"]; ok && spec["endpointPickerRef"] == nil {
		spec["endpointPickerRef"] = ref
		delete(spec, "extensionRef")
		d.move("spec.endpointPickerRef", "spec.extensionRef")
		if ref, ok := ref.(map[string]any); ok && ref["portNumber"] == nil && ref["port"] == nil {
			ref["port"] = map[string]any{"number": int64(9002)}
		}
	}
	pickerPortNumber(d)
}

func pickerPortNumber(d *draft) {
	spec, _ := d.obj["spec"].(map[string]any)
	ref, _ := spec["endpointPickerRef"].(map[string]any)
	if n, ok := ref["portNumber"]; ok && ref["port"] == nil {
		ref["port"] = map[string]any{"number": n}
		delete(ref, "portNumber")
		d.move("spec.endpointPickerRef.port.number", "spec.endpointPickerRef.portNumber")
		d.move("spec.endpointPickerRef.port", "spec.endpointPickerRef.portNumber")
	}
}

// proposedImport converts an InferencePoolImport as in the examples of the multi-cluster proposal:
// with an empty spec, service as an object, and conditions with only type and status.
func proposedImport(d *draft) {
	if spec, ok := d.obj["spec"]; ok {
		if m, isMap := spec.(map[string]any); spec == nil || isMap && len(m) == 0 {
			delete(d.obj, "spec")
		}
	}
	status, _ := d.obj["status"].(map[string]any)
	completeConditions(status)
	clusters, _ := status["clusters"].([]any)
	for i := range clusters {
		cluster, _ := clusters[i].(map[string]any)
		completeConditions(cluster)
		field := at("status.clusters", i)
		if picker, ok := cluster["endpointPicker"].(map[string]any); ok {
			listOfOne(d, picker, field+".endpointPicker")
		}
		parents, _ := cluster["parents"].([]any)
		for j := range parents {
			if parent, ok := parents[j].(map[string]any); ok {
				completeConditions(parent)
				listOfOne(d, parent, at(field+".parents", j))
			}
		}
	}
}

func listOfOne(d *draft, in map[string]any, path string) {
	if service, ok := in["service"].(map[string]any); ok {
		in["service"] = []any{service}
		d.move(path+".service[0]", path+".service")
	}
}

func completeConditions(in map[string]any) {
	list, _ := in["conditions"].([]any)
	for i := range list {
		c, ok := list[i].(map[string]any)
		if !ok {
			continue
		}
		for key, value := range map[string]any{"reason": "Unspecified", "message": "",
			"lastTransitionTime": "1970-01-01T00:00:00Z"} {
			if c[key] == nil {
				c[key] = value
			}
		}
	}
}

func checkImport(c *checks, imp *inferenceapi.InferencePoolImport) {
	for i, cluster := range imp.Status.Clusters {
		field := at("status.clusters", i)
		if cluster.EndpointPicker != nil {
			checkServices(c, field+".endpointPicker.service", cluster.EndpointPicker.Service)
		}
		for j, p := range cluster.Parents {
			checkServices(c, at(field+".parents", j)+".service", p.Service)
		}
		for j, e := range cluster.Endpoints {
			c.ip(at(field+".endpoints", j)+".address", e.Address)
		}
		c.cidrs(field+".podCIDRs", cluster.PodCIDRs)
	}
}

func checkServices(c *checks, field string, services []inferenceapi.ServiceImport) {
	for i, s := range services {
		for j, a := range s.Addresses {
			c.ipOrHost(at(at(field, i)+".addresses", j), a)
		}
	}
}

func checkPlugins(c *checks, config *endpointpicker.EndpointPickerConfig) {
	_, problems := endpointpicker.Resolve(config)
	c.plugins("", problems)
}

func (c *checks) plugins(field string, problems []endpointpicker.Problem) {
	for _, p := range problems {
		m := mistake{severity: report.Error, field: field + p.Field, problem: p.Problem, fix: p.Fix}
		if p.Warning {
			m.severity = report.Warning
		}
		c.found = append(c.found, m)
	}
}
