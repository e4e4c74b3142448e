package file

import "github.com/penstock-project/penstock/discovery/store"

// inferencePoolKind reads v1, and v1alpha2 of the older group. The picker's port may be portNumber,
// as in the multi-cluster proposal.
func inferencePoolKind() *kind {
	return &kind{
		table: store.InferencePools,
		versions: []version{
			{"inference.networking.k8s.io/v1", pickerPortNumber},
			{"inference.networking.x-k8s.io/v1alpha2", oldInferencePool},
		},
		crd: "inferencepools",
	}
}

// oldInferencePool converts targetPortNumber to targetPorts, the bare selector to matchLabels, and
// extensionRef to endpointPickerRef. The picker's port defaulted to 9002.
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
