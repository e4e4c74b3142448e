package store

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const (
	// ByNamespace indexes objects by namespace.
	ByNamespace = "namespace"
	// ByName indexes pools and imports by name.
	ByName = "name"
	// ByLabel indexes objects by each of their labels, "namespace key=value". A reader of a
	// selector reads the objects with the selector's first label, and compares the others itself.
	ByLabel = "label"
	// ByParent indexes routes and ListenerSets by each parent Gateway, "namespace/name".
	ByParent = "parent"
	// ByRoute indexes routes of any kind by "Kind namespace/name".
	ByRoute = "route"
	// ByBackend indexes routes by each backend, "Kind namespace/name".
	ByBackend = "backend"
	// ByService indexes EndpointSlices by their Service, "namespace/name", and by the
	// ServiceImportKey of their ServiceImport.
	ByService = "service"
	// ByGateway indexes Services by the Gateway whose proxies they expose, "namespace/name". A
	// Service names the Gateway in a well-known label.
	ByGateway = "gateway"
	// ByClass indexes Gateways by the name of their GatewayClass.
	ByClass = "class"
	// ByTarget indexes policies and models by each target, "Kind namespace/name".
	ByTarget = "target"
	// ByTargetKind indexes AccessPolicies by the kind of each target, and by AnyTarget if a target
	// has no name (v1alpha1.ClosedAccessPolicy).
	ByTargetKind = "targetKind"
	AnyTarget    = "*"
	// ByModel indexes InferenceModels and InferenceModelRewrites by the ModelKey of each model.
	ByModel = "model"
	// ByImport indexes Offers by their import, "namespace/name".
	ByImport = "import"
	// ByMention indexes Hosts by name, like ByID. A read of a Host by ByID marks the name as used,
	// so that it is resolved. Readers for which the name need not be resolved, such as reports on
	// names, use ByMention.
	ByMention = "mention"
	// ByAddresses indexes Occupants by lists of addresses (AddressesKey). An Occupant has the key
	// of each list that translation reads and that contains its address. So a read of one key
	// returns the Occupants of many addresses.
	ByAddresses = "addresses"
)

var (
	GatewayClasses = &Table[*gatewayv1.GatewayClass]{
		group: gatewayv1.GroupName, kind: "GatewayClass", clusterWide: true,
	}
	Gateways = table(gatewayv1.GroupName, "Gateway",
		byNamespace[*gatewayv1.Gateway](),
		by(ByClass, func(g *gatewayv1.Gateway) []string { return []string{string(g.Spec.GatewayClassName)} }))
	HTTPRoutes = routes("HTTPRoute",
		func(r *gatewayv1.HTTPRoute) []gatewayv1.ParentReference { return r.Spec.ParentRefs },
		func(r *gatewayv1.HTTPRoute, add func(gatewayv1.BackendRef)) {
			for _, rule := range r.Spec.Rules {
				for _, ref := range rule.BackendRefs {
					add(ref.BackendRef)
				}
			}
		})
	GRPCRoutes = routes("GRPCRoute",
		func(r *gatewayv1.GRPCRoute) []gatewayv1.ParentReference { return r.Spec.ParentRefs },
		func(r *gatewayv1.GRPCRoute, add func(gatewayv1.BackendRef)) {
			for _, rule := range r.Spec.Rules {
				for _, ref := range rule.BackendRefs {
					add(ref.BackendRef)
				}
			}
		})
	TLSRoutes = routes("TLSRoute",
		func(r *gatewayv1.TLSRoute) []gatewayv1.ParentReference { return r.Spec.ParentRefs },
		func(r *gatewayv1.TLSRoute, add func(gatewayv1.BackendRef)) {
			for _, rule := range r.Spec.Rules {
				for _, ref := range rule.BackendRefs {
					add(ref)
				}
			}
		})
	TCPRoutes = routes("TCPRoute",
		func(r *gatewayv1.TCPRoute) []gatewayv1.ParentReference { return r.Spec.ParentRefs },
		func(r *gatewayv1.TCPRoute, add func(gatewayv1.BackendRef)) {
			for _, rule := range r.Spec.Rules {
				for _, ref := range rule.BackendRefs {
					add(ref)
				}
			}
		})
	UDPRoutes = routes("UDPRoute",
		func(r *gatewayv1.UDPRoute) []gatewayv1.ParentReference { return r.Spec.ParentRefs },
		func(r *gatewayv1.UDPRoute, add func(gatewayv1.BackendRef)) {
			for _, rule := range r.Spec.Rules {
				for _, ref := range rule.BackendRefs {
					add(ref)
				}
			}
		})
	ListenerSets = table(gatewayv1.GroupName, "ListenerSet",
		byNamespace[*gatewayv1.ListenerSet](),
		by(ByParent, listenerSetParent))
	ReferenceGrants    = table(gatewayv1.GroupName, "ReferenceGrant", byNamespace[*gatewayv1beta1.ReferenceGrant]())
	BackendTLSPolicies = table(gatewayv1.GroupName, "BackendTLSPolicy",
		by(ByTarget, func(p *gatewayv1.BackendTLSPolicy) (keys []string) {
			for _, t := range p.Spec.TargetRefs {
				keys = append(keys, TargetKey(string(t.Kind), p.Namespace, string(t.Name)))
			}
			return keys
		}))
	Services = table("", "Service",
		byNamespace[*corev1.Service](),
		by(ByGateway, func(s *corev1.Service) []string {
			if gw := s.Labels[gatewayv1.GatewayNameLabelKey]; gw != "" {
				return []string{objectid.Join(s.Namespace, gw)}
			}
			return nil
		}))
	EndpointSlices = table(discoveryv1.GroupName, "EndpointSlice",
		by(ByService, func(s *discoveryv1.EndpointSlice) (keys []string) {
			if svc := s.Labels[discoveryv1.LabelServiceName]; svc != "" {
				keys = append(keys, objectid.Join(s.Namespace, svc))
			}
			if imp := s.Labels[mcsv1beta1.LabelServiceName]; imp != "" {
				keys = append(keys, ServiceImportKey(s.Namespace, imp))
			}
			return keys
		}))
	ServiceImports = table(mcsv1beta1.GroupName, mcsv1beta1.ServiceImportKindName,
		byNamespace[*mcsv1beta1.ServiceImport]())
	Pods = table("", "Pod",
		byNamespace[*corev1.Pod](),
		by(ByLabel, func(p *corev1.Pod) []string { return labelKeys(p.Namespace, p.Labels) }))
	Secrets    = table("", "Secret", byNamespace[*corev1.Secret]())
	ConfigMaps = table("", "ConfigMap", byNamespace[*corev1.ConfigMap]())
	Namespaces = &Table[*corev1.Namespace]{kind: "Namespace", clusterWide: true}

	InferencePools = table(inferencev1.GroupVersion.Group, "InferencePool",
		byNamespace[*inferencev1.InferencePool](), byName[*inferencev1.InferencePool]())
	InferenceModels = table(inferenceapi.Group, "InferenceModel",
		by(ByTarget, func(m *inferenceapi.InferenceModel) []string {
			return []string{TargetKey("InferencePool", m.Namespace, m.Spec.PoolRef.Name)}
		}),
		by(ByModel, func(m *inferenceapi.InferenceModel) []string {
			return []string{ModelKey(m.Namespace, m.Spec.PoolRef.Name, m.Spec.ModelName)}
		}))
	InferenceModelRewrites = table(llmd.Group, "InferenceModelRewrite",
		by(ByTarget, func(m *llmd.InferenceModelRewrite) []string {
			if m.Spec.PoolRef == nil {
				return nil
			}
			return []string{TargetKey("InferencePool", m.Namespace, m.Spec.PoolRef.Name)}
		}),
		by(ByModel, rewrittenModels))
	InferenceObjectives = table(llmd.Group, "InferenceObjective",
		by(ByTarget, func(o *llmd.InferenceObjective) []string {
			return []string{TargetKey("InferencePool", o.Namespace, o.Spec.PoolRef.Name)}
		}))
	InferencePoolImports = table(inferenceapi.Group, "InferencePoolImport",
		byNamespace[*inferenceapi.InferencePoolImport](), byName[*inferenceapi.InferencePoolImport]())

	ModelServers = table(v1alpha1.Group, "ModelServers",
		byNamespace[*v1alpha1.ModelServers](),
		by(ByLabel, modelServerLabels))
	PoolPolicies = table(v1alpha1.Group, "PoolPolicy",
		byNamespace[*v1alpha1.PoolPolicy](),
		by(ByTarget, func(p *v1alpha1.PoolPolicy) []string {
			if p.Spec.TargetRef.Name == "" {
				return nil // this policy applies only to routes
			}
			kind := p.Spec.TargetRef.Kind
			if kind == "" {
				kind = "InferencePool"
			}
			return []string{TargetKey(kind, p.Namespace, p.Spec.TargetRef.Name)}
		}))
	// Engines has users' Engine objects. The built-in Engines are in discovery/engine/catalog.
	Engines = &Table[*v1alpha1.Engine]{group: v1alpha1.Group, kind: "Engine", clusterWide: true}

	ModelRegistries  = table[*v1alpha1.ModelRegistry](v1alpha1.Group, "ModelRegistry")
	ModelDeployments = table[*v1alpha1.ModelDeployment](v1alpha1.Group, "ModelDeployment")

	APIKeys        = &Table[*v1alpha1.APIKey]{group: v1alpha1.Group, kind: "APIKey", packed: packKeys, exact: true}
	AccessPolicies = &Table[*v1alpha1.AccessPolicy]{group: v1alpha1.Group, kind: "AccessPolicy", exact: true,
		indexes: []Index[*v1alpha1.AccessPolicy]{
			byNamespace[*v1alpha1.AccessPolicy](),
			{ByTarget, func(p *v1alpha1.AccessPolicy) (keys []string) {
				for _, t := range p.Spec.TargetRefs {
					keys = append(keys, TargetKey(t.Kind, p.Namespace, t.Name))
				}
				for _, t := range p.Spec.Former {
					keys = append(keys, TargetKey(t.Kind, t.Namespace, t.Name))
				}
				return keys
			}},
			{ByTargetKind, func(p *v1alpha1.AccessPolicy) (keys []string) {
				for _, t := range p.Spec.TargetRefs {
					if keys = append(keys, t.Kind); t.Name == "" {
						keys = append(keys, AnyTarget)
					}
				}
				for _, t := range p.Spec.Former {
					keys = append(keys, t.Kind)
				}
				return keys
			}},
		}}
	EndpointPickerConfigs = table(endpointpicker.Group, endpointpicker.Kind,
		byNamespace[*endpointpicker.EndpointPickerConfig]())
	EnvoyFleets = table(v1alpha1.Group, "EnvoyFleet", byNamespace[*v1alpha1.EnvoyFleet]())

	ClusterSets = &Table[*v1alpha1.ClusterSet]{group: v1alpha1.Group, kind: "ClusterSet", clusterWide: true}

	ClusterProperties = &Table[*about.ClusterProperty]{group: about.Group, kind: "ClusterProperty", clusterWide: true}

	Hosts = &Table[*Host]{group: v1alpha1.Group, kind: "Host", clusterWide: true, indexes: []Index[*Host]{
		{ByMention, func(h *Host) []string { return []string{h.Name} }},
	}}
	Invalids         = &Table[*Invalid]{group: v1alpha1.Group, kind: "Invalid"}
	LearnedEndpoints = &Table[*Learned]{group: v1alpha1.Group, kind: "Learned"}
	Offers           = table(v1alpha1.Group, "Offer",
		by(ByImport, func(o *Offer) []string { return []string{objectid.Join(o.Namespace, o.Import)} }))
	Failbacks         = &Table[*Failback]{group: v1alpha1.Group, kind: "Failback"}
	Dialects          = &Table[*Dialect]{group: v1alpha1.Group, kind: "Dialect", clusterWide: true}
	Authorities       = &Table[*Authority]{group: v1alpha1.Group, kind: "Authority", clusterWide: true}
	Memberships       = &Table[*Membership]{group: v1alpha1.Group, kind: "Membership", clusterWide: true}
	Exports           = &Table[*Export]{group: v1alpha1.Group, kind: "Export"}
	AddressPolicies   = &Table[*AddressPolicy]{group: v1alpha1.Group, kind: "AddressPolicy", clusterWide: true}
	ProcessorDefaults = &Table[*ProcessorDefault]{group: v1alpha1.Group, kind: "ProcessorDefault", clusterWide: true}
	Occupants         = &Table[*Occupant]{group: v1alpha1.Group, kind: "Occupant", clusterWide: true,
		indexes: []Index[*Occupant]{
			{ByAddresses, func(o *Occupant) []string { return o.Lists }},
		}}
)

func table[T Object](group, kind string, indexes ...Index[T]) *Table[T] {
	return &Table[T]{group: group, kind: kind, indexes: indexes}
}

// by returns the index with a name. keys returns an object's keys.
func by[T Object](name string, keys func(T) []string) Index[T] { return Index[T]{name, keys} }

func routes[T Object](kind string, parents func(T) []gatewayv1.ParentReference,
	backends func(route T, add func(gatewayv1.BackendRef))) *Table[T] {
	return &Table[T]{group: gatewayv1.GroupName, kind: kind, indexes: []Index[T]{
		{ByRoute, func(r T) []string { return []string{TargetKey(kind, r.GetNamespace(), r.GetName())} }},
		{ByParent, func(r T) []string { return gatewayParents(r.GetNamespace(), parents(r)) }},
		{ByBackend, func(r T) []string {
			b := backendKeys{namespace: r.GetNamespace()}
			backends(r, b.add)
			return b.keys
		}},
	}}
}

func byNamespace[T Object]() Index[T] {
	return by(ByNamespace, func(o T) []string { return []string{o.GetNamespace()} })
}

func byName[T Object]() Index[T] {
	return by(ByName, func(o T) []string { return []string{o.GetName()} })
}

// Tables lists all tables.
func Tables() []Kind {
	return []Kind{
		GatewayClasses, Gateways, ListenerSets, HTTPRoutes, GRPCRoutes, TLSRoutes, TCPRoutes, UDPRoutes,
		ReferenceGrants,
		BackendTLSPolicies, Namespaces,
		Services, ServiceImports, EndpointSlices, Pods, Secrets, ConfigMaps,
		InferencePools, InferenceModels, InferenceModelRewrites, InferenceObjectives, InferencePoolImports,
		ModelServers, Engines, ModelRegistries, ModelDeployments, PoolPolicies, APIKeys, AccessPolicies,
		EndpointPickerConfigs, EnvoyFleets, ClusterSets, ClusterProperties,
		Hosts, Invalids, LearnedEndpoints, Offers, Failbacks, Dialects, Authorities, Memberships, Exports,
		AddressPolicies, ProcessorDefaults, Occupants,
	}
}

// Generated reports whether Kubernetes made an EndpointSlice, for a Service with a selector.
// Kubernetes overwrites a user's changes to it.
func Generated(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == SliceController
}

// SliceController is the value of the label LabelManagedBy on Generated EndpointSlices.
const SliceController = "endpointslice-controller.k8s.io"

// TargetKey returns a key of ByTarget, ByBackend and ByRoute.
func TargetKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// TargetOf returns the TargetKey of an object.
func TargetOf(r report.Ref) string { return TargetKey(r.Kind, r.Namespace, r.Name) }

// ServiceImportKey returns a key of ByService for a ServiceImport (KEP-1645).
func ServiceImportKey(namespace, name string) string { return "import " + namespace + "/" + name }

// ModelKey returns a key of ByModel for a model name in requests to a pool.
func ModelKey(namespace, pool, model string) string { return namespace + "/" + pool + " " + model }

// ParseTargetKey reverses TargetKey. id is the primary key.
func ParseTargetKey(key string) (kind, id string) {
	kind, id, _ = strings.Cut(key, " ")
	return kind, id
}

// LabelKey returns a key of ByLabel.
func LabelKey(namespace, label, value string) string { return namespace + " " + label + "=" + value }

func labelKeys(namespace string, labels map[string]string) []string {
	keys := make([]string, 0, len(labels))
	for _, l := range slices.Sorted(maps.Keys(labels)) {
		keys = append(keys, LabelKey(namespace, l, labels[l]))
	}
	return keys
}

func modelServerLabels(m *v1alpha1.ModelServers) []string {
	keys := labelKeys(m.Namespace, m.Labels)
	for _, s := range m.Spec.Servers {
		for _, k := range labelKeys(m.Namespace, s.Labels) {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}
