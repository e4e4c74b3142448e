package file

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type kind struct {
	table    store.Kind
	versions []version // accepted apiVersions; the store has the type of the first
	crd      string    // the plural name in the kind's CRD in manifests; "" for built-in kinds
	status   bool      // the status is read; otherwise it is dropped
	lossy    bool      // the Go type cannot hold all content of a document, such as null
	check    func(store.Object) []mistake
	// otherNames, if set, removes field names of another project (Neutree) from a document, and
	// reports them.
	otherNames func(obj map[string]any) []mistake
	// explain, if set, replaces some errors of schema validation by clearer mistakes.
	explain func(field.ErrorList) (own []mistake, rest field.ErrorList)
	// closed returns the object that replaces an invalid object without a valid version
	// (closed.go). It is nil for kinds that restrict no access.
	closed func(namespace, name string, spec any, why v1alpha1.AccessClosure) store.Object
}

type version struct {
	apiVersion string
	convert    func(*draft)
}

func kinds() []*kind {
	const gatewayAPI, inference = "gateway.networking.k8s.io/", "inference.networking.k8s.io/"
	same := func(*draft) {}
	return []*kind{
		{table: store.GatewayClasses, crd: "gatewayclasses", versions: in(gatewayAPI, "v1", "v1beta1")},
		{table: store.Gateways, crd: "gateways", check: on(checkGateway),
			versions: []version{{gatewayAPI + "v1", ourClass}, {gatewayAPI + "v1beta1", ourClass}}},
		{table: store.ListenerSets, crd: "listenersets", versions: in(gatewayAPI, "v1"), check: on(checkListenerSet)},
		{table: store.HTTPRoutes, crd: "httproutes", versions: in(gatewayAPI, "v1", "v1beta1")},
		{table: store.GRPCRoutes, crd: "grpcroutes", versions: in(gatewayAPI, "v1", "v1alpha2")},
		// Older versions of TLSRoute are read like v1, which requires hostnames and allows one
		// rule.
		{table: store.TLSRoutes, crd: "tlsroutes", versions: in(gatewayAPI, "v1", "v1alpha3", "v1alpha2")},
		{table: store.TCPRoutes, crd: "tcproutes", versions: in(gatewayAPI, "v1", "v1alpha2")},
		{table: store.UDPRoutes, crd: "udproutes", versions: in(gatewayAPI, "v1", "v1alpha2")},
		{table: store.ReferenceGrants, crd: "referencegrants", versions: in(gatewayAPI, "v1beta1", "v1", "v1alpha2")},
		{table: store.BackendTLSPolicies, crd: "backendtlspolicies", versions: in(gatewayAPI, "v1", "v1alpha3")},
		{table: store.Namespaces, versions: in("v1")},
		// The status of a Service has the load balancer's address, which other clusters need.
		{table: store.Services, versions: in("v1"), status: true, check: on(checkService)},
		// The fields of a ServiceImport that are read have the same shape in both versions.
		{table: store.ServiceImports, crd: mcsv1beta1.ServiceImportPluralName, check: on(checkServiceImport),
			versions: in("multicluster.x-k8s.io/", "v1beta1", "v1alpha1")},
		{table: store.EndpointSlices, versions: in("discovery.k8s.io/v1"), check: on(checkEndpointSlice)},
		// The status of a Pod has its address and readiness.
		{table: store.Pods, versions: in("v1"), status: true, check: on(checkPod)},
		{table: store.Secrets, versions: []version{{"v1", stringDataToData}}, check: on(checkSecret),
			explain: hideValues},
		{table: store.ConfigMaps, versions: in("v1")},
		{table: store.InferencePools, crd: "inferencepools", versions: []version{
			{inference + "v1", pickerPortNumber}, {inferenceapi.Group + "/v1alpha2", oldInferencePool}}},
		{table: store.InferenceModels, crd: "inferencemodels", versions: in(inferenceapi.Group, "/v1alpha2")},
		{table: store.InferenceModelRewrites, crd: "inferencemodelrewrites", versions: []version{
			{llmd.Group + "/" + llmd.Version, nil}, {inferenceapi.Group + "/" + llmd.Version, same}}},
		{table: store.InferenceObjectives, crd: "inferenceobjectives", versions: []version{
			{llmd.Group + "/" + llmd.Version, nil}, {inferenceapi.Group + "/" + llmd.Version, same}}},
		// A controller writes the status of an import. Without a controller, the user writes it.
		{table: store.InferencePoolImports, crd: "inferencepoolimports", status: true, check: on(checkImport),
			versions: []version{{inferenceapi.Group + "/v1alpha1", proposedImport}}},
		{table: store.ModelServers, crd: "modelservers", versions: ours, check: on(checkModelServers)},
		{table: store.Engines, crd: "engines", versions: ours, check: on(checkEngine)},
		{table: store.ModelRegistries, crd: "modelregistries", versions: ours},
		{table: store.ModelDeployments, crd: "modeldeployments", versions: ours, otherNames: fromNeutree, lossy: true},
		{table: store.PoolPolicies, crd: "poolpolicies", versions: ours, check: on(checkPoolPolicy)},
		{table: store.APIKeys, crd: "apikeys", versions: ours},
		{table: store.AccessPolicies, crd: "accesspolicies", versions: ours, closed: closedPolicy, lossy: true},
		{table: store.EndpointPickerConfigs, check: on(checkPlugins), versions: []version{
			{endpointpicker.Group + "/" + endpointpicker.Version, nil},
			{endpointpicker.FormerGroup + "/" + endpointpicker.Version, same}}},
		// An EnvoyFleet creates pods only on Kubernetes. It is read here, because the parametersRef
		// of a Gateway must resolve.
		{table: store.EnvoyFleets, crd: "envoyfleets", versions: ours},
		{table: store.ClusterSets, crd: "clustersets", versions: ours, check: on(checkClusterSet)},
		{table: store.ClusterProperties, crd: "clusterproperties", check: on(checkClusterProperty),
			versions: in(about.Group, "/"+about.Version, "/v1beta1")},
	}
}

var ours = in(v1alpha1.Group, "/"+v1alpha1.Version)

func in(group string, names ...string) (out []version) {
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		out = append(out, version{group + name, nil})
	}
	return out
}

func on[T store.Object](check func(*checks, T)) func(store.Object) []mistake {
	return func(o store.Object) []mistake {
		var c checks
		check(&c, o.(T))
		return c.found
	}
}

type catalog struct {
	byName map[string][]*kind // the kinds with a name; two groups have an InferencePool
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

// of returns the kind of an object, or nil if Penstock does not read the kind.
func (c *catalog) of(ref report.Ref) *kind {
	for _, k := range c.byName[ref.Kind] {
		if k.table.Group() == ref.Group {
			return k
		}
	}
	return nil
}

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

// laterGroups are the API groups whose kinds affect traffic. An object in one of these groups
// causes a warning if Penstock does not read its kind.
var laterGroups = []string{"gateway.networking.k8s.io", "gateway.networking.x-k8s.io", "inference.networking.k8s.io",
	"inference.networking.x-k8s.io", "llm-d.ai", "multicluster.x-k8s.io", v1alpha1.Group}

// laterKinds are kinds in laterGroups that Penstock does not support yet. Any other unknown kind
// may be mistyped.
var laterKinds = []string{"ServiceExport",
	"XBackend", "XBackendTrafficPolicy", "XListenerSet", "XMesh"}
