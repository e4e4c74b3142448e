package inferenceapi

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// Group of the kinds in this package.
const Group = "inference.networking.x-k8s.io"

// RoutingMode selects how requests reach an exported pool (multi-cluster proposal, "Go Types").
//
// +kubebuilder:validation:Enum=EndpointMode;ParentMode
type RoutingMode string

// The two routing modes.
const (
	// EndpointMode calls the remote picker, then sends the request to the remote pod.
	EndpointMode RoutingMode = "EndpointMode"
	// ParentMode sends the request to a remote gateway in front of the pool.
	ParentMode RoutingMode = "ParentMode"
)

// ExportModeAnnotation is the routing mode of an exported InferencePool (multi-cluster proposal,
// "Export Annotations"). Defaults to EndpointMode.
const ExportModeAnnotation = "inference.networking.x-k8s.io/export-mode"

// InferencePoolImport is a pool that other clusters export. Controllers write its status; users
// name it in routes.
//
// +kubebuilder:resource:scope=Namespaced,shortName=infpimp;ipimp
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name=Clusters,type=string,JSONPath=`.status.clusters[*].name`
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type InferencePoolImport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is empty.
	//
	// +optional
	Spec InferencePoolImportSpec `json:"spec,omitzero"`
	// Status describes the import.
	Status InferencePoolImportStatus `json:"status,omitempty"`
}

func (in *InferencePoolImport) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// InferencePoolImportSpec is empty.
type InferencePoolImportSpec struct{}

// InferencePoolImportStatus has upstream's controllers, and the exporting clusters.
type InferencePoolImportStatus struct {
	// Controllers has an entry for each controller, as upstream defines it. Penstock writes only
	// its own entry. The parents in it are the Gateways whose routes name the import. A parent has
	// the conditions Accepted, ResolvedRefs and Ready. ResolvedRefs is False with reason
	// InvalidCluster if a cluster cannot be used as declared.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Controllers []upstream.ImportController `json:"controllers,omitempty"`
	// Clusters are the exporting clusters that back this import, and how to reach them.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Clusters []ImportedCluster `json:"clusters,omitempty"`
	// Conditions of the controller that writes clusters: Accepted and Ready. While a condition of a
	// controller other than Penstock (penstock.dev/multicluster-controller) is False, the
	// controller's clusters take no new requests. The same applies to the conditions of each entry
	// in the field controllers that lists the cluster.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the last generation that the controller which writes clusters has
	// processed.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ImportedCluster is one exporting cluster.
//
// +kubebuilder:validation:XValidation:rule="self.routingMode != 'EndpointMode' || has(self.targetPortNumber) || has(self.targetPorts)",message="EndpointMode needs targetPorts (or targetPortNumber)"
type ImportedCluster struct {
	// Name of the exporting cluster.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// RoutingMode selects how requests reach the pool: through the remote picker (EndpointMode) or
	// a remote gateway (ParentMode).
	RoutingMode RoutingMode `json:"routingMode"`
	// TargetPortNumber is the port of the model servers, for EndpointMode. It is the proposal's
	// form for a single port.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPortNumber int32 `json:"targetPortNumber,omitempty"`
	// TargetPorts are the ports of the model servers, for EndpointMode.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	TargetPorts []Port `json:"targetPorts,omitempty"`
	// EndpointPicker configures how to reach the pool's picker, for EndpointMode.
	EndpointPicker *EndpointPickerImport `json:"endpointPicker,omitempty"`
	// Endpoints are the pool's pods, if the exporter lists them. If empty, Penstock's picker relays
	// requests to the remote picker.
	//
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	Endpoints []ImportedEndpoint `json:"endpoints,omitempty"`
	// PodCIDRs are the ranges of the pods' addresses. The remote picker may return only addresses
	// in these ranges. The operator of Penstock and the import's PoolPolicy may narrow the ranges.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Parents are the remote gateways, for ParentMode.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Parents []ParentImport `json:"parents,omitempty"`
	// Weight of this cluster within the import. Defaults to 1. 0 drains the cluster.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
	// FailureMode selects where requests go when the remote picker does not answer: FailOpen (any
	// known endpoint) or FailClose (the default).
	//
	// +kubebuilder:validation:Enum=FailOpen;FailClose
	FailureMode string `json:"failureMode,omitempty"`
	// AppProtocol of the model servers: http (the default) or kubernetes.io/h2c.
	//
	// +kubebuilder:validation:Enum=http;kubernetes.io/h2c
	AppProtocol string `json:"appProtocol,omitempty"`
	// Region of the cluster, for a PoolPolicy that selects clusters by region.
	//
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// Zone of the cluster within its region.
	//
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// Local reports that the exporting cluster is the cluster with the import itself. Requests go
	// to the local InferencePool with the import's name. The other fields are for controllers that
	// do not read the field local.
	Local bool `json:"local,omitempty"`
	// Conditions of this cluster, such as its picker's health. A cluster whose condition Ready is
	// False takes no new requests.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Port is one port.
type Port struct {
	// Number of the port.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Number int32 `json:"number"`
	// Name of the port.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// AppProtocol, as in a Service's port. A picker is called over TLS unless its port has
	// kubernetes.io/h2c. A parent is reached in cleartext unless its port has https.
	//
	// +kubebuilder:validation:MaxLength=317
	AppProtocol string `json:"appProtocol,omitempty"`
}

// ImportedEndpoint is one remote model server.
type ImportedEndpoint struct {
	// Address is an IP address.
	//
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address"`
	// Ports of this endpoint. Defaults to the pool's target ports.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	Ports []int32 `json:"ports,omitempty"`
	// Draining excludes the endpoint from new requests.
	Draining bool `json:"draining,omitempty"`
}

// EndpointPickerImport configures how to reach a remote picker.
type EndpointPickerImport struct {
	// Name of the picker, for information only.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Service lists the addresses at which the picker serves ext_proc. In a file it may be a single
	// object instead of a list.
	Service ServiceImports `json:"service"`
	// Pool is the pool's name as NAMESPACE/NAME, for a picker that serves several pools, as
	// Penstock's own pickers do. It is sent in the gRPC metadata x-penstock-pool.
	//
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Pool string `json:"pool,omitempty"`
	// Peer reports that the picker serves only Gateways of members of the exporter's cluster set,
	// over mTLS, like peer listeners. The server name is POOL.NAMESPACE.CLUSTER.pool.penstock.
	Peer bool `json:"peer,omitempty"`
	// Health is the port at which the picker serves gRPC health, at the addresses of Service.
	// Without a secretRef the port is called in cleartext. While the picker reports NOT_SERVING at
	// all addresses, the cluster's condition EPPReady is False.
	Health *EndpointImport `json:"health,omitempty"`
	// Metrics is the port at which the picker serves /metrics, at the addresses of Service. Without
	// a secretRef the page is read over HTTP. LeastLoad reads the number of the cluster's servers
	// there (llm_d_epp_ready_endpoints or inference_pool_ready_pods), unless the cluster reports
	// its load.
	Metrics *EndpointImport `json:"metrics,omitempty"`
}

// EndpointImport is a port of a picker other than the ext_proc port.
type EndpointImport struct {
	// Port number.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// SecretRef names a Secret of this cluster with the credential for the port. It has token,
	// which is sent as Authorization: Bearer, or username and password, which are sent as Basic. It
	// may have tls.crt and tls.key, which are presented as client certificate. The credential is
	// sent only over TLS that a BackendTLSPolicy verifies, for the import, the cluster, or its
	// section CLUSTER.picker. Otherwise the port is not called, and ResolvedRefs states why. The
	// namespace defaults to the import's namespace; a ReferenceGrant allows another namespace. A
	// secretRef that a member of the cluster set exports is ignored.
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
}

// ParentImport is a remote gateway in front of the pool.
type ParentImport struct {
	// Name of the gateway, for information only.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Namespace of the gateway, for information only.
	//
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// Service lists the gateway's addresses. In a file it may be a single object instead of a list.
	Service ServiceImports `json:"service"`
	// Hostname is the Host and SNI of requests to the gateway, for a gateway whose routes do not
	// match the client's Host. A BackendTLSPolicy overrides the SNI. All parents of a cluster have
	// the same hostname. Defaults to the client's Host. Only Penstock supports this field.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hostname string `json:"hostname,omitempty"`
	// Peer reports that Service is the gateway's peer listener, which serves only members of the
	// exporter's cluster set, over mTLS. The server name and the authority are
	// POOL.NAMESPACE.CLUSTER.pool.penstock. Members use only parents with peer.
	Peer bool `json:"peer,omitempty"`
	// Conditions of the parent.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ServiceImports are Services of another cluster.
//
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=16
// +listType=atomic
type ServiceImports []ServiceImport

// ServiceImport is a Service of another cluster.
type ServiceImport struct {
	// Type of the Service, for information only.
	//
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer;ExternalName
	Type corev1.ServiceType `json:"type,omitempty"`
	// Addresses are IP addresses or host names.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Addresses []string `json:"addresses,omitempty"`
	// Ports of the Service. Penstock uses the first port.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Ports []Port `json:"ports,omitempty"`
}
