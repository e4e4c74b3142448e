package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-project/penstock/discovery/status"
)

// silent lists kinds without a status. The objects that refer to them report their problems.
var silent = []string{"Namespace", "Service", "ReferenceGrant", "Secret", "ConfigMap"}

// Each object of the examples has a condition or a finding, and Envoy NACKs nothing.
// --any-controller accepts any GatewayClass.
func TestGatewayAPIExamples_EachObjectIsReported(t *testing.T) {
	t.Parallel()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	examples := filepath.Join(strings.TrimSpace(string(dir)), "examples")
	files := yamlFiles(t, examples)
	if len(files) < 50 {
		t.Fatalf("only %d examples in %s, want at least 50", len(files), examples)
	}
	for _, channel := range []string{"standard", "experimental"} {
		t.Run("all of "+channel, func(t *testing.T) {
			t.Parallel()
			acceptedByEnvoy(t, filepath.Join(examples, channel), "--any-controller")
		})
	}
	for _, file := range files {
		name, _ := filepath.Rel(examples, file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"translate", "--status", "-o", "json", "--any-controller"}
			objects := objectsOf(t, file)
			if slices.ContainsFunc(objects, func(o object) bool { return o.Kind == "Gateway" }) {
				args = append(args, "--validate")
			}
			var doc status.Document
			if err := json.Unmarshal([]byte(run(t, file, args...)), &doc); err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				if !slices.Contains(silent, o.Kind) && !mentioned(&doc, o) {
					t.Errorf("%s %s has no condition and no finding", o.Kind, o.Metadata.Name)
				}
			}
			for _, f := range doc.Findings {
				if byEnvoy.MatchString(f.Problem) || f.Source == "" {
					t.Errorf("Envoy rejects a resource, or a finding has no source: %s", f)
				}
			}
		})
	}
}

// byEnvoy matches a NACK's report, but not EnvoyFleet.
var byEnvoy = regexp.MustCompile(`\bEnvoy\b`)

type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
}

func objectsOf(t *testing.T, file string) []object {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []object
	for d := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if o.Kind != "" {
			out = append(out, o)
		}
	}
}

func mentioned(doc *status.Document, o object) bool {
	for _, s := range doc.Objects {
		if s.Kind != o.Kind || s.Name != o.Metadata.Name {
			continue
		}
		if len(s.Status.Conditions) > 0 || slices.ContainsFunc(s.Status.Parents,
			func(p status.Parent) bool { return len(p.Conditions) > 0 }) {
			return true
		}
	}
	for _, f := range doc.Findings {
		if f.Owner.Kind == o.Kind && f.Owner.Name == o.Metadata.Name {
			return true
		}
	}
	return false
}
