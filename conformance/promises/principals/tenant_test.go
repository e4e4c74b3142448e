package principals

import (
	"slices"
	"testing"
)

// tenant is an author in one namespace. It has Kubernetes' role edit, extended to the kinds of
// CRDs.
var tenant = principal{"tenant", func(t testing.TB) []field {
	tables := kinds(t, tenantWrites, tenantLeaves)
	return fieldsOf(t, tables, walker{classes: tenantClasses, unread: slices.Concat(metadata, tenantUnread)})
}}

var tenantWrites = []string{
	"ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "ReferenceGrant", "BackendTLSPolicy",
	"Service", "ServiceImport", "EndpointSlice", "Pod", "Secret", "ConfigMap", "InferencePool", "InferenceModel",
	"InferenceModelRewrite", "InferenceObjective", "ModelServers", "PoolPolicy", "EndpointPickerConfig",
	"APIKey", "AccessPolicy",
}

const (
	platform = "the platform's owner writes it, who is trusted with all traffic of its Gateways"
	internal = "no object: Penstock makes it"
)

var tenantLeaves = map[string]string{
	"GatewayClass": platform, "Gateway": platform, "EnvoyFleet": platform, "Namespace": platform,
	"ClusterSet":          platform,
	"ClusterProperty":     platform,
	"Engine":              platform,
	"ModelRegistry":       "in a cluster, it is reported as not supported and has no other effect",
	"ModelDeployment":     "in a cluster, it is reported as not supported and has no other effect",
	"InferencePoolImport": "the hub writes its status, and its spec is empty",
	"Host":                internal, "Learned": internal, "Offer": internal, "Failback": internal, "Dialect": internal,
	"Authority": internal, "Membership": internal, "Export": internal, "AddressPolicy": internal,
	"ProcessorDefault": internal, "Occupant": internal, "Invalid": internal,
}

var metadata = []unread{
	{"*.apiVersion", "it names the type, and another one is another cell"},
	{"*.kind", "it names the type, and another one is another cell"},
	{"*.metadata.namespace", "RBAC binds an author to namespaces"},
	{"*.metadata.generateName", "the API server makes a name of it"},
	{"*.metadata.selfLink", "the API server writes it"},
	{"*.metadata.uid", "the API server writes it"},
	{"*.metadata.resourceVersion", "the API server writes it"},
	{"*.metadata.generation", "the API server writes it"},
	{"*.metadata.creationTimestamp", "the API server writes it"},
	{"*.metadata.deletionTimestamp", "the API server writes it"},
	{"*.metadata.deletionGracePeriodSeconds", "the API server writes it"},
	{"*.metadata.ownerReferences", "Penstock drops it"},
	{"*.metadata.finalizers", "Penstock drops it"},
	{"*.metadata.managedFields", "the API server writes it"},
}

const (
	routeController = "a controller's status, which Penstock writes and does not read"
	notOfServices   = "it is for proxies of Kubernetes' Services, and Penstock sends requests to endpoints"
	notOfSlices     = "Penstock drops it"
	notOfPods       = "Penstock drops it"
)

var tenantUnread = []unread{
	{"ListenerSet.status", routeController},
	{"HTTPRoute.status", routeController},
	{"GRPCRoute.status", routeController},
	{"TLSRoute.status", routeController},
	{"TCPRoute.status", routeController},
	{"UDPRoute.status", routeController},
	{"BackendTLSPolicy.status", routeController},
	{"Service.status", "edit does not write it"},
	{"ServiceImport.status", "edit does not write it"},
	{"InferencePool.status", routeController},
	{"InferenceModel.status", routeController},
	{"InferenceModelRewrite.status", routeController},
	{"InferenceObjective.status", routeController},
	{"ModelServers.status", routeController},
	{"PoolPolicy.status", routeController},
	{"AccessPolicy.status", routeController},
	{"Service.spec.sessionAffinity", notOfServices},
	{"Service.spec.sessionAffinityConfig", notOfServices},
	{"Service.spec.loadBalancerIP", notOfServices},
	{"Service.spec.loadBalancerSourceRanges", notOfServices},
	{"Service.spec.externalTrafficPolicy", notOfServices},
	{"Service.spec.healthCheckNodePort", notOfServices},
	{"Service.spec.publishNotReadyAddresses", notOfServices},
	{"Service.spec.ipFamilies", notOfServices},
	{"Service.spec.ipFamilyPolicy", notOfServices},
	{"Service.spec.allocateLoadBalancerNodePorts", notOfServices},
	{"Service.spec.loadBalancerClass", notOfServices},
	{"Service.spec.internalTrafficPolicy", notOfServices},
	{"Service.spec.trafficDistribution", notOfServices},
	{"ServiceImport.spec.sessionAffinity", notOfServices},
	{"ServiceImport.spec.sessionAffinityConfig", notOfServices},
	{"ServiceImport.spec.ipFamilies", notOfServices},
	{"ServiceImport.spec.internalTrafficPolicy", notOfServices},
	{"ServiceImport.spec.trafficDistribution", notOfServices},
	{"EndpointSlice.endpoints[].hostname", notOfSlices},
	{"EndpointSlice.endpoints[].targetRef", notOfSlices},
	{"EndpointSlice.endpoints[].deprecatedTopology", notOfSlices},
	{"EndpointSlice.endpoints[].zone", notOfSlices},
	{"EndpointSlice.endpoints[].hints", notOfSlices},
	{"Pod.spec", notOfPods},
	{"Pod.status.observedGeneration", notOfPods},
	{"Pod.status.message", notOfPods},
	{"Pod.status.reason", notOfPods},
	{"Pod.status.nominatedNodeName", notOfPods},
	{"Pod.status.hostIPs", notOfPods},
	{"Pod.status.startTime", notOfPods},
	{"Pod.status.initContainerStatuses", notOfPods},
	{"Pod.status.containerStatuses", notOfPods},
	{"Pod.status.qosClass", notOfPods},
	{"Pod.status.ephemeralContainerStatuses", notOfPods},
	{"Pod.status.resize", notOfPods},
	{"Pod.status.resourceClaimStatuses", notOfPods},
	{"Pod.status.extendedResourceClaimStatus", notOfPods},
	{"Pod.status.allocatedResources", notOfPods},
	{"Pod.status.resources", notOfPods},
	{"Pod.status.nodeAllocatableResourceClaimStatuses", notOfPods},
	{"Pod.status.conditions[].observedGeneration", notOfPods},
	{"Pod.status.conditions[].lastProbeTime", notOfPods},
	{"Pod.status.conditions[].lastTransitionTime", notOfPods},
	{"Pod.status.conditions[].reason", notOfPods},
	{"Pod.status.conditions[].message", notOfPods},
}

var tenantClasses = map[string]class{
	"name": name, "namespace": namespace, "sectionName": name, "hostname": host, "hostnames[]": host,
	"externalName": host,
	"pluginRef":    name, "address": address, "addresses[]": address, "podIP": address, "hostIP": address,
	"ip":    address,
	"ips[]": address, "clusterIP": address, "clusterIPs[]": address, "externalIPs[]": address, "podCIDRs[]": address,
	"labels[]": label, "matchLabels[]": label, "EndpointSlice.metadata.labels[]": name, "clusters[]": name,
	"order[]": name, "modelName": name, "modelRewrite": name,
	"addressType": choice, "protocol": choice, "PoolPolicy.spec.picker.processor.service": name, "nodeName": name,
	"cookieName": name, "sessionName": name,
}

func TestPrincipals_TenantChangesNoOtherRequests(t *testing.T) {
	r := begin(t, start(t, nil), tenant)
	r.apply("tenant", kinds(t, tenantWrites, tenantLeaves))
	r.end()
}
