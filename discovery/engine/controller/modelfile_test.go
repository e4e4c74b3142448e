package controller_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/penstock-project/penstock/discovery/engine/controller"
)

func TestModelFile_AnAbsentOneIsReportedBeforeAStart(t *testing.T) {
	dir := t.TempDir()
	program(t, filepath.Join(dir, "llama-server"))
	program(t, filepath.Join(dir, "vllm"))
	t.Setenv("PATH", dir)
	there := filepath.Join(dir, "there.gguf")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ spec, inherited, want string }{
		{"llama-cpp}\nmodel: {name: m, file: /nonexistent/x.gguf}", "",
			"spec.model.file: /nonexistent/x.gguf does not exist"},
		{"llama-cpp}\nmodel: {name: m, file: " + dir + "}", "",
			"spec.model.file: " + dir + " is a folder, and the engine reads a file"},
		{"llama-cpp}\nmodel: {name: m}", "", "spec.model.file: is required by engine llama-cpp"},
		{"llama-cpp}\nmodel: {name: m, file: " + there + "}", "", ""},
		{"llama-cpp}\nmodel: {name: " + there + ", servedName: m}", "", ""},
		{"llama-cpp}\nmodel: {name: " + there[1:] + ", servedName: m}", "", ""}, // relative to /
		{"llama-cpp}\nmodel: {name: /nonexistent/x, servedName: m}", "",
			"spec.model.name: /nonexistent/x does not exist"},
		{"llama-cpp}\nmodel: {name: m}\nvariables: {hf-repo: a/b}", "", ""},
		{"llama-cpp}\nmodel: {name: m}", "LLAMA_ARG_HF_REPO=a/b", ""},
		{"vllm}\nmodel: {name: a/b}", "", ""},
		{"vllm}\nmodel: {name: a/b, file: " + dir + "}", "", ""},
		{"vllm}\nmodel: {name: a/b, file: /nonexistent/x}", "", "spec.model.file: /nonexistent/x does not exist"},
		{"sim}\nmodel: {name: a, file: /nonexistent/x}", "", ""}, // sim reads no file
	} {
		synctest.Test(t, func(t *testing.T) {
			r := startWith(t, controller.Config{Inherited: []string{"PATH=" + dir, c.inherited}})
			r.deploy("m", "engine: {name: "+c.spec+"\ngatewayRefs: [{name: gw}]\n")
			got, runs := r.conditions("m"), len(r.engines.processes())
			if c.want == "" && runs == 1 && !strings.Contains(got, "spec.model") {
				return
			}
			if c.want == "" || runs != 0 || !strings.Contains(got, "Ready False Failed "+c.want) ||
				!strings.Contains(got, "default/m "+c.want+"; ") {
				t.Errorf("%s %s: %d run, %s; want %q", c.spec, c.inherited, runs, got, c.want)
			}
		})
	}
}
