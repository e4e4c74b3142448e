package file

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/penstock-project/penstock/discovery/store"
)

// kind is how objects of one kind come in. See kind_httproute.go for an example.
type kind struct {
	table    store.Kind
	versions []version // apiVersions that files may use; the first is what the store's type is
	crd      string    // plural of the kind's CRD in manifests; empty for kinds that Kubernetes has built in
	status   bool      // the status says something to us; else it is what somebody else's controller once wrote
	// check finds what the schema cannot say, in a decoded object that its schema accepts. May be nil.
	check func(store.Object) []mistake
	// explain takes out of what the schema found what this kind says in words of its own. May be nil.
	explain func(field.ErrorList) (said []mistake, rest field.ErrorList)
}

// version is one apiVersion of a kind, and how to make the first of the kind's versions of it.
type version struct {
	apiVersion string
	convert    func(*draft) // nil: as it stands
}

// kinds lists every kind that is read, in the order of store.Tables.
func kinds() []*kind {
	return []*kind{
		gatewayClassKind(), gatewayKind(), listenerSetKind(), httpRouteKind(), grpcRouteKind(), tlsRouteKind(), tcpRouteKind(),
		referenceGrantKind(), backendTLSPolicyKind(), namespaceKind(),
		serviceKind(), endpointSliceKind(), podKind(), secretKind(), configMapKind(),
		inferencePoolKind(), inferenceModelKind(), inferencePoolImportKind(), modelServersKind(), poolPolicyKind(), envoyFleetKind(),
	}
}

// catalog finds kinds by name, and has their schemas compiled once in a process, each when it is first needed.
type catalog struct {
	byName map[string][]*kind // kind name -> kinds; InferencePool is one kind in two groups
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

// find looks a kind up. found is nil if nobody reads it; convert may be nil also for a kind that is read.
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

// groupOf is the API group in an apiVersion.
func groupOf(apiVersion string) string {
	if group, _, ok := strings.Cut(apiVersion, "/"); ok {
		return group
	}
	return ""
}

// laterGroups are the groups whose kinds are about traffic: their authors expect an effect.
var laterGroups = []string{"gateway.networking.k8s.io", "gateway.networking.x-k8s.io", "inference.networking.k8s.io", "inference.networking.x-k8s.io"}

// laterKinds are kinds of these groups that exist and that nobody translates yet. One that is not listed may be mistyped.
var laterKinds = []string{"UDPRoute",
	"XBackend", "XBackendTrafficPolicy", "XListenerSet", "XMesh", "InferenceModelRewrite", "InferenceObjective"}
