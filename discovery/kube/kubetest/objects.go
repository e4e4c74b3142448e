package kubetest

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// Install stores an established CRD that serves a kind in some versions.
func (s *Server) Install(group, plural string, versions ...string) {
	s.Put("customresourcedefinitions", definition(group, plural, versions))
}

// Uninstall removes a kind's CRD.
func (s *Server) Uninstall(group, plural string) {
	s.Delete("customresourcedefinitions", definition(group, plural, nil))
}

func definition(group, plural string, versions []string) Object {
	list := []any{}
	for _, v := range versions {
		list = append(list, Object{"name": v, "served": true})
	}
	return Object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": Object{"name": plural + "." + group,
			"annotations": Object{"gateway.networking.k8s.io/bundle-version": "v1.6.3"}},
		"spec":   Object{"versions": list},
		"status": Object{"conditions": []any{Object{"type": "Established", "status": "True"}}},
	}
}

// Parse decodes an object from YAML.
func Parse(t testing.TB, text string) (obj Object) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// Apply stores an object from YAML.
func (s *Server) Apply(t testing.TB, resource, text string) {
	t.Helper()
	s.Put(resource, Parse(t, text))
}
