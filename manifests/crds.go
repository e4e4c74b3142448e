package manifests

import (
	"embed"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml
var crds embed.FS

// File is one CustomResourceDefinition, ready to be applied.
type File struct {
	Group  string // API group
	Plural string // the kind's plural, in lower case
	YAML   []byte
}

// CRDs lists every definition, sorted by group and plural.
func CRDs() ([]File, error) {
	entries, err := crds.ReadDir("crds")
	if err != nil {
		return nil, fmt.Errorf("embedded CRDs: %w", err)
	}
	files := make([]File, 0, len(entries))
	for _, e := range entries {
		group, plural, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".yaml"), "_")
		raw, err := crds.ReadFile("crds/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("embedded CRDs: %w", err)
		}
		files = append(files, File{Group: group, Plural: plural, YAML: raw})
	}
	return files, nil
}

// CRD decodes the definition of one kind. For HTTPRoute, the parameters are
// "gateway.networking.k8s.io" and "httproutes". Decoding the largest takes about 25 ms, so callers
// should keep the result.
func CRD(group, plural string) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := crds.ReadFile("crds/" + group + "_" + plural + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("embedded CRD %s.%s: %w", plural, group, err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		return nil, fmt.Errorf("embedded CRD %s.%s: %w", plural, group, err)
	}
	return crd, nil
}
