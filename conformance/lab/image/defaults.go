package image

import (
	"os/exec"
	"path/filepath"
)

var known = []struct {
	program string
	image   Image
}{
	{"echo-basic", Image{Name: "echo-basic"}},
	{"lwepp", Image{Name: "lwepp"}},
	{"coredns", Image{Name: "coredns/coredns", Path: "/coredns"}},
	{"llm-d-inference-sim", Image{Name: "llm-d/llm-d-inference-sim", Path: "/app/llm-d-inference-sim"}},
	{"envoy", Image{Name: "envoyproxy/envoy", Args: []string{"-c", "/etc/envoy/envoy.yaml"}}},
	{"envoy", Image{Name: "envoyproxy/envoy-distroless", User: 65532, Args: []string{"-c", "/etc/envoy/envoy.yaml"}}},
	{"penstock", Image{Name: "penstock"}},
	{"penstock-external", Image{Name: "penstock-project/penstock-external"}},
}

// Known returns the predefined images whose programs exist. A program is taken from the first
// folder that has it. envoy is the path of Envoy; "" means to search the folders.
func Known(envoy string, folders ...string) []Image {
	var found []Image
	for _, k := range known {
		paths := make([]string, 0, len(folders)+1)
		if k.program == "envoy" && envoy != "" {
			paths = append(paths, envoy)
		}
		for _, f := range folders {
			paths = append(paths, filepath.Join(f, k.program))
		}
		for _, path := range paths {
			if _, err := exec.LookPath(path); err == nil {
				k.image.Program = path
				if k.image.Path == "" {
					k.image.Path = "/usr/local/bin/" + k.program
				}
				found = append(found, k.image)
				break
			}
		}
	}
	return found
}
