package file

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/penstock-project/penstock/discovery/store"
)

// kind describes how objects of one kind are read. See kind_httproute.go for an example.
type kind struct {
	table    store.Kind
	versions []version // accepted apiVersions; the first has the store's type
	crd      string    // plural of the kind's CRD in manifests; empty for built-in kinds
	status   bool      // the status is input; else it is dropped as another controller's output
	// check finds mistakes in a valid decoded object that the schema cannot express. Optional.
	check func(store.Object) []mistake
	// explain replaces some of the schema's errors by mistakes, and returns the rest. Optional.
	explain func(field.ErrorList) (own []mistake, rest field.ErrorList)
}

type version struct {
	apiVersion string
	convert    func(*draft) // nil: no conversion
}

func kinds() []*kind {
	return []*kind{
		gatewayClassKind(), gatewayKind(), listenerSetKind(), httpRouteKind(), grpcRouteKind(), tlsRouteKind(),
		tcpRouteKind(), udpRouteKind(),
		referenceGrantKind(), backendTLSPolicyKind(), namespaceKind(),
		serviceKind(), serviceImportKind(), endpointSliceKind(), podKind(), secretKind(), configMapKind(),
		inferencePoolKind(), inferenceModelKind(), inferenceModelRewriteKind(), inferenceObjectiveKind(),
		inferencePoolImportKind(), modelServersKind(), poolPolicyKind(), apiKeyKind(), accessPolicyKind(),
		endpointPickerConfigKind(), envoyFleetKind(),
		clusterSetKind(), clusterPropertyKind(),
	}
}

// catalog finds kinds by name. It compiles each schema once, when first needed.
type catalog struct {
	byName map[string][]*kind // InferencePool is one kind in two groups
	schema map[*kind]func() (*schema, error)
}

var theCatalog = sync.OnceValue(func() *catalog {
	c := &catalog{byName: map[string][]*kind{}, schema: map[*kind]func() (*schema, error){}}
	for _, k := range kinds() {
		name := k.table.Kind()
		c.byName[name] = append(c.byName[name], k)
		c.schema[k] = sync.OnceValues(func() (*schema, error) { return newSchema(k) })
	}
	return c
})

// find returns a kind by its name. found is nil if Penstock does not read it; exact is false if the
// kind has no such apiVersion; convert may be nil.
func (c *catalog) find(apiVersion, kindName string) (found *kind, convert func(*draft), exact bool) {
	for _, k := range c.byName[kindName] {
		found = k
		for _, v := range k.versions {
			if v.apiVersion == apiVersion {
				return k, v.convert, true
			}
		}
	}
	return found, nil, false
}

func groupOf(apiVersion string) string {
	if group, _, ok := strings.Cut(apiVersion, "/"); ok {
		return group
	}
	return ""
}

// laterGroups are groups whose kinds affect traffic. Ignoring one of their kinds is worth a
// warning.
var laterGroups = []string{"gateway.networking.k8s.io", "gateway.networking.x-k8s.io", "inference.networking.k8s.io",
	"inference.networking.x-k8s.io", "llm-d.ai", "multicluster.x-k8s.io"}

// laterKinds are kinds of these groups that exist but are not supported yet. Any other may be
// mistyped.
var laterKinds = []string{"ServiceExport",
	"XBackend", "XBackendTrafficPolicy", "XListenerSet", "XMesh"}
