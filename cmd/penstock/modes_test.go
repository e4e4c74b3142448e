package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readable lists source files that write world-readable files, and why these contain no credential.
var readable = map[string]string{
	"cmd/penstock/bootstrap.go":        "names of files, for Envoys of another user",
	"cmd/penstock/drain.go":            "a copy of this program",
	"xds/wheel/install.go":             "Envoy's program",
	"discovery/engine/install/run.go":  "lists of packages and scripts, the same for all, for their owner alone",
	"cmd/penstock/metrics.go":          "dashboards, the same for all",
	"discovery/statefile/statefile.go": "Rewrite: a file of the user's, which keeps its mode",
}

func TestSecrets_FilesHaveMode0600(t *testing.T) {
	root := filepath.Join("..", "..")
	writes := regexp.MustCompile(`os\.(WriteFile|OpenFile|Create)\(.*|\.Chmod\(.*|os\.Chmod\(.*`)
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == "conformance" || name != "." && strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, call := range writes.FindAllString(string(text), -1) {
			if strings.Contains(call, "0o600") || strings.Contains(call, "0o700") ||
				strings.Contains(name, "internal/state/") {
				continue
			}
			found[name] = true
			if readable[name] == "" {
				t.Errorf("%s: %s: use mode 0600 (statefile.Replace), or list here why others may read it", name, call)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range readable {
		if !found[name] {
			t.Errorf("%s writes no such file any more", name)
		}
	}
}
