package devices

import "slices"

// CPU is the accelerator name for servers that use no accelerator.
const CPU = "cpu"

// accelerators are the kinds of accelerators that an Engine may have images for.
var accelerators = []struct {
	name      string
	resource  string   // the extended resource that a pod requests
	variables []string // environment variables that select the accelerators of a process
}{
	{"nvidia", "nvidia.com/gpu", []string{"CUDA_VISIBLE_DEVICES"}},
	{"amd", "amd.com/gpu", []string{"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}},
	{CPU, "", nil},
}

// AcceleratorNames returns the names of the kinds of accelerators.
func AcceleratorNames() (names []string) {
	for _, a := range accelerators {
		names = append(names, a.name)
	}
	return names
}

// AcceleratorOf returns the kind of accelerators that an environment variable selects; "": unknown.
func AcceleratorOf(variable string) string {
	for _, a := range accelerators {
		if slices.Contains(a.variables, variable) {
			return a.name
		}
	}
	return ""
}

// ExtendedResource returns the extended resource by which a pod requests an accelerator; "": the
// CPU, or unknown.
func ExtendedResource(accelerator string) string {
	for _, a := range accelerators {
		if a.name == accelerator {
			return a.resource
		}
	}
	return ""
}
