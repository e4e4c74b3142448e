package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/translator/model"
)

// A golden is one feature in one file: a description, the YAML that the user writes, and the
// results below want/. A golden shows the resources that matter to it and omits the rest:
//
//	want/routes.yaml                          all route configurations, of all Gateways
//	want/clusters/pool/default/chat.yaml      clusters with this name, in each of the picker's
//	                                          configurations
//	want/status.txt                           the output of `penstock translate --status`
//	want/explain -X POST http://localhost/v1  the output of `penstock explain` with these
//	                                          arguments
//
// `make golden` rewrites the files below want/.
const wanted = "want/"

func TestTranslate_Golden(t *testing.T) {
	for name, golden := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, golden)
			got := &txtar.Archive{Comment: golden.Comment}
			for _, f := range golden.Files {
				if section, ok := strings.CutPrefix(f.Name, wanted); ok {
					f.Data = []byte(produce(t, dir, section))
				}
				got.Files = append(got.Files, f)
			}
			path := filepath.Join("testdata", "golden", name+".txtar")
			if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
				if err := os.WriteFile(path, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(lines(golden), lines(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func lines(a *txtar.Archive) []string { return strings.Split(string(txtar.Format(a)), "\n") }

func goldens(t *testing.T) map[string]*txtar.Archive {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("goldens: got %v, %d, want some", err, len(paths))
	}
	out := map[string]*txtar.Archive{}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(path), ".txtar")] = a
	}
	return out
}

func unpack(t *testing.T, golden *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range golden.Files {
		if strings.HasPrefix(f.Name, wanted) {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func produce(t *testing.T, dir, section string) string {
	t.Helper()
	if args := strings.Fields(section); args[0] == "explain" {
		return run(t, dir, append(args, "--state", t.TempDir())...)
	}
	if section == "status.txt" {
		return run(t, dir, "translate", "--status")
	}
	var gateways []gatewayConfig
	d := json.NewDecoder(strings.NewReader(run(t, dir, "translate", "-o", "json")))
	for d.More() {
		var g gatewayConfig
		if err := d.Decode(&g); err != nil {
			t.Fatal(err)
		}
		gateways = append(gateways, g)
	}
	kind, name, _ := strings.Cut(strings.TrimSuffix(section, ".yaml"), "/")
	var docs []string
	for _, g := range gateways {
		all, ok := map[string][]json.RawMessage{"listeners": g.Listeners, "routes": g.Routes, "clusters": g.Clusters,
			"endpoints": g.Endpoints, "secrets": g.Secrets}[kind]
		if !ok {
			t.Fatalf("no golden has a section %q", wanted+section)
		}
		for _, raw := range all {
			if name != "" && resourceName(t, raw) != name {
				continue
			}
			text, err := yaml.JSONToYAML(raw)
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, fmt.Sprintf("--- # of Gateway %s\n%s", g.Gateway, text))
		}
	}
	if len(docs) == 0 {
		return "# none\n"
	}
	return strings.Join(docs, "")
}

func resourceName(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var r struct {
		Name    string `json:"name"`
		Cluster string `json:"cluster_name"` // the name of a ClusterLoadAssignment
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	name := r.Name + r.Cluster
	if id, ok := model.ParseClusterID(name); ok {
		return id.InAnyConfig().String()
	}
	return name
}

// run runs a command with -f dir, and removes dir from its output. An exit code for findings is
// accepted.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetArgs(append(args, "-f", dir))
	root.SetOut(&out)
	root.SetErr(&errs)
	if err := root.ExecuteContext(t.Context()); err != nil && !errors.As(err, new(exitCode)) {
		t.Fatalf("penstock %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return strings.ReplaceAll(out.String(), dir+string(filepath.Separator), "")
}

func TestTranslate_GoldenInputsAreAcceptedByEnvoy(t *testing.T) {
	for name, golden := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acceptedByEnvoy(t, unpack(t, golden))
		})
	}
}

// acceptedByEnvoy fails if Envoy NACKs a resource of dir's configuration. It returns dir's status.
func acceptedByEnvoy(t *testing.T, dir string, args ...string) string {
	t.Helper()
	args = append([]string{"translate", "--status"}, args...)
	without, with := run(t, dir, args...), run(t, dir, append(args, "--validate")...)
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("Envoy reports something that translation does not (-translation +Envoy):\n%s", diff)
	}
	return with
}

func yamlFiles(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
