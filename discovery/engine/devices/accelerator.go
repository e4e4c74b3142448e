package devices

import "slices"

// CPU is the accelerator of servers without one.
const CPU = "cpu"

// accelerators are the kinds of accelerators that an Engine may have images for.
var accelerators = []struct {
	name      string
	resource  string   // by which a pod requests them
	variables []string // that select the accelerators of a process
}{
	{"nvidia", "nvidia.com/gpu", []string{"CUDA_VISIBLE_DEVICES"}},
	{"amd", "amd.com/gpu", []string{"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}},
	{CPU, "", nil},
}

// AcceleratorNames lists the names of accelerators.
func AcceleratorNames() (names []string) {
	for _, a := range accelerators {
		names = append(names, a.name)
	}
	return names
}

// AcceleratorOf returns the accelerator that an environment variable selects, or "".
func AcceleratorOf(variable string) string {
	for _, a := range accelerators {
		if slices.Contains(a.variables, variable) {
			return a.name
		}
	}
	return ""
}

// ExtendedResource returns by which resource a pod requests an accelerator. The CPU has none.
func ExtendedResource(accelerator string) string {
	for _, a := range accelerators {
		if a.name == accelerator {
			return a.resource
		}
	}
	return ""
}
