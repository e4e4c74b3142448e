package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The image is built elsewhere. This test checks that it has the tested versions, and that the chart installs it.
func TestContainerImage_MatchesTheChartAndTheTestedEnvoy(t *testing.T) {
	read := func(path ...string) string {
		raw, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	container := read("Containerfile")
	var values struct {
		Image string `json:"image"`
	}
	if err := yaml.Unmarshal([]byte(read("manifests", "charts", "penstock", "values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(read("go.mod"), "\ngo ")
	minor := strings.Join(strings.SplitN(version, ".", 3)[:2], ".")
	for what, text := range map[string]string{
		"Go of go.mod": "golang:" + minor + " ", "image of the chart": values.Image, "Envoy that this release was tested with": defaultEnvoyImage,
	} {
		if !strings.Contains(container, text) {
			t.Errorf("Containerfile does not name the %s: %s", what, text)
		}
	}
}
