package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// PoolPolicy configures how Penstock picks endpoints of one InferencePool or InferencePoolImport,
// when the pool counts as full, and where its requests spill. Requests spill only if a PoolPolicy
// lists spill targets, never by the weights of a route.
//
// +kubebuilder:resource:scope=Namespaced,shortName=pp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Resolved",type=string,JSONPath=`.status.conditions[?(@.type=="ResolvedRefs")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PoolPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PoolPolicySpec `json:"spec"`
	// Status of the policy.
	//
	// +optional
	// +kubebuilder:default={}
	Status PoolPolicyStatus `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (in *PoolPolicy) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// PoolPolicyStatus is the status of a PoolPolicy.
type PoolPolicyStatus struct {
	// ObservedGeneration is the generation of the object that the conditions describe. It is -1
	// before Penstock has written conditions.
	//
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the policy. Accepted is False with reason TargetNotFound, Conflicted,
	// InvalidPlugins or InvalidSubset. ResolvedRefs is False with reason InvalidSpillTarget if
	// requests cannot spill to a target, InvalidProcessorRef if picker.processor names no Service
	// with the port, InvalidConfigRef if configRef names no valid document, InvalidScorerRef if an
	// external-scorer names no Service with the port, InvalidCredentialRef if upstreamCredential
	// names no Secret with a token, or NoClusterWithin if selection.within excludes every cluster
	// that exports the pool. While Accepted or ResolvedRefs is False,
	// Stalled is True with the same reason.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PoolPolicySpec is the specification of a PoolPolicy.
//
// +kubebuilder:validation:XValidation:rule="has(self.targetRef) || has(self.subset)",message="write targetRef, the pool; or subset alone, for backendRefs of routes that name this policy by an ExtensionRef filter"
// +kubebuilder:validation:XValidation:rule="has(self.targetRef) || !has(self.picker) && !has(self.externalPicker) && !has(self.spill) && !has(self.remote)",message="without targetRef only subset has an effect: add targetRef, or remove the other fields"
// +kubebuilder:validation:XValidation:rule="!has(self.subset) || !has(self.targetRef) || !has(self.targetRef.kind) || self.targetRef.kind != 'InferencePoolImport'",message="subset selects endpoints of an InferencePool by their labels, which the endpoints of an InferencePoolImport lack: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.selection) || has(self.targetRef) && has(self.targetRef.kind) && self.targetRef.kind == 'InferencePoolImport'",message="selection is among the clusters of an InferencePoolImport: name one in targetRef with kind InferencePoolImport, or remove selection"
// +kubebuilder:validation:XValidation:rule="!has(self.upstreamCredential) || has(self.targetRef) && (!has(self.targetRef.kind) || self.targetRef.kind == 'InferencePool')",message="upstreamCredential is for the servers of an InferencePool: name one in targetRef, or remove upstreamCredential"
// +kubebuilder:validation:XValidation:rule="!has(self.retryOn) || has(self.targetRef) && has(self.targetRef.kind) && self.targetRef.kind == 'InferencePoolImport'",message="retryOn is among the clusters of an InferencePoolImport: name one in targetRef with kind InferencePoolImport, or remove retryOn"
type PoolPolicySpec struct {
	// TargetRef is the pool, in the policy's namespace. If several policies target the same pool,
	// the oldest is in force, then the first by name; the others have the condition Accepted False.
	// A policy without targetRef is only for routes; see subset.
	//
	// +optional
	TargetRef PoolRef `json:"targetRef,omitzero"`
	// Picker configures Penstock's own picker. It has no effect on an external picker.
	//
	// +optional
	Picker PickerSpec `json:"picker,omitzero"`
	// Subset selects the endpoints of an InferencePool among which its picker chooses, by labels of
	// their Pods or ModelServers. With targetRef, it applies to all requests to the pool. Without
	// targetRef, it applies to each HTTPRoute backendRef that names the policy in a filter of type
	// ExtensionRef. The policy must then be in the route's namespace. If both policies exist,
	// endpoints must match both. If no endpoint is picked, the request spills if the pool has spill
	// targets, or is answered with 503, even with failureMode FailOpen.
	Subset *metav1.LabelSelector `json:"subset,omitempty"`
	// ExternalPicker configures the names under which an external picker, or the picker of an
	// exporting cluster, exchanges endpoints with the gateway. It is required only if that picker
	// uses names other than the endpoint picker protocol's names.
	ExternalPicker *ExternalPickerSpec `json:"externalPicker,omitempty"`
	// Spill lists, in order, the pools to which a request goes when this pool is full, or when no
	// endpoint is picked and the pool has none. A request spills once: spill targets of the
	// target's own policy are not used.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Spill []PoolRef `json:"spill,omitempty"`
	// Remote limits the addresses to which this cluster sends requests. It applies only to an
	// InferencePoolImport.
	//
	// +optional
	Remote RemoteSpec `json:"remote,omitzero"`
	// Selection configures which exporting clusters receive requests. It applies only to a whole
	// InferencePoolImport.
	Selection *SelectionSpec `json:"selection,omitempty"`
	// RetryOn lists failures after which a request is retried on another exporting cluster although
	// a model server may have started it. The request may then run twice. By default a request is
	// retried only if no model server has started it, or if its remote picker dies. It applies only
	// to a whole InferencePoolImport with several clusters.
	//
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	RetryOn []RetryCause `json:"retryOn,omitempty"`
	// UpstreamCredential is a key that the model servers of an InferencePool require. Envoy sends
	// it to the pool's own servers alone, in place of clients' credentials: not to spill targets,
	// mirrors, pickers or other clusters. By default servers receive clients' credentials, except
	// for keys of gated routes.
	//
	// +optional
	UpstreamCredential *UpstreamCredential `json:"upstreamCredential,omitempty"`
}

// UpstreamCredential is a key for model servers.
type UpstreamCredential struct {
	// SecretRef names a Secret of the policy's namespace whose token is the key. While it does not
	// exist or has no token, no request reaches the pool's servers.
	SecretRef AccessObject `json:"secretRef"`
	// Header has the key. In authorization, Bearer precedes it. Clients' authorization, x-api-key
	// and api-key are removed.
	//
	// +optional
	// +kubebuilder:validation:Enum=authorization;x-api-key;api-key
	// +kubebuilder:default=authorization
	Header string `json:"header,omitempty"`
}

// RetryCause is a failure that is retried on another cluster. TooManyRequests is a 429 response of
// a model server. ServiceUnavailable is a 503 response of a model server, or a connection to it
// that closes before the response. LostGateway is a connection to a member's gateway (ParentMode)
// that closes before the response.
//
// +kubebuilder:validation:Enum=TooManyRequests;ServiceUnavailable;LostGateway
type RetryCause string

const (
	RetryTooManyRequests    RetryCause = "TooManyRequests"
	RetryServiceUnavailable RetryCause = "ServiceUnavailable"
	RetryLostGateway        RetryCause = "LostGateway"
)

// ExternalPickerSpec has the names that an external picker uses. The flags of `penstock picker` and
// of the inference extension's EPP are --destination-endpoint-hint-key and
// --destination-endpoint-hint-metadata-namespace.
type ExternalPickerSpec struct {
	// DestinationKey is the key of the dynamic metadata, and the header, in which the picker
	// returns endpoints.
	//
	// +kubebuilder:default=x-gateway-destination-endpoint
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[a-z0-9._-]+$`
	DestinationKey string `json:"destinationKey,omitempty"`
	// DestinationNamespace is the namespace of that metadata. In the same namespace the gateway
	// reports the endpoint that served the request, under x-gateway-destination-endpoint-served.
	//
	// +kubebuilder:default=envoy.lb
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:validation:XValidation:rule="self != 'penstock'",message="the namespace penstock is the gateway's own: use another one, here and in the picker's flag"
	DestinationNamespace string `json:"destinationNamespace,omitempty"`
	// SubsetNamespace is the metadata namespace in which the gateway lists the endpoints among
	// which the picker must choose.
	//
	// +kubebuilder:default=envoy.lb.subset_hint
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	SubsetNamespace string `json:"subsetNamespace,omitempty"`
}

// PoolRef names a pool in the policy's namespace. A spill target may be in another namespace if a
// ReferenceGrant allows it.
type PoolRef struct {
	// Group of the kind.
	//
	// +kubebuilder:default=inference.networking.k8s.io
	// +kubebuilder:validation:Enum=inference.networking.k8s.io;inference.networking.x-k8s.io
	Group string `json:"group,omitempty"`
	// Kind is InferencePool or InferencePoolImport.
	//
	// +kubebuilder:default=InferencePool
	// +kubebuilder:validation:Enum=InferencePool;InferencePoolImport
	Kind string `json:"kind,omitempty"`
	// Name of the pool. For an import, NAME-CLUSTER selects one exporting cluster.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of a spill target. Defaults to the policy's namespace. Not allowed in targetRef.
	Namespace string `json:"namespace,omitempty"`
}

// RemoteSpec limits the addresses to which an importing cluster sends requests.
type RemoteSpec struct {
	// PodCIDRs are the allowed ranges of remote pods' addresses, for EndpointMode. An address
	// outside these ranges is not used, whether the export or a remote picker names it. The ranges
	// narrow the ranges that the operator of Penstock allows; podCIDRs of the import narrow them
	// further.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Addresses are the allowed ranges of remote pickers' and gateways' addresses, after host names
	// are resolved. An address outside these ranges is not called. The ranges narrow the ranges
	// that the operator of Penstock allows.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`
	// MaxGateways is the maximum number of Penstock gateways that a request has passed through, by
	// its Via header, when it is sent to a gateway of another cluster (ParentMode). A request that
	// has passed through more gateways goes to the other backends of its rule, or is answered with
	// 508. This breaks loops of gateways whose routes name each other's imports. Defaults to 4.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	MaxGateways *int32 `json:"maxGateways,omitempty"`
}
