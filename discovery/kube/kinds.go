package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/status/shape"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
)

type kind struct {
	table    store.Kind
	resource string
	versions []string // versions that the table's Go type can hold, in order of preference
	list     func() runtime.Object
	builtIn  bool // always served; the other kinds have a CRD
	vital    bool // without this kind, Penstock serves no traffic
	assumed  bool // assumed to be installed, without reading its CRD (Config.Only)
	optional bool // for assumed kinds: a forbidden or missing kind counts as empty
	plain    bool // annotations of its objects are dropped
	closes   bool // an undecodable object replaces its previous version
	role     role
	status   *shape.Shape
	trim     func(store.Object)
	reach    reach
	// instead is set for a kind in a former API group. It is the current kind, to which the objects
	// are converted. rivals is set for both kinds, and decides between their objects. Both fields
	// are nil for other kinds.
	instead *kind
	rivals  *rivals
	gate    string                  // for parked and namespaces: the index of demands' keys
	group   func(key string) string // returns the group of a key in gate
}

type role int

const (
	_       role = iota
	isRoute      // its objects name backends
	isBackend
)

func kinds() []*kind {
	pools, formerPools := pools()
	rewrites, formerRewrites := bothGroups[llmd.InferenceModelRewrite](store.InferenceModelRewrites,
		"inferencemodelrewrites", "v1alpha2")
	objectives, formerObjectives := bothGroups[llmd.InferenceObjective](store.InferenceObjectives,
		"inferenceobjectives", "v1alpha2")
	return []*kind{
		vital(custom(store.GatewayClasses, "gatewayclasses", "v1", "v1beta1")),
		vital(custom(store.Gateways, "gateways", "v1", "v1beta1")),
		vital(trimmed(trimHTTPRoute, route(custom(store.HTTPRoutes, "httproutes", "v1", "v1beta1")))),
		route(custom(store.GRPCRoutes, "grpcroutes", "v1", "v1alpha2")),
		route(custom(store.TLSRoutes, "tlsroutes", "v1", "v1alpha3", "v1alpha2")),
		route(custom(store.TCPRoutes, "tcproutes", "v1", "v1alpha2")),
		route(custom(store.UDPRoutes, "udproutes", "v1", "v1alpha2")),
		custom(store.ListenerSets, "listenersets", "v1"),
		custom(store.ReferenceGrants, "referencegrants", "v1beta1", "v1"),
		custom(store.BackendTLSPolicies, "backendtlspolicies", "v1", "v1alpha3"),
		{table: store.Namespaces, resource: "namespaces", versions: []string{"v1"}, list: newList[corev1.NamespaceList],
			builtIn: true, plain: true, trim: trimNamespace},
		{table: store.Services, resource: "services", versions: []string{"v1"}, list: newList[corev1.ServiceList],
			builtIn: true, role: isBackend, trim: trimService},
		backend(custom(store.ServiceImports, "serviceimports", "v1beta1", "v1alpha1")),
		{table: store.EndpointSlices, resource: "endpointslices", versions: []string{"v1"},
			list: newList[discoveryv1.EndpointSliceList], builtIn: true, plain: true,
			trim: trimSlice, reach: parked, gate: store.ByService, group: func(key string) string { return key }},
		{table: store.Pods, resource: "pods", versions: []string{"v1"}, list: newList[corev1.PodList], builtIn: true,
			plain: true,
			trim:  trimPod, reach: namespaces, gate: store.ByLabel,
			group: func(key string) string { ns, _, _ := strings.Cut(key, " "); return ns }},
		{table: store.Secrets, resource: "secrets", versions: []string{"v1"}, list: newList[corev1.SecretList],
			builtIn: true, plain: true, reach: named},
		{table: store.ConfigMaps, resource: "configmaps", versions: []string{"v1"}, list: newList[corev1.ConfigMapList],
			builtIn: true, plain: true, reach: named},
		pools, formerPools,
		custom(store.InferenceModels, "inferencemodels", "v1alpha2"),
		rewrites, formerRewrites,
		objectives, formerObjectives,
		backend(custom(store.InferencePoolImports, "inferencepoolimports", "v1alpha1")),
		custom(store.ModelServers, "modelservers", "v1alpha1"),
		custom(store.ModelDeployments, "modeldeployments", "v1alpha1"),
		custom(store.ModelRegistries, "modelregistries", "v1alpha1"),
		custom(store.PoolPolicies, "poolpolicies", "v1alpha1"),
		closing(custom(store.APIKeys, "apikeys", "v1alpha1")),
		custom(store.AccessPolicies, "accesspolicies", "v1alpha1"),
		custom(store.EnvoyFleets, "envoyfleets", "v1alpha1"),
		custom(store.ClusterSets, "clustersets", "v1alpha1"),
		custom(store.ClusterProperties, "clusterproperties", "v1beta1", "v1alpha1"),
	}
}

func custom[T any, P interface {
	*T
	store.Object
}](table *store.Table[P], resource string, versions ...string) *kind {
	return &kind{table: table, resource: resource, versions: versions, list: newList[list[T]],
		status: shape.ByKind()[table.Kind()]}
}

// closing marks a kind whose objects grant permissions. An undecodable object of this kind grants
// none. Its previous version must not stay in use, because its author may have revoked permissions.
func closing(k *kind) *kind {
	k.closes = true
	return k
}

func backend(k *kind) *kind {
	k.role = isBackend
	return k
}

func route(k *kind) *kind {
	k.role = isRoute
	return k
}

func trimmed(trim func(store.Object), k *kind) *kind {
	k.trim = trim
	return k
}

func vital(k *kind) *kind {
	k.vital = true
	return k
}

func newList[T any, P interface {
	*T
	runtime.Object
}]() runtime.Object {
	return P(new(T))
}

func (k *kind) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.table.Group(), Version: k.versions[0], Kind: k.table.Kind()}
}

func (k *kind) severity() report.Severity {
	if k.vital {
		return report.Error
	}
	return report.Info
}
