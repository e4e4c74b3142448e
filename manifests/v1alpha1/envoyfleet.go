package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// EnvoyFleet configures the proxies of a Gateway. A Gateway names an EnvoyFleet of its own
// namespace in spec.infrastructure.parametersRef. A GatewayClass names an EnvoyFleet for all of its
// Gateways in spec.parametersRef. If both set a field, the Gateway's EnvoyFleet takes precedence.
// So the schema has no defaults; the description of each field states its default.
//
// +kubebuilder:resource:scope=Namespaced,shortName=ef
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EnvoyFleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EnvoyFleetSpec `json:"spec"`
	// Status reports whether proxies can run as Spec demands.
	//
	// +optional
	// +kubebuilder:default={}
	Status EnvoyFleetStatus `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (in *EnvoyFleet) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// EnvoyFleetStatus is the status of an EnvoyFleet.
type EnvoyFleetStatus struct {
	// ObservedGeneration is the generation of the object that the conditions describe. It is -1
	// before Penstock has written conditions.
	//
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the EnvoyFleet. Accepted is False with reason InvalidParameters if a field is
	// invalid, whether or not a Gateway uses the EnvoyFleet. Stalled is True, with the same reason,
	// while Accepted is False.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FleetMode selects who runs the proxies.
//
// +kubebuilder:validation:Enum=managed;external
type FleetMode string

const (
	// FleetManaged makes Penstock run a Deployment and a Service for each Gateway.
	FleetManaged FleetMode = "managed"
	// FleetExternal leaves the proxies to the user. They attach with the output of `penstock
	// bootstrap`.
	FleetExternal FleetMode = "external"
)

// EnvoyFleetSpec is the specification of an EnvoyFleet.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.replicas) && has(self.autoscaling))",message="replicas and autoscaling exclude each other: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.external) || (has(self.mode) && self.mode == 'external')",message="external is for mode: external; set the mode, or remove external"
// +kubebuilder:validation:XValidation:rule="!(has(self.mode) && self.mode == 'external' && (has(self.image) || has(self.replicas) || has(self.autoscaling) || has(self.resources) || has(self.concurrency) || has(self.drainSeconds) || has(self.service) || has(self.pod) || has(self.bootstrap) || has(self.networkPolicy)))",message="mode: external runs no proxies: remove all fields but mode, clients, routes and external"
type EnvoyFleetSpec struct {
	// Mode selects who runs the proxies: Penstock (managed, the default) or the user (external).
	Mode FleetMode `json:"mode,omitempty"`
	// Image of Envoy, version 1.40 or newer. Defaults to the image that this release is tested
	// with.
	//
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// Replicas is the number of proxies. Defaults to 2.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`
	// Autoscaling lets a HorizontalPodAutoscaler set the number of proxies.
	Autoscaling *FleetAutoscaling `json:"autoscaling,omitempty"`
	// Resources of the Envoy container. Defaults to requests of 100m CPU and 128Mi memory, and a
	// memory limit of 1Gi. The memory limit must be at least 64Mi. Envoy rejects requests before
	// its heap reaches the limit, or at 2 GiB if there is no limit. The request bodies in one Envoy
	// take at most 45 % of the limit; above that, requests with large bodies are answered with 503.
	//
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !('memory' in self.limits) || !isQuantity(string(self.limits['memory'])) || quantity(string(self.limits['memory'])).compareTo(quantity('64Mi')) >= 0",message="limits.memory must be at least 64Mi: with less, Envoy rejects every request"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Concurrency is the number of worker threads. Defaults to one per CPU.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=512
	Concurrency *int32 `json:"concurrency,omitempty"`
	// DrainSeconds is the drain time in seconds: how long requests in flight may continue after
	// their proxy stops or their listener is removed. The drain ends earlier when no request is
	// left. Defaults to 600.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	DrainSeconds *int32 `json:"drainSeconds,omitempty"`
	// Service configures the Service in front of the proxies.
	Service *FleetService `json:"service,omitempty"`
	// Pod configures the proxies' pods.
	Pod *FleetPod `json:"pod,omitempty"`
	// Bootstrap is merged into Envoy's bootstrap: objects field by field, lists by appending. It
	// must not set node, admin or dynamic_resources, nor use names of Penstock's own clusters,
	// listeners, runtime layers and overload actions. It becomes a ConfigMap, so do not write
	// credentials here.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Bootstrap *runtime.RawExtension `json:"bootstrap,omitempty"`
	// NetworkPolicy configures which clients may connect to the proxies' pods. By default every
	// client may connect to the ports of listeners, including listeners in bootstrap, and to no
	// other port.
	NetworkPolicy *FleetNetworkPolicy `json:"networkPolicy,omitempty"`
	// Clients configures how the listeners handle connections and requests. A change of
	// proxyProtocol closes the connections of all listeners. A change of any other field drains the
	// connections.
	Clients *FleetClients `json:"clients,omitempty"`
	// Routes limits the time that routes of other namespaces cost the proxies.
	Routes *FleetRoutes `json:"routes,omitempty"`
	// External configures which proxies may attach in mode external, and the addresses at which
	// clients reach them.
	External *FleetExternalSpec `json:"external,omitempty"`
}

// FleetAutoscaling configures the HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="minReplicas must be at most maxReplicas"
type FleetAutoscaling struct {
	// MinReplicas is the smallest number of proxies. Defaults to 2, or to a smaller maxReplicas.
	//
	// +kubebuilder:validation:Minimum=1
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is the largest number of proxies.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`
	// CPUPercent is the target of average CPU usage, in percent of the CPU request. Defaults to 60.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	CPUPercent *int32 `json:"cpuPercent,omitempty"`
}

// FleetService configures the Service in front of the proxies.
//
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || !has(self.type) || self.type == 'LoadBalancer'",message="loadBalancerClass is for type: LoadBalancer; remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || !has(self.type) || self.type != 'ClusterIP'",message="externalTrafficPolicy is not for type: ClusterIP, which has no traffic from outside; remove one of them"
type FleetService struct {
	// Type is LoadBalancer (the default), NodePort or ClusterIP. With NodePort, the Gateway's
	// addresses are the addresses of the nodes that run its proxies, at most 16. The Service has
	// the node ports; the Gateway's status has no field for them.
	//
	// +kubebuilder:validation:Enum=LoadBalancer;NodePort;ClusterIP
	Type corev1.ServiceType `json:"type,omitempty"`
	// Annotations to add to the Service. They override the annotations of the Gateway's
	// spec.infrastructure.
	//
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// LoadBalancerClass selects the implementation of the load balancer. It is immutable.
	//
	// +kubebuilder:validation:MinLength=1
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`
	// ExternalTrafficPolicy is Cluster (the default of Kubernetes) or Local. Local preserves the
	// clients' addresses.
	//
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
}

// FleetPod configures the proxies' pods.
type FleetPod struct {
	// Labels to add to the pods. They override the labels of the Gateway's spec.infrastructure.
	//
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations to add to the pods. They override the annotations of the Gateway's
	// spec.infrastructure.
	//
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// NodeSelector of the pods.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of the pods.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// TopologySpreadConstraints of the pods. A constraint without labelSelector selects the fleet's
	// own pods. By default the pods are spread over nodes and zones on a best-effort basis.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// PriorityClassName of the pods.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// ImagePullSecrets of the pods, in the Gateway's namespace.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// NetworkPolicyMode selects whether Penstock creates a NetworkPolicy for a fleet.
//
// +kubebuilder:validation:Enum=managed;none
type NetworkPolicyMode string

const (
	// NetworkPolicyManaged makes Penstock apply a NetworkPolicy for the pods of each fleet.
	NetworkPolicyManaged NetworkPolicyMode = "managed"
	// NetworkPolicyNone makes Penstock apply no NetworkPolicy.
	NetworkPolicyNone NetworkPolicyMode = "none"
)

// FleetNetworkPolicy configures the NetworkPolicy of the proxies' pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.from) || !has(self.mode) || self.mode != 'none'",message="mode: none creates no NetworkPolicy: remove from"
type FleetNetworkPolicy struct {
	// Mode is managed (the default), or none, which creates no NetworkPolicy. NetworkPolicies are
	// additive: a stricter policy of the user has an effect only in mode none.
	Mode NetworkPolicyMode `json:"mode,omitempty"`
	// From lists the clients that may connect to listeners, and to a peerListener of the
	// ClusterSet. Defaults to all clients.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
}

// FleetClients configures how the listeners of a Gateway handle clients' connections and requests.
type FleetClients struct {
	// RequestTimeoutSeconds limits the time in seconds from the first byte of a request to its last
	// byte, or until its response begins. A request that exceeds it is answered with 408. A wait in
	// a picker's queue, or for a model server to start, has limits of its own. The length of
	// responses is not limited. Defaults to 600.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	RequestTimeoutSeconds *int32 `json:"requestTimeoutSeconds,omitempty"`
	// HTTP2Streams is the maximum number of concurrent requests on one HTTP/2 connection. Further
	// requests wait at the client. A proxy uses about 70 KiB for each request, in addition to its
	// body. Defaults to 1000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	HTTP2Streams *int32 `json:"http2Streams,omitempty"`
	// EscapedSlashes selects how to handle a path with an escaped slash or backslash (%2F, %5C),
	// which some servers decode. UnescapeAndRedirect (the default) redirects to the unescaped path;
	// gRPC requests are rejected instead. RejectRequest answers with 400. UnescapeAndForward routes
	// and forwards the unescaped path. KeepUnchanged routes and forwards the path as received.
	//
	// +kubebuilder:validation:Enum=UnescapeAndRedirect;UnescapeAndForward;RejectRequest;KeepUnchanged
	EscapedSlashes EscapedSlashes `json:"escapedSlashes,omitempty"`
	// HeadersWithUnderscores selects how to handle a request with an underscore in a header name,
	// which some servers treat as a hyphen. RejectRequest (the default) answers with 400.
	// DropHeader removes the header. Allow keeps it.
	//
	// +kubebuilder:validation:Enum=RejectRequest;DropHeader;Allow
	HeadersWithUnderscores HeadersWithUnderscores `json:"headersWithUnderscores,omitempty"`
	// HTTP10 selects how to handle HTTP/1.0 requests. Accept (the default) serves requests with a
	// Host header and answers other HTTP/1.0 requests with 400. Reject answers all HTTP/1.0
	// requests with 426.
	//
	// +kubebuilder:validation:Enum=Accept;Reject
	HTTP10 HTTP10 `json:"http10,omitempty"`
	// RequestIDs selects how to handle a client's x-request-id header, by which access logs, picks,
	// processors and backends identify a request. Replace (the default) generates a new ID for each
	// request. Keep preserves the client's ID, so that two requests may have the same ID.
	//
	// +kubebuilder:validation:Enum=Replace;Keep
	RequestIDs RequestIDs `json:"requestIDs,omitempty"`
	// TrustedHops is the number of trusted proxies in front of the listeners that append to
	// X-Forwarded-For. The client's address is the entry at that position from the right. Defaults
	// to 0, which uses the address of the connection.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	TrustedHops *int32 `json:"trustedHops,omitempty"`
	// ProxyProtocol selects whether connections begin with a PROXY protocol header, version 1 or 2,
	// which carries the client's address: Disabled (the default), Required, or Optional. With
	// Optional, any client that reaches the proxies can forge its address.
	//
	// +kubebuilder:validation:Enum=Disabled;Required;Optional
	ProxyProtocol ProxyProtocol `json:"proxyProtocol,omitempty"`
}

// FleetRoutes limits the time that routes of other namespaces cost the proxies.
type FleetRoutes struct {
	// BudgetMilliseconds limits the main-thread time in milliseconds that the HTTPRoutes and
	// GRPCRoutes of one namespace cost an Envoy whenever a route of the same listener changes.
	// Envoy then rebuilds all routes of the cleartext port or HTTPS listener. Penstock estimates
	// the time from the contents of the routes. Routes that exceed the budget are not accepted;
	// older routes of the namespace take precedence. An additional 50 % is available for copies of
	// wildcard-hostname routes in more specific hosts. The budget does not apply to the Gateway's
	// own namespace. 0 selects the default, 40.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=60000
	BudgetMilliseconds int32 `json:"budgetMilliseconds,omitempty"`
}

// EscapedSlashes selects how to handle a path with escaped slashes.
type EscapedSlashes string

const (
	UnescapeAndRedirect EscapedSlashes = "UnescapeAndRedirect"
	UnescapeAndForward  EscapedSlashes = "UnescapeAndForward"
	RejectEscapes       EscapedSlashes = "RejectRequest"
	KeepEscapes         EscapedSlashes = "KeepUnchanged"
)

// HeadersWithUnderscores selects how to handle a header with an underscore in its name.
type HeadersWithUnderscores string

const (
	RejectUnderscores HeadersWithUnderscores = "RejectRequest"
	DropUnderscores   HeadersWithUnderscores = "DropHeader"
	AllowUnderscores  HeadersWithUnderscores = "Allow"
)

// HTTP10 selects how to handle HTTP/1.0 requests.
type HTTP10 string

const (
	AcceptHTTP10 HTTP10 = "Accept"
	RejectHTTP10 HTTP10 = "Reject"
)

// RequestIDs selects how to handle a client's x-request-id.
type RequestIDs string

const (
	ReplaceRequestIDs RequestIDs = "Replace"
	KeepRequestIDs    RequestIDs = "Keep"
)

// ProxyProtocol selects whether connections begin with a PROXY protocol header.
type ProxyProtocol string

const (
	ProxyProtocolDisabled ProxyProtocol = "Disabled"
	ProxyProtocolRequired ProxyProtocol = "Required"
	ProxyProtocolOptional ProxyProtocol = "Optional"
)

// FleetExternalSpec configures which proxies may attach in mode external.
type FleetExternalSpec struct {
	// ServiceAccounts of the Gateway's namespace whose pods may attach. A pod authenticates with a
	// token for the audience penstock.dev, or with a certificate for
	// spiffe://DOMAIN/ns/NAMESPACE/sa/NAME.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// Subjects are DNS names and URIs. A proxy may attach if its certificate has one of these
	// names, and is signed by an authority in --xds-client-ca.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=set
	Subjects []string `json:"subjects,omitempty"`
	// Addresses at which clients reach the proxies: IP addresses or host names. They are copied to
	// the Gateway's status.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') && !self.matches('^[0-9.]+$')",message="write an IP address, or a host name in lower case, such as edge.example.com"
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`
}
