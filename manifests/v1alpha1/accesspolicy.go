package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// AccessPolicy requires an API key or a JSON Web Token for requests to its targets. All policies
// above a route apply: the policies of its Gateway, listener, route, rule and pools. Each must let
// a request in. A request without a valid key or token is answered with 401. A request that some
// policy does not let in is answered with 403. Penstock answers before it reads the body.
//
// +kubebuilder:resource:scope=Namespaced,path=accesspolicies,singular=accesspolicy
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="gateway.networking.k8s.io/policy=Direct"
// +kubebuilder:printcolumn:name="Targets",type=string,JSONPath=`.spec.targetRefs[*].name`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.ancestors[*].conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AccessPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AccessPolicySpec `json:"spec"`
	// Status has an ancestor for each Gateway with a gated route.
	//
	// +optional
	// +kubebuilder:default={}
	Status AccessPolicyStatus `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (in *AccessPolicy) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// AccessPolicyStatus is the status of an AccessPolicy.
type AccessPolicyStatus struct {
	// ObservedGeneration is the generation of the object that the conditions describe. It is -1
	// before Penstock has written conditions.
	//
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ancestors has an entry for each Gateway with a gated route.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Ancestors []gatewayv1.PolicyAncestorStatus `json:"ancestors,omitempty"`
	// Targets are the objects that the policy gates. When Penstock starts, a former target stays
	// gated while a target of spec does not exist.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=80
	Targets []GatedTarget `json:"targets,omitempty"`
	// Conditions of the policy, at all Gateways. Stalled is True, with the same reason, while
	// Accepted is False.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatedTarget is an object of the policy's namespace that an AccessPolicy gates.
type GatedTarget struct {
	// Kind of the object.
	//
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the object.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// SectionName is a listener or a rule; without it the whole object is gated.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
	// Missing is true if the target was removed or renamed. What is new in its place is gated.
	//
	// +optional
	Missing bool `json:"missing,omitempty"`
}

// AccessPolicySpec is the specification of an AccessPolicy.
//
// +kubebuilder:validation:XValidation:rule="!has(self.except) || self.targetRefs.all(t, t.kind == 'Gateway')",message="only a policy for Gateways opens routes: remove except, or the other targets"
// +kubebuilder:validation:XValidation:rule="has(self.apiKeys) || has(self.jwt)",message="it lets nothing in: write apiKeys, such as {}, or jwt"
type AccessPolicySpec struct {
	// TargetRefs are the gated objects, in the policy's namespace. If several policies have the
	// same target, the oldest is in force there, then the first by name; the others have the
	// condition Accepted False.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	TargetRefs []AccessTarget `json:"targetRefs"`
	// APIKeys selects the API keys that are let in. By default no key is let in.
	//
	// +optional
	APIKeys *AccessKeys `json:"apiKeys,omitempty"`
	// JWT describes the JSON Web Tokens that are let in. By default no token is let in.
	//
	// +optional
	JWT *AccessJWT `json:"jwt,omitempty"`
	// ByModel reads the model in the bodies of requests. Keys with models need it. Bodies are held
	// until they are complete, up to 32 MiB. On hosts with such a policy, a request is answered
	// with 400 if its body is encoded, names a model twice, or names it by a key such as Model.
	//
	// +optional
	ByModel bool `json:"byModel,omitempty"`
	// Except are routes that the policy leaves open. Only a policy for Gateways may have
	// exceptions. Other policies still apply to these routes.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Except []AccessException `json:"except,omitempty"`
	// Ungated is Allow if a gated Gateway or listener accepts routes of TCP, UDP and TLS, although
	// no gate can read their connections. By default these routes are not accepted.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allow;Deny
	// +kubebuilder:default=Deny
	Ungated UngatedRoutes `json:"ungated,omitempty"`
	// Usage is the source of the token counts of streams, in OpenAI's chat completions and
	// completions. Exact sets stream_options.include_usage in the bodies of requests, so that
	// servers report the tokens. The stream then has one more chunk, with empty choices, on which
	// some clients fail. Exact needs a pool with Penstock's own picker. Estimate estimates the
	// tokens of streams without a report.
	//
	// +optional
	// +kubebuilder:validation:Enum=Exact;Estimate
	// +kubebuilder:default=Estimate
	Usage UsageOfStreams `json:"usage,omitempty"`
	// Revoke is Immediately if an open request ends as soon as a policy of its route would deny it:
	// within a second after its key is disabled, revoked, restricted or expired, or a policy has
	// changed. Each request of the policy's routes then has one more call to Penstock, which is
	// open until the response ends. If Penstock cannot watch a request, the request is answered
	// with 503, or ends. With AtEnd, an open request runs to its end.
	//
	// +optional
	// +kubebuilder:validation:Enum=Immediately;AtEnd
	// +kubebuilder:default=AtEnd
	Revoke RevokeOfRequests `json:"revoke,omitempty"`

	// Members are the other clusters of the set whose requests the targets take at peer listeners
	// (ClusterSet), each by its name in the set. Requests of all other clusters are answered with
	// 403 there. Only Gateways without sectionName and InferencePools have peer listeners. Members'
	// requests need no key: the member's own policies have decided. By default requests of all
	// members to which a pool is exported are let in. If it is empty or null, no member's requests
	// are let in. In EndpointMode other clusters reach the pool's servers directly, so it has no
	// effect there.
	//
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	Members []string `json:"members,omitempty"`

	// Nulls are the fields that are null although the policy would let in more without them, such
	// as apiKeys.selector. UnmarshalJSON sets it (accesspolicy_null.go).
	Nulls []string `json:"-"`
	// Closed is why a policy of ClosedAccessPolicy lets nothing in. A target is closed unless a
	// policy with Closed 0 has the same one.
	Closed AccessClosure `json:"-"`
	// Former are targets of earlier versions of the policy, and the objects that replaced renamed
	// targets. While a target of this version does not exist, the policy protects them, too.
	// discovery/store sets this field.
	Former []FormerTarget `json:"-"`
}

// FormerTarget is a target that a policy had, or what replaces it. Its namespace may differ from
// the policy's.
type FormerTarget struct {
	Namespace string
	AccessTarget
	// InForce marks a target that existed when an earlier process wrote the policy's status.
	// discovery/store resolves it.
	InForce bool `json:",omitempty"`
}

// UsageOfStreams is the source of the token counts of streams.
type UsageOfStreams string

// The values of UsageOfStreams.
const (
	UsageExact    UsageOfStreams = "Exact"
	UsageEstimate UsageOfStreams = "Estimate"
)

// RevokeOfRequests is when open requests end whose keys no longer count.
type RevokeOfRequests string

// The values of RevokeOfRequests.
const (
	RevokeImmediately RevokeOfRequests = "Immediately"
	RevokeAtEnd       RevokeOfRequests = "AtEnd"
)

// UngatedRoutes decides about routes that no gate can read.
type UngatedRoutes string

// The values of UngatedRoutes.
const (
	UngatedAllow UngatedRoutes = "Allow"
	UngatedDeny  UngatedRoutes = "Deny"
)

// AccessTarget is an object that an AccessPolicy gates.
//
// +kubebuilder:validation:XValidation:rule="!has(self.group) || (self.kind == 'InferencePool') == (self.group == 'inference.networking.k8s.io')",message="the kind belongs to another group: remove group, which defaults to the kind's"
// +kubebuilder:validation:XValidation:rule="!has(self.sectionName) || self.kind != 'InferencePool'",message="an InferencePool has no sections: remove sectionName"
type AccessTarget struct {
	// Group of the kind. Defaults to the kind's own group.
	//
	// +optional
	// +kubebuilder:validation:Enum=gateway.networking.k8s.io;inference.networking.k8s.io
	Group string `json:"group,omitempty"`
	// Kind is Gateway, HTTPRoute, GRPCRoute or InferencePool. A policy for a Gateway also gates its
	// ListenerSets. A policy for an InferencePool gates every route that may reach the pool.
	//
	// +kubebuilder:validation:Enum=Gateway;HTTPRoute;GRPCRoute;InferencePool
	Kind string `json:"kind"`
	// Name of the object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// SectionName is a listener of a Gateway, or a named rule of a route. By default the whole
	// object is gated.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// AccessException is a route that a Gateway's policy leaves open.
type AccessException struct {
	// Kind is HTTPRoute or GRPCRoute.
	//
	// +optional
	// +kubebuilder:validation:Enum=HTTPRoute;GRPCRoute
	// +kubebuilder:default=HTTPRoute
	Kind string `json:"kind,omitempty"`
	// Namespace of the route. Defaults to the policy's namespace.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Name of the route.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AccessKeys selects APIKeys.
type AccessKeys struct {
	// Selector selects APIKeys by their labels. By default all APIKeys of the namespaces are
	// selected. If it is null, no APIKey is selected.
	//
	// +optional
	// +nullable
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Namespaces of the APIKeys. A user who may write APIKeys in these namespaces decides which
	// clients are let in. Defaults to the policy's namespace. If it is null, no APIKey is selected.
	//
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
}
