package catalog

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

//go:embed *.yaml schemas/*.json
var documents embed.FS

var engines = sync.OnceValue(func() map[string]*v1alpha1.Engine {
	out := map[string]*v1alpha1.Engine{}
	files, err := fs.Glob(documents, "*.yaml")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		raw, err := documents.ReadFile(file)
		e := &v1alpha1.Engine{}
		if err == nil {
			err = yaml.UnmarshalStrict(raw, e)
		}
		if err != nil {
			panic(fmt.Sprintf("built-in engine %s: %v", file, err)) // a test reads every file
		}
		setDefaults(e)
		if raw, err := documents.ReadFile("schemas/" + e.Name + ".json"); err == nil {
			e.Spec.Versions[0].ValuesSchema = &apiextensionsv1.JSON{Raw: raw}
		}
		out[e.Name] = e
	}
	return out
})

func setDefaults(e *v1alpha1.Engine) {
	for i := range e.Spec.Versions {
		p := &e.Spec.Versions[i].DeployTemplate.Process
		if p.Ready == "" {
			p.Ready = "/health"
		}
		if p.Listener == "" {
			p.Listener = v1alpha1.ListenerOwned
		}
		if p.StartupTimeoutSeconds == 0 {
			p.StartupTimeoutSeconds = 1200
		}
		if p.StopGraceSeconds == 0 {
			p.StopGraceSeconds = 30
		}
	}
}

// Get returns a built-in Engine. The caller must not modify it.
func Get(name string) (*v1alpha1.Engine, bool) {
	e, ok := engines()[name]
	return e, ok
}

// Names returns the names of the built-in Engines, sorted.
func Names() []string { return slices.Sorted(maps.Keys(engines())) }
