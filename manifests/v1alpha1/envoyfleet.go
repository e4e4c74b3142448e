package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EnvoyFleet says how the proxies of a Gateway run. A Gateway names it in spec.infrastructure.parametersRef, in its own
// namespace; a GatewayClass in spec.parametersRef, for all of its Gateways. Where both say something of a field, the
// Gateway's counts. Fields have no defaults in the schema, so that what is left out can come from the class; what counts
// when nobody says anything stands at each field.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ef
type EnvoyFleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EnvoyFleetSpec `json:"spec"`
}

// FleetMode says who runs the proxies.
//
// +kubebuilder:validation:Enum=managed;external
type FleetMode string

// The modes of an EnvoyFleet.
const (
	// FleetManaged has Penstock run a Deployment with its Service for each Gateway.
	FleetManaged FleetMode = "managed"
	// FleetExternal has somebody else run the proxies: they attach with the output of "penstock bootstrap".
	FleetExternal FleetMode = "external"
)

// EnvoyFleetSpec is what an EnvoyFleet says.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.replicas) && has(self.autoscaling))",message="replicas and autoscaling exclude each other: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.external) || (has(self.mode) && self.mode == 'external')",message="external is for mode: external; set the mode, or remove external"
// +kubebuilder:validation:XValidation:rule="!(has(self.mode) && self.mode == 'external' && (has(self.image) || has(self.replicas) || has(self.autoscaling) || has(self.resources) || has(self.concurrency) || has(self.drainSeconds) || has(self.service) || has(self.pod) || has(self.bootstrap)))",message="mode: external runs no proxies: remove what shapes them, and leave mode and external"
type EnvoyFleetSpec struct {
	// Mode says who runs the proxies: managed (default), Penstock; external, you.
	//
	// +optional
	Mode FleetMode `json:"mode,omitempty"`
	// Image of Envoy, 1.40 or newer. By default the one that this release was tested with.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// Replicas is the number of proxies; 2 by default.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`
	// Autoscaling has a HorizontalPodAutoscaler choose the number of proxies.
	//
	// +optional
	Autoscaling *FleetAutoscaling `json:"autoscaling,omitempty"`
	// Resources of the Envoy container. By default it requests 100m CPU and 128Mi. Envoy refuses requests before its heap
	// reaches the memory limit, which must be at least 64Mi; without a limit, at 2 GiB.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !('memory' in self.limits) || !isQuantity(string(self.limits['memory'])) || quantity(string(self.limits['memory'])).compareTo(quantity('64Mi')) >= 0",message="limits.memory must be at least 64Mi: with less, Envoy refuses every request"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Concurrency is the number of worker threads; one a CPU by default.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=512
	Concurrency *int32 `json:"concurrency,omitempty"`
	// DrainSeconds is how long requests that are under way may go on when their proxy or their listener goes; 600 by
	// default. It ends earlier when the last of them ends.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	DrainSeconds *int32 `json:"drainSeconds,omitempty"`
	// Service in front of the proxies.
	//
	// +optional
	Service *FleetService `json:"service,omitempty"`
	// Pod has what the proxies' pods get besides.
	//
	// +optional
	Pod *FleetPod `json:"pod,omitempty"`
	// Bootstrap is merged into Envoy's bootstrap: objects field by field, lists by appending. Its own node, admin and
	// dynamic_resources are not yours to set.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Bootstrap *runtime.RawExtension `json:"bootstrap,omitempty"`
	// External says who may attach as this Gateway's proxy, and where they are reached, in mode external.
	//
	// +optional
	External *FleetExternalSpec `json:"external,omitempty"`
}

// FleetAutoscaling shapes the HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="minReplicas must be at most maxReplicas"
type FleetAutoscaling struct {
	// MinReplicas is the least number of proxies; 2 by default, or maxReplicas if that is less.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is the largest number of proxies.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`
	// CPUPercent of its request that a proxy should use on average; 60 by default.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	CPUPercent *int32 `json:"cpuPercent,omitempty"`
}

// FleetService shapes the Service in front of the proxies.
//
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || !has(self.type) || self.type == 'LoadBalancer'",message="loadBalancerClass is for type: LoadBalancer; remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || !has(self.type) || self.type != 'ClusterIP'",message="externalTrafficPolicy is not for type: ClusterIP, which nobody outside reaches; remove one of them"
type FleetService struct {
	// Type is LoadBalancer (default), NodePort or ClusterIP. At NodePort a Gateway's addresses are those of the nodes that its
	// proxies run on, up to 16; the ports there are those of the Service, which a Gateway cannot say.
	//
	// +optional
	// +kubebuilder:validation:Enum=LoadBalancer;NodePort;ClusterIP
	Type corev1.ServiceType `json:"type,omitempty"`
	// Annotations, over those of the Gateway's spec.infrastructure.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// LoadBalancerClass chooses who provides the load balancer. It cannot be changed later.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`
	// ExternalTrafficPolicy is Cluster (Kubernetes' default) or Local, which keeps clients' addresses.
	//
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
}

// FleetPod is what the proxies' pods get besides.
type FleetPod struct {
	// Labels, over those of the Gateway's spec.infrastructure.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations, over those of the Gateway's spec.infrastructure.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// NodeSelector of the pods.
	//
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of the pods.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// TopologySpreadConstraints of the pods. A constraint without labelSelector is about the fleet's own pods. By default
	// pods are spread over nodes and zones as far as possible.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// PriorityClassName of the pods.
	//
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// ImagePullSecrets of the pods, in the Gateway's namespace.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// FleetExternalSpec says who may attach in mode external.
type FleetExternalSpec struct {
	// ServiceAccounts of the Gateway's namespace whose pods may attach, with a token for the audience penstock.dev or a
	// certificate with the name spiffe://DOMAIN/ns/NAMESPACE/sa/NAME.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// Subjects are DNS names and URIs; whose certificate has one of them may attach. The certificate must be signed by an
	// authority that Penstock was told of (--xds-client-ca).
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=set
	Subjects []string `json:"subjects,omitempty"`
	// Addresses at which clients reach the proxies: IP addresses or host names. They become the Gateway's status.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') && !self.matches('^[0-9.]+$')",message="write an IP address, or a host name in lower case, such as edge.example.com"
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`
}

// EnvoyFleetList is a list of EnvoyFleets.
//
// +kubebuilder:object:root=true
type EnvoyFleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EnvoyFleet `json:"items"`
}
