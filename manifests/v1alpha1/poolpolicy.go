package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PoolPolicy configures how Penstock picks from one InferencePool or InferencePoolImport, when the
// pool is full, and where its requests spill. Requests spill only with a PoolPolicy; the weights of
// a route never imply it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=pp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Resolved",type=string,JSONPath=`.status.conditions[?(@.type=="ResolvedRefs")].status`
type PoolPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PoolPolicySpec `json:"spec"`
	// Status reports whether the policy is in force.
	//
	// +optional
	Status PoolPolicyStatus `json:"status,omitzero"`
}

// PoolPolicyStatus is the status of a PoolPolicy.
type PoolPolicyStatus struct {
	// Conditions: Accepted, False with reason TargetNotFound, Conflicted, InvalidPlugins or
	// InvalidSubset; ResolvedRefs, False with reason InvalidSpillTarget if requests cannot spill to
	// a target, InvalidProcessorRef if picker.processor names no Service with the port,
	// InvalidConfigRef if configRef names no valid document, InvalidScorerRef if an external-scorer
	// names no Service with the port, or NoClusterWithin if selection.within allows no cluster that
	// exports the pool.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PoolPolicySpec is the specification of a PoolPolicy.
//
// +kubebuilder:validation:XValidation:rule="has(self.targetRef) || has(self.subset)",message="write targetRef, the pool; or subset alone, for backendRefs of routes that name this policy by an ExtensionRef filter"
// +kubebuilder:validation:XValidation:rule="has(self.targetRef) || !has(self.picker) && !has(self.externalPicker) && !has(self.spill) && !has(self.remote)",message="without targetRef only subset has an effect: add targetRef, or remove the other fields"
// +kubebuilder:validation:XValidation:rule="!has(self.subset) || !has(self.targetRef) || !has(self.targetRef.kind) || self.targetRef.kind != 'InferencePoolImport'",message="subset selects endpoints of an InferencePool by their labels, which those of an InferencePoolImport do not have: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.selection) || has(self.targetRef) && has(self.targetRef.kind) && self.targetRef.kind == 'InferencePoolImport'",message="selection is among the clusters of an InferencePoolImport: name one in targetRef with kind InferencePoolImport, or remove selection"
// +kubebuilder:validation:XValidation:rule="!has(self.retryOn) || has(self.targetRef) && has(self.targetRef.kind) && self.targetRef.kind == 'InferencePoolImport'",message="retryOn is among the clusters of an InferencePoolImport: name one in targetRef with kind InferencePoolImport, or remove retryOn"
type PoolPolicySpec struct {
	// TargetRef is the pool, in the policy's own namespace. Of several policies for one pool the
	// oldest is in force, then the first by name; the others have the condition Accepted False. A
	// policy without it is for routes alone, see subset.
	//
	// +optional
	TargetRef PoolRef `json:"targetRef,omitzero"`
	// Picker configures Penstock's own picker. It has no effect on an external picker.
	//
	// +optional
	Picker PickerSpec `json:"picker,omitzero"`
	// Subset selects, by labels of their Pods or ModelServers, the endpoints of an InferencePool
	// among which its picker must choose. In a policy with targetRef it is for all requests to the
	// pool. For some of them, have an HTTPRoute's backendRef to the pool name a policy of the
	// route's namespace without targetRef, by a filter of type ExtensionRef; if the pool has a
	// subset, too, both must match. Without a pick among them a request spills, if the pool does,
	// or is answered 503, also with failureMode FailOpen.
	//
	// +optional
	Subset *metav1.LabelSelector `json:"subset,omitempty"`
	// ExternalPicker states by which names the pool's external picker, or the picker of an import's
	// exporting cluster, exchanges endpoints with the gateway, if it was started with other names
	// than those of the endpoint picker protocol.
	//
	// +optional
	ExternalPicker *ExternalPickerSpec `json:"externalPicker,omitempty"`
	// Spill lists where a request goes when the pool is full, or has no pick and no endpoint, in
	// this order. A request spills once: the spill targets of a target's own policy are not used.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Spill []PoolRef `json:"spill,omitempty"`
	// Remote limits the addresses that this cluster sends requests to. For an InferencePoolImport
	// only.
	//
	// +optional
	Remote RemoteSpec `json:"remote,omitzero"`
	// Selection configures to which of the exporting clusters requests go. For a whole
	// InferencePoolImport only.
	//
	// +optional
	Selection *SelectionSpec `json:"selection,omitempty"`
	// RetryOn has a request sent to another exporting cluster also where a model server may have
	// begun it, so that it may run twice. Without it only what no model server has begun is sent to
	// another one, except for requests of a remote picker that dies. For a whole
	// InferencePoolImport with several clusters only.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	RetryOn []RetryCause `json:"retryOn,omitempty"`
}

// RetryCause is why a request is sent to another cluster: TooManyRequests is a model server's own
// answer 429; ServiceUnavailable is its own answer 503, or a connection to it that ends before the
// answer; LostGateway is a connection to a member's gateway (ParentMode) that ends before the
// answer.
//
// +kubebuilder:validation:Enum=TooManyRequests;ServiceUnavailable;LostGateway
type RetryCause string

// The causes of spec.retryOn.
const (
	RetryTooManyRequests    RetryCause = "TooManyRequests"
	RetryServiceUnavailable RetryCause = "ServiceUnavailable"
	RetryLostGateway        RetryCause = "LostGateway"
)

// ExternalPickerSpec has the names of an external picker, which are flags of the picker's: penstock
// picker and the inference extension's EPP name them --destination-endpoint-hint-key and
// --destination-endpoint-hint-metadata-namespace.
type ExternalPickerSpec struct {
	// DestinationKey is the key of dynamic metadata, and the header, in which the picker names
	// endpoints.
	//
	// +optional
	// +kubebuilder:default=x-gateway-destination-endpoint
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[a-z0-9._-]+$`
	DestinationKey string `json:"destinationKey,omitempty"`
	// DestinationNamespace is the namespace of that metadata. The gateway reports the endpoint that
	// served there, too, under x-gateway-destination-endpoint-served.
	//
	// +optional
	// +kubebuilder:default=envoy.lb
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:validation:XValidation:rule="self != 'penstock'",message="the namespace penstock is the gateway's own: use another one, here and in the picker's flag"
	DestinationNamespace string `json:"destinationNamespace,omitempty"`
	// SubsetNamespace is the namespace in which the gateway lists the endpoints among which the
	// picker must choose.
	//
	// +optional
	// +kubebuilder:default=envoy.lb.subset_hint
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	SubsetNamespace string `json:"subsetNamespace,omitempty"`
}

// PoolRef names a pool. It is in the policy's namespace; a spill target may be in another one with
// a ReferenceGrant.
type PoolRef struct {
	// Group of the kind.
	//
	// +optional
	// +kubebuilder:default=inference.networking.k8s.io
	// +kubebuilder:validation:Enum=inference.networking.k8s.io;inference.networking.x-k8s.io
	Group string `json:"group,omitempty"`
	// Kind is InferencePool or InferencePoolImport.
	//
	// +optional
	// +kubebuilder:default=InferencePool
	// +kubebuilder:validation:Enum=InferencePool;InferencePoolImport
	Kind string `json:"kind,omitempty"`
	// Name of the pool. For an import, NAME-CLUSTER pins it to one exporting cluster.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of a spill target. Defaults to the policy's own. Not for targetRef.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// RemoteSpec limits the addresses that an importing cluster sends requests to.
type RemoteSpec struct {
	// PodCIDRs are the ranges of the remote pods' addresses, for EndpointMode. One outside the
	// ranges, declared or named by a remote picker, is not used. They narrow the ranges that the
	// operator of Penstock allows, and podCIDRs of the import narrow them further.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Addresses are the ranges of the remote pickers' and gateways' addresses, host names resolved.
	// Those outside are not called. They narrow the ranges that the operator of Penstock allows.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`
	// MaxGateways is how many gateways of Penstock a request may have passed through when it is
	// sent to one of another cluster (ParentMode). One that has passed through as many goes to the
	// other backends of its rule, or is answered 508: gateways whose routes name each other's
	// imports form a ring. They are counted by the header Via. Defaults to 4.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	MaxGateways *int32 `json:"maxGateways,omitempty"`
}

// PoolPolicyList is a list of PoolPolicies.
//
// +kubebuilder:object:root=true
type PoolPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PoolPolicy `json:"items"`
}
