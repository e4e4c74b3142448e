package installed

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/image"
)

// Start starts a lab in dir with Penstock in it. The working directory is conformance, as CRDs are looked up by its go.mod;
// `make labs build` has made what it runs. Penstock is not waited for: who needs it sees it in the status of its
// GatewayClass. The caller ends the lab with Down.
func Start(ctx context.Context, dir string) (*lab.Lab, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	crds, err := lab.CRDs(ctx, dir+"-crds")
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs("../bin/penstock")
	if err != nil {
		return nil, err
	}
	l, err := lab.Start(ctx, lab.Config{Dir: dir, CRDs: append(crds, "../manifests/install"),
		Images: []image.Image{{Name: "penstock-project/penstock", Program: program, Path: "/usr/local/bin/penstock"}}})
	if err != nil {
		return nil, fmt.Errorf("a lab with Penstock: %w", err)
	}
	return l, nil
}
