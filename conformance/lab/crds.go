package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/penstock-project/penstock/manifests"
)

var releases = []struct{ module, folder string }{
	{"sigs.k8s.io/gateway-api", "config/crd/experimental"},
	{"sigs.k8s.io/gateway-api-inference-extension", "config/crd/bases"},
}

// CRDs returns folders with all CustomResourceDefinitions that Penstock uses. It writes Penstock's
// own kinds below dir. The go.mod in releasesOf selects the versions of the other kinds; "" means
// the working directory.
func CRDs(ctx context.Context, dir, releasesOf string) ([]string, error) {
	var folders []string
	for _, r := range releases {
		cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", r.module)
		cmd.Dir = releasesOf
		out, err := cmd.Output()
		if exit := (&exec.ExitError{}); errors.As(err, &exit) {
			return nil, fmt.Errorf("CRDs of %s: %s", r.module, strings.TrimSpace(string(exit.Stderr)))
		}
		if err != nil {
			return nil, fmt.Errorf("CRDs of %s: %w", r.module, err)
		}
		path := strings.TrimSpace(string(out))
		if path == "" {
			return nil, fmt.Errorf("CRDs of %s: the module is not on this machine yet: go mod download", r.module)
		}
		folders = append(folders, filepath.Join(path, r.folder))
	}
	own := filepath.Join(dir, "crds")
	if err := os.MkdirAll(own, 0o755); err != nil {
		return nil, fmt.Errorf("CRDs: %w", err)
	}
	files, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.Group == "gateway.networking.k8s.io" || f.Group == "inference.networking.k8s.io" {
			continue // Penstock's copies, for configuration from files, differ from the releases
		}
		if err := os.WriteFile(filepath.Join(own, f.Group+"_"+f.Plural+".yaml"), f.YAML, 0o644); err != nil {
			return nil, fmt.Errorf("CRDs: %w", err)
		}
	}
	return append(folders, own), nil
}
