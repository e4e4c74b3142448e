package inferenceapi

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"
)

// Group of the kinds in this package.
const Group = "inference.networking.x-k8s.io"

// RoutingMode decides how requests reach an exported pool (multi-cluster proposal, "Go Types").
//
// +kubebuilder:validation:Enum=EndpointMode;ParentMode
type RoutingMode string

// The two routing modes.
const (
	// EndpointMode: call the remote picker, then send the request to the remote pod.
	EndpointMode RoutingMode = "EndpointMode"
	// ParentMode: send the request to a remote gateway that fronts the pool.
	ParentMode RoutingMode = "ParentMode"
)

// ExportModeAnnotation has the routing mode of an exported InferencePool (multi-cluster proposal,
// "Export Annotations"); EndpointMode without it.
const ExportModeAnnotation = "inference.networking.x-k8s.io/export-mode"

// InferencePoolImport is a pool of another cluster. Controllers write its status; users name it in
// routes.
//
// +kubebuilder:object:root=true
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

	// Spec is empty: an import has no settings of its own.
	//
	// +optional
	Spec InferencePoolImportSpec `json:"spec,omitzero"`
	// Status describes the import.
	//
	// +optional
	Status InferencePoolImportStatus `json:"status,omitempty"`
}

// InferencePoolImportSpec is empty.
type InferencePoolImportSpec struct{}

// InferencePoolImportStatus has upstream's controllers, and the exporting clusters.
type InferencePoolImportStatus struct {
	// Controllers has an entry for each controller, as upstream defines it. Penstock writes its own
	// entry alone, with the Gateways whose routes name the import as parents. Conditions of a
	// parent: Accepted; ResolvedRefs, False with reason InvalidCluster if a cluster cannot be used
	// as declared; Ready.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Controllers []upstream.ImportController `json:"controllers,omitempty"`
	// Clusters are the exporting clusters that back this import, and how to reach them.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Clusters []ImportedCluster `json:"clusters,omitempty"`
	// Conditions of the controller that writes clusters, Penstock's
	// (penstock.dev/multicluster-controller) or another: Accepted and Ready. While one of them is
	// False of another controller, no cluster that it wrote takes a new request. The same goes for
	// the conditions of an entry of controllers that lists the cluster.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the controller which writes clusters has processed.
	//
	// +optional
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
	// RoutingMode decides how requests reach the pool: through the remote picker (EndpointMode) or
	// a remote gateway (ParentMode).
	RoutingMode RoutingMode `json:"routingMode"`
	// TargetPortNumber is the port of the model servers, for EndpointMode. It is the proposal's
	// form of one target port.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPortNumber int32 `json:"targetPortNumber,omitempty"`
	// TargetPorts are the ports of the model servers, for EndpointMode.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	TargetPorts []Port `json:"targetPorts,omitempty"`
	// EndpointPicker configures how to reach the pool's picker, for EndpointMode.
	//
	// +optional
	EndpointPicker *EndpointPickerImport `json:"endpointPicker,omitempty"`
	// Endpoints are the pool's pods, if the exporter lists them. If empty, Penstock's picker relays
	// requests to the remote picker.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	Endpoints []ImportedEndpoint `json:"endpoints,omitempty"`
	// PodCIDRs are the ranges of the pods' addresses. The remote picker may name addresses in these
	// ranges only, as far as the operator of Penstock and the import's PoolPolicy allow them.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Parents are the remote gateways, for ParentMode.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Parents []ParentImport `json:"parents,omitempty"`
	// Weight of this cluster within the import. Defaults to 1; 0 drains the cluster.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
	// FailureMode when the remote picker does not answer: FailOpen (any known endpoint) or
	// FailClose (the default).
	//
	// +optional
	// +kubebuilder:validation:Enum=FailOpen;FailClose
	FailureMode string `json:"failureMode,omitempty"`
	// AppProtocol of the model servers: http (the default) or kubernetes.io/h2c.
	//
	// +optional
	// +kubebuilder:validation:Enum=http;kubernetes.io/h2c
	AppProtocol string `json:"appProtocol,omitempty"`
	// Region of the cluster, for a PoolPolicy that selects clusters by it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// Zone of the cluster within its region.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// Local: the cluster is the one that has this import. Its requests go to the InferencePool of
	// the import's name here; the other fields are for controllers that do not read this one.
	//
	// +optional
	Local bool `json:"local,omitempty"`
	// Conditions of this cluster, such as its picker's health. A cluster whose condition Ready is
	// False takes no new request.
	//
	// +optional
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
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// AppProtocol, as in a Service's port. A picker with kubernetes.io/h2c is called in cleartext,
	// others over TLS. A parent with https is reached over TLS, others in cleartext.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=317
	AppProtocol string `json:"appProtocol,omitempty"`
}

// ImportedEndpoint is one remote model server.
type ImportedEndpoint struct {
	// Address is an IP address.
	//
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address"`
	// Ports of this endpoint, if they are not the pool's target ports.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	Ports []int32 `json:"ports,omitempty"`
	// Draining excludes the endpoint from new requests.
	//
	// +optional
	Draining bool `json:"draining,omitempty"`
}

// EndpointPickerImport configures how to reach a remote picker.
type EndpointPickerImport struct {
	// Name of the picker, for information only.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Service lists the addresses at which the picker serves ext_proc. A file may have an object in
	// place of the list.
	Service ServiceImports `json:"service"`
	// Pool is the pool's name at a picker that serves several, as NAMESPACE/NAME. Penstock's own
	// pickers do. It is sent in the gRPC metadata x-penstock-pool; without it, the picker is not
	// asked for a pool by name.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Pool string `json:"pool,omitempty"`
	// Peer: the picker serves Gateways of members of the exporter's cluster set alone, over mTLS,
	// as peer listeners do. The server name is POOL.NAMESPACE.CLUSTER.pool.penstock.
	//
	// +optional
	Peer bool `json:"peer,omitempty"`
	// Health is where the picker serves gRPC health at the addresses of Service, in cleartext
	// without a secretRef. While it reports NOT_SERVING at all of them, the cluster's condition
	// EPPReady is False.
	//
	// +optional
	Health *EndpointImport `json:"health,omitempty"`
	// Metrics is where the picker serves its metrics page, at /metrics of the addresses of Service,
	// over HTTP without a secretRef. LeastLoad reads there how many servers the cluster has
	// (llm_d_epp_ready_endpoints or inference_pool_ready_pods), unless the cluster reports its
	// load.
	//
	// +optional
	Metrics *EndpointImport `json:"metrics,omitempty"`
}

// EndpointImport is a port of a picker beside its ext_proc one.
type EndpointImport struct {
	// Port number.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// SecretRef names a Secret of this cluster with the credential that the port demands: token,
	// sent as Authorization: Bearer; or username and password, sent as Basic; and tls.crt with
	// tls.key, presented as client certificate. It is sent over TLS alone that a BackendTLSPolicy
	// for the import, the cluster, or its section CLUSTER.picker verifies. Otherwise the port is
	// not asked, and ResolvedRefs states why. The namespace is that of the import; a ReferenceGrant
	// allows another. One that a member of the cluster set exports has no effect.
	//
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
}

// ParentImport is a remote gateway that fronts the pool.
type ParentImport struct {
	// Name of the gateway, for information only.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Namespace of the gateway, for information only.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// Service lists the gateway's addresses. A file may have an object in place of the list.
	Service ServiceImports `json:"service"`
	// Hostname is Host and SNI of requests to the gateway, where its routes do not match the hosts
	// of this gateway's clients; a BackendTLSPolicy decides on the SNI. All parents of a cluster
	// have the same. Default: the client's Host. A field of Penstock's own.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hostname string `json:"hostname,omitempty"`
	// Peer: Service is the gateway's peer listener, which takes requests of members of the
	// exporter's cluster set alone, over mTLS. Server name and authority are
	// POOL.NAMESPACE.CLUSTER.pool.penstock. A member uses it, and no parent without peer.
	//
	// +optional
	Peer bool `json:"peer,omitempty"`
	// Conditions of the parent.
	//
	// +optional
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
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer;ExternalName
	Type corev1.ServiceType `json:"type,omitempty"`
	// Addresses are IP addresses or host names.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Addresses []string `json:"addresses,omitempty"`
	// Ports of the Service. Penstock uses the first one.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Ports []Port `json:"ports,omitempty"`
}

// InferencePoolImportList is a list of InferencePoolImports.
//
// +kubebuilder:object:root=true
type InferencePoolImportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []InferencePoolImport `json:"items"`
}
