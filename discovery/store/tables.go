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
	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Names of indexes, with the form of their keys.
const (
	// ByNamespace has the object's namespace.
	ByNamespace = "namespace"
	// ByName has the object's name alone, for pools and imports.
	ByName = "name"
	// ByLabel has "namespace key=value" for each label. A selector's first pair finds a few
	// candidates.
	ByLabel = "label"
	// ByParent has "namespace/name" of each Gateway that a route or ListenerSet names as its
	// parent.
	ByParent = "parent"
	// ByRoute has "Kind namespace/name" of the route itself: the same form for routes of all kinds.
	ByRoute = "route"
	// ByBackend has "Kind namespace/name" of each backend that a route names.
	ByBackend = "backend"
	// ByService has "namespace/name" of the Service that an EndpointSlice belongs to, and the
	// ServiceImportKey of its ServiceImport.
	ByService = "service"
	// ByGateway has "namespace/name" of the Gateway whose proxies a Service exposes, from its
	// well-known label.
	ByGateway = "gateway"
	// ByClass has the name of the GatewayClass that a Gateway names.
	ByClass = "class"
	// ByTarget has "Kind namespace/name" of the target of a policy or model.
	ByTarget = "target"
	// ByModel has a ModelKey for each model that an InferenceModel or InferenceModelRewrite names;
	// with the model "" for one with a rule for all models.
	ByModel = "model"
	// ByImport has "namespace/name" of the import that an Offer is for.
	ByImport = "import"
	// ByMention has the name of a Host, as ByID has. To read a Host by its ID makes its name used,
	// so that it is resolved; reports about names that no traffic uses read by this index.
	ByMention = "mention"
	// ByAddresses has lists of addresses, as AddressesKey returns them, with the address of an
	// Occupant among them. Who judges many addresses reads their occupants by one key.
	ByAddresses = "addresses"
)

// The tables, one for each kind.
var (
	GatewayClasses = &Table[*gatewayv1.GatewayClass]{
		group: gatewayv1.GroupName, kind: "GatewayClass", clusterWide: true,
	}
	Gateways = &Table[*gatewayv1.Gateway]{group: gatewayv1.GroupName, kind: "Gateway",
		indexes: []Index[*gatewayv1.Gateway]{
			{ByNamespace, func(o *gatewayv1.Gateway) []string { return []string{o.Namespace} }},
			{ByClass, func(g *gatewayv1.Gateway) []string { return []string{string(g.Spec.GatewayClassName)} }},
		}}
	HTTPRoutes = &Table[*gatewayv1.HTTPRoute]{group: gatewayv1.GroupName, kind: "HTTPRoute",
		indexes: []Index[*gatewayv1.HTTPRoute]{
			{ByRoute, func(r *gatewayv1.HTTPRoute) []string {
				return []string{TargetKey("HTTPRoute", r.Namespace, r.Name)}
			}},
			{ByParent, func(r *gatewayv1.HTTPRoute) []string { return gatewayParents(r.Namespace, r.Spec.ParentRefs) }},
			{ByBackend, httpRouteBackends},
		}}
	GRPCRoutes = &Table[*gatewayv1.GRPCRoute]{group: gatewayv1.GroupName, kind: "GRPCRoute",
		indexes: []Index[*gatewayv1.GRPCRoute]{
			{ByRoute, func(r *gatewayv1.GRPCRoute) []string {
				return []string{TargetKey("GRPCRoute", r.Namespace, r.Name)}
			}},
			{ByParent, func(r *gatewayv1.GRPCRoute) []string { return gatewayParents(r.Namespace, r.Spec.ParentRefs) }},
			{ByBackend, grpcRouteBackends},
		}}
	TLSRoutes = &Table[*gatewayv1.TLSRoute]{group: gatewayv1.GroupName, kind: "TLSRoute",
		indexes: []Index[*gatewayv1.TLSRoute]{
			{ByRoute, func(r *gatewayv1.TLSRoute) []string {
				return []string{TargetKey("TLSRoute", r.Namespace, r.Name)}
			}},
			{ByParent, func(r *gatewayv1.TLSRoute) []string { return gatewayParents(r.Namespace, r.Spec.ParentRefs) }},
			{ByBackend, tlsRouteBackends},
		}}
	TCPRoutes = &Table[*gatewayv1.TCPRoute]{group: gatewayv1.GroupName, kind: "TCPRoute",
		indexes: []Index[*gatewayv1.TCPRoute]{
			{ByRoute, func(r *gatewayv1.TCPRoute) []string {
				return []string{TargetKey("TCPRoute", r.Namespace, r.Name)}
			}},
			{ByParent, func(r *gatewayv1.TCPRoute) []string { return gatewayParents(r.Namespace, r.Spec.ParentRefs) }},
			{ByBackend, tcpRouteBackends},
		}}
	UDPRoutes = &Table[*gatewayv1.UDPRoute]{group: gatewayv1.GroupName, kind: "UDPRoute",
		indexes: []Index[*gatewayv1.UDPRoute]{
			{ByRoute, func(r *gatewayv1.UDPRoute) []string {
				return []string{TargetKey("UDPRoute", r.Namespace, r.Name)}
			}},
			{ByParent, func(r *gatewayv1.UDPRoute) []string { return gatewayParents(r.Namespace, r.Spec.ParentRefs) }},
			{ByBackend, udpRouteBackends},
		}}
	ListenerSets = &Table[*gatewayv1.ListenerSet]{group: gatewayv1.GroupName, kind: "ListenerSet",
		indexes: []Index[*gatewayv1.ListenerSet]{
			{ByNamespace, func(o *gatewayv1.ListenerSet) []string { return []string{o.Namespace} }},
			{ByParent, listenerSetParent},
		}}
	ReferenceGrants = &Table[*gatewayv1beta1.ReferenceGrant]{group: gatewayv1.GroupName, kind: "ReferenceGrant",
		indexes: []Index[*gatewayv1beta1.ReferenceGrant]{
			{ByNamespace, func(g *gatewayv1beta1.ReferenceGrant) []string { return []string{g.Namespace} }},
		}}
	BackendTLSPolicies = &Table[*gatewayv1.BackendTLSPolicy]{group: gatewayv1.GroupName, kind: "BackendTLSPolicy",
		indexes: []Index[*gatewayv1.BackendTLSPolicy]{
			{ByTarget, func(p *gatewayv1.BackendTLSPolicy) (keys []string) {
				for _, t := range p.Spec.TargetRefs {
					keys = append(keys, TargetKey(string(t.Kind), p.Namespace, string(t.Name)))
				}
				return keys
			}},
		}}
	Services = &Table[*corev1.Service]{kind: "Service", indexes: []Index[*corev1.Service]{
		{ByNamespace, func(o *corev1.Service) []string { return []string{o.Namespace} }},
		{ByGateway, func(s *corev1.Service) []string {
			if gw := s.Labels[gatewayv1.GatewayNameLabelKey]; gw != "" {
				return []string{objectid.Join(s.Namespace, gw)}
			}
			return nil
		}},
	}}
	EndpointSlices = &Table[*discoveryv1.EndpointSlice]{group: discoveryv1.GroupName, kind: "EndpointSlice",
		indexes: []Index[*discoveryv1.EndpointSlice]{
			{ByService, func(s *discoveryv1.EndpointSlice) (keys []string) {
				if svc := s.Labels[discoveryv1.LabelServiceName]; svc != "" {
					keys = append(keys, objectid.Join(s.Namespace, svc))
				}
				if imp := s.Labels[mcsv1beta1.LabelServiceName]; imp != "" {
					keys = append(keys, ServiceImportKey(s.Namespace, imp))
				}
				return keys
			}},
		}}
	ServiceImports = &Table[*mcsv1beta1.ServiceImport]{group: mcsv1beta1.GroupName,
		kind: mcsv1beta1.ServiceImportKindName, indexes: []Index[*mcsv1beta1.ServiceImport]{
			{ByNamespace, func(o *mcsv1beta1.ServiceImport) []string { return []string{o.Namespace} }},
		}}
	Pods = &Table[*corev1.Pod]{kind: "Pod", indexes: []Index[*corev1.Pod]{
		{ByNamespace, func(p *corev1.Pod) []string { return []string{p.Namespace} }},
		{ByLabel, func(p *corev1.Pod) []string { return labelKeys(p.Namespace, p.Labels) }},
	}}
	Secrets = &Table[*corev1.Secret]{kind: "Secret", indexes: []Index[*corev1.Secret]{
		{ByNamespace, func(o *corev1.Secret) []string { return []string{o.Namespace} }},
	}}
	ConfigMaps = &Table[*corev1.ConfigMap]{kind: "ConfigMap", indexes: []Index[*corev1.ConfigMap]{
		{ByNamespace, func(o *corev1.ConfigMap) []string { return []string{o.Namespace} }},
	}}
	Namespaces = &Table[*corev1.Namespace]{kind: "Namespace", clusterWide: true}

	InferencePools = &Table[*inferencev1.InferencePool]{group: inferencev1.GroupVersion.Group, kind: "InferencePool",
		indexes: []Index[*inferencev1.InferencePool]{
			{ByNamespace, func(o *inferencev1.InferencePool) []string { return []string{o.Namespace} }},
			{ByName, func(o *inferencev1.InferencePool) []string { return []string{o.Name} }},
		}}
	InferenceModels = &Table[*inferenceapi.InferenceModel]{group: inferenceapi.Group, kind: "InferenceModel",
		indexes: []Index[*inferenceapi.InferenceModel]{
			{ByTarget, func(m *inferenceapi.InferenceModel) []string {
				return []string{TargetKey("InferencePool", m.Namespace, m.Spec.PoolRef.Name)}
			}},
			{ByModel, func(m *inferenceapi.InferenceModel) []string {
				return []string{ModelKey(m.Namespace, m.Spec.PoolRef.Name, m.Spec.ModelName)}
			}},
		}}
	InferenceModelRewrites = &Table[*llmd.InferenceModelRewrite]{group: llmd.Group, kind: "InferenceModelRewrite",
		indexes: []Index[*llmd.InferenceModelRewrite]{
			{ByTarget, func(m *llmd.InferenceModelRewrite) []string {
				if m.Spec.PoolRef == nil {
					return nil
				}
				return []string{TargetKey("InferencePool", m.Namespace, m.Spec.PoolRef.Name)}
			}},
			{ByModel, rewrittenModels},
		}}
	InferenceObjectives = &Table[*llmd.InferenceObjective]{group: llmd.Group, kind: "InferenceObjective",
		indexes: []Index[*llmd.InferenceObjective]{
			{ByTarget, func(o *llmd.InferenceObjective) []string {
				return []string{TargetKey("InferencePool", o.Namespace, o.Spec.PoolRef.Name)}
			}},
		}}
	InferencePoolImports = &Table[*inferenceapi.InferencePoolImport]{group: inferenceapi.Group,
		kind: "InferencePoolImport", indexes: []Index[*inferenceapi.InferencePoolImport]{
			{ByNamespace, func(o *inferenceapi.InferencePoolImport) []string { return []string{o.Namespace} }},
			{ByName, func(o *inferenceapi.InferencePoolImport) []string { return []string{o.Name} }},
		}}

	ModelServers = &Table[*v1alpha1.ModelServers]{group: v1alpha1.Group, kind: "ModelServers",
		indexes: []Index[*v1alpha1.ModelServers]{
			{ByNamespace, func(m *v1alpha1.ModelServers) []string { return []string{m.Namespace} }},
			{ByLabel, modelServerLabels},
		}}
	PoolPolicies = &Table[*v1alpha1.PoolPolicy]{group: v1alpha1.Group, kind: "PoolPolicy",
		indexes: []Index[*v1alpha1.PoolPolicy]{
			{ByNamespace, func(o *v1alpha1.PoolPolicy) []string { return []string{o.Namespace} }},
			{ByTarget, func(p *v1alpha1.PoolPolicy) []string {
				if p.Spec.TargetRef.Name == "" {
					return nil // for routes alone
				}
				kind := p.Spec.TargetRef.Kind
				if kind == "" {
					kind = "InferencePool"
				}
				return []string{TargetKey(kind, p.Namespace, p.Spec.TargetRef.Name)}
			}},
		}}
	EndpointPickerConfigs = &Table[*endpointpicker.EndpointPickerConfig]{group: endpointpicker.Group,
		kind: endpointpicker.Kind, indexes: []Index[*endpointpicker.EndpointPickerConfig]{
			{ByNamespace, func(o *endpointpicker.EndpointPickerConfig) []string { return []string{o.Namespace} }},
		}}
	EnvoyFleets = &Table[*v1alpha1.EnvoyFleet]{group: v1alpha1.Group, kind: "EnvoyFleet",
		indexes: []Index[*v1alpha1.EnvoyFleet]{
			{ByNamespace, func(o *v1alpha1.EnvoyFleet) []string { return []string{o.Namespace} }},
		}}

	ClusterSets = &Table[*v1alpha1.ClusterSet]{group: v1alpha1.Group, kind: "ClusterSet", clusterWide: true}

	ClusterProperties = &Table[*about.ClusterProperty]{group: about.Group, kind: "ClusterProperty", clusterWide: true}

	Hosts = &Table[*Host]{group: v1alpha1.Group, kind: "Host", clusterWide: true, indexes: []Index[*Host]{
		{ByMention, func(h *Host) []string { return []string{h.Name} }},
	}}
	Invalids         = &Table[*Invalid]{group: v1alpha1.Group, kind: "Invalid"}
	LearnedEndpoints = &Table[*Learned]{group: v1alpha1.Group, kind: "Learned"}
	Offers           = &Table[*Offer]{group: v1alpha1.Group, kind: "Offer", indexes: []Index[*Offer]{
		{ByImport, func(o *Offer) []string { return []string{objectid.Join(o.Namespace, o.Import)} }},
	}}
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

// Tables lists all tables.
func Tables() []Kind {
	return []Kind{
		GatewayClasses, Gateways, ListenerSets, HTTPRoutes, GRPCRoutes, TLSRoutes, TCPRoutes, UDPRoutes,
		ReferenceGrants,
		BackendTLSPolicies, Namespaces,
		Services, ServiceImports, EndpointSlices, Pods, Secrets, ConfigMaps,
		InferencePools, InferenceModels, InferenceModelRewrites, InferenceObjectives, InferencePoolImports,
		ModelServers, PoolPolicies, EndpointPickerConfigs, EnvoyFleets, ClusterSets, ClusterProperties,
		Hosts, Invalids, LearnedEndpoints, Offers, Failbacks, Dialects, Authorities, Memberships, Exports,
		AddressPolicies, ProcessorDefaults, Occupants,
	}
}

// Generated reports whether an EndpointSlice bears the mark of the controller that makes those of
// Services with a selector. That controller soon takes back what another user writes into such a
// slice; it ignores Services without a selector.
func Generated(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == SliceController
}

// SliceController is the value of the label LabelManagedBy on the EndpointSlices that Kubernetes
// makes for selectors.
const SliceController = "endpointslice-controller.k8s.io"

// TargetKey returns a key of ByTarget, ByBackend and ByRoute.
func TargetKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// ServiceImportKey returns the key in ByService of the EndpointSlices of a ServiceImport
// (KEP-1645).
func ServiceImportKey(namespace, name string) string { return "import " + namespace + "/" + name }

// ModelKey returns a key of ByModel: of a model that requests to a pool name.
func ModelKey(namespace, pool, model string) string { return namespace + "/" + pool + " " + model }

// ParseTargetKey splits a key of ByTarget, ByBackend or ByRoute into the kind and the primary key
// of an object.
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
