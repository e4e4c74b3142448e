package store

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// ofKubernetes decides which fields of Kubernetes' kinds pages show. Of a Pod, it shows only the
// fields that discovery/kube keeps, because others contain environment variables and arguments.
var ofKubernetes = []decision{
	decide[metav1.TypeMeta](shown("Kind APIVersion")),
	decide[metav1.ObjectMeta](shown("SelfLink UID ResourceVersion Generation CreationTimestamp DeletionTimestamp "+
		"DeletionGracePeriodSeconds Labels OwnerReferences Finalizers"), names("Name GenerateName Namespace"),
		annotations("Annotations"), omit("ManagedFields")),
	decide[metav1.OwnerReference](shown("APIVersion Kind UID Controller BlockOwnerDeletion"), names("Name")),
	decide[metav1.Condition](shown("Type Status ObservedGeneration LastTransitionTime Reason Message")),
	decide[metav1.LabelSelector](shown("MatchLabels MatchExpressions")),
	decide[metav1.LabelSelectorRequirement](shown("Key Operator Values")),
	decide[corev1.Namespace](object("Spec Status")),
	decide[corev1.NamespaceSpec](shown("Finalizers")),
	decide[corev1.NamespaceStatus](shown("Phase Conditions")),
	decide[corev1.NamespaceCondition](shown("Type Status LastTransitionTime Reason Message")),
	decide[corev1.Service](object("Spec Status")),
	decide[corev1.ServiceSpec](shown("Ports Selector ClusterIP ClusterIPs Type ExternalIPs SessionAffinity " +
		"LoadBalancerIP LoadBalancerSourceRanges ExternalName ExternalTrafficPolicy HealthCheckNodePort " +
		"PublishNotReadyAddresses SessionAffinityConfig IPFamilies IPFamilyPolicy AllocateLoadBalancerNodePorts " +
		"LoadBalancerClass InternalTrafficPolicy TrafficDistribution")),
	decide[corev1.ServicePort](shown("Name Protocol AppProtocol Port TargetPort NodePort")),
	decide[corev1.SessionAffinityConfig](shown("ClientIP")),
	decide[corev1.ClientIPConfig](shown("TimeoutSeconds")),
	decide[corev1.ServiceStatus](shown("LoadBalancer Conditions")),
	decide[corev1.LoadBalancerStatus](shown("Ingress")),
	decide[corev1.LoadBalancerIngress](shown("IP Hostname IPMode Ports")),
	decide[corev1.PortStatus](shown("Port Protocol Error")),
	decide[mcsv1beta1.ServiceImport](object("Spec Status")),
	decide[mcsv1beta1.ServiceImportSpec](shown("Ports IPs Type SessionAffinity SessionAffinityConfig IPFamilies " +
		"InternalTrafficPolicy TrafficDistribution")),
	decide[mcsv1beta1.ServicePort](shown("Name Protocol AppProtocol Port")),
	decide[mcsv1beta1.ServiceImportStatus](shown("EndpointSliceObjects Clusters Conditions")),
	decide[mcsv1beta1.ClusterStatus](shown("Cluster")),
	decide[discoveryv1.EndpointSlice](object("AddressType Endpoints Ports")),
	decide[discoveryv1.Endpoint](shown("Addresses Conditions Hostname TargetRef DeprecatedTopology NodeName Zone " +
		"Hints")),
	decide[discoveryv1.EndpointConditions](shown("Ready Serving Terminating")),
	decide[corev1.ObjectReference](shown("Kind UID APIVersion ResourceVersion FieldPath"), names("Namespace Name")),
	decide[discoveryv1.EndpointHints](shown("ForZones ForNodes")),
	decide[discoveryv1.ForZone](shown("Name")),
	decide[discoveryv1.ForNode](shown("Name")),
	decide[discoveryv1.EndpointPort](shown("Name Protocol Port AppProtocol")),
	decide[corev1.Pod](object("Status"), omit("Spec")),
	decide[corev1.PodStatus](shown("Phase Conditions HostIP PodIP PodIPs"), omit("ObservedGeneration Message "+
		"Reason NominatedNodeName HostIPs StartTime InitContainerStatuses ContainerStatuses QOSClass "+
		"EphemeralContainerStatuses Resize ResourceClaimStatuses ExtendedResourceClaimStatus AllocatedResources "+
		"Resources NodeAllocatableResourceClaimStatuses")),
	decide[corev1.PodCondition](shown("Type ObservedGeneration Status LastProbeTime LastTransitionTime Reason " +
		"Message")),
	decide[corev1.PodIP](shown("IP")),
	decide[corev1.Secret](object("Immutable Type"), sizes("Data StringData")),
	decide[corev1.ConfigMap](object("Immutable"), sizes("Data BinaryData")),
	decide[corev1.SecretReference](names("Name Namespace")),
	decide[networkingv1.NetworkPolicyPeer](shown("PodSelector NamespaceSelector IPBlock")),
	decide[networkingv1.IPBlock](shown("CIDR Except")),
	decide[corev1.ResourceRequirements](shown("Limits Requests Claims")),
	decide[corev1.ResourceClaim](shown("Name Request")),
	decide[corev1.Toleration](shown("Key Operator Value Effect TolerationSeconds")),
	decide[corev1.TopologySpreadConstraint](shown("MaxSkew TopologyKey WhenUnsatisfiable LabelSelector MinDomains " +
		"NodeAffinityPolicy NodeTaintsPolicy MatchLabelKeys")),
	decide[corev1.LocalObjectReference](names("Name")),
}
