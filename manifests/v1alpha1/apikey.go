package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// APIKey is a key with which a client calls gated routes. It holds only hashes of the key:
// `penstock keys create` prints the key itself once. AccessPolicies select APIKeys by their labels.
//
// A key is 256 random bits and a checksum, so its hash is no secret. When a hash or the object is
// removed, the key is denied as soon as Penstock receives the watch event.
//
// +kubebuilder:resource:scope=Namespaced,path=apikeys,singular=apikey
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner`
// +kubebuilder:printcolumn:name="Disabled",type=boolean,JSONPath=`.spec.disabled`
// +kubebuilder:printcolumn:name="Expires",type=date,JSONPath=`.spec.expires`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type APIKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec APIKeySpec `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (in *APIKey) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// APIKeySpec is the specification of an APIKey.
type APIKeySpec struct {
	// Hashes are SHA-256 hashes of the key, in lower-case hexadecimal digits. During a rotation
	// there are two hashes, and both keys are valid. If two APIKeys that a policy selects have the
	// same hash, the older APIKey applies.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{64}$`
	// +listType=set
	Hashes []string `json:"hashes"`
	// Owner is the caller of requests with the key. Access logs have it, and it is the fairness ID
	// of flow control, both as NAMESPACE/OWNER. Defaults to the object's name.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9@._:-]*[A-Za-z0-9])?$`
	Owner string `json:"owner,omitempty"`
	// Groups of the caller. Access logs and other filters read them in Envoy's metadata, namespace
	// envoy.filters.http.ext_authz.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=set
	Groups []string `json:"groups,omitempty"`
	// Models that the key may use: names that clients send, before any rewriting, or prefixes that
	// end in *. By default the key may use all models, and with an empty list no model; null is an
	// error. The route needs a policy with byModel: without a known model a restricted key is
	// denied.
	//
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[^*]+\*?$|^\*$`
	// +listType=set
	Models []string `json:"models,omitzero"`
	// Pools that the key may reach. By default the key may reach everything, and with an empty list
	// nothing; null is an error. A route is closed to the key if the route's requests may reach any
	// other backend, also by spilling or mirroring.
	//
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Pools []KeyPool `json:"pools,omitzero"`
	// Objective names the InferenceObjective that gives the key's requests their priority. The
	// client's own headers for an objective are removed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	Objective string `json:"objective,omitempty"`
	// Expires is the time from which the key is denied. By default the key never expires; null is
	// an error.
	//
	// +optional
	// +nullable
	Expires *metav1.Time `json:"expires,omitempty"`
	// Disabled denies the key, like an unknown key. Defaults to false; null is an error.
	//
	// +optional
	// +nullable
	Disabled bool `json:"disabled,omitempty"`
}

// UnmarshalJSON rejects null for fields without which the key may do more: a template without a
// value would otherwise permit everything. The schema allows null, because an API server drops null
// from other fields.
func (s *APIKeySpec) UnmarshalJSON(raw []byte) error {
	var fields struct{ Models, Pools, Expires, Disabled json.RawMessage }
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	for _, f := range []struct {
		value     json.RawMessage
		name, fix string
	}{
		{fields.Models, "models", "list: write [] for none, or remove models for all"},
		{fields.Pools, "pools", "list: write [] for none, or remove pools for all"},
		{fields.Expires, "expires", "time: write one, or remove expires if the key never expires"},
		{fields.Disabled, "disabled", "choice: write true or false"},
	} {
		if string(f.value) == "null" {
			return fmt.Errorf("spec.%s: null is no %s", f.name, f.fix)
		}
	}
	type plain APIKeySpec
	return json.Unmarshal(raw, (*plain)(s))
}

// KeyPool is an InferencePool or InferencePoolImport. An import is not the pool of this cluster
// with its name, although that one may be one of its clusters.
type KeyPool struct {
	// Kind is InferencePool or InferencePoolImport.
	//
	// +optional
	// +kubebuilder:validation:Enum=InferencePool;InferencePoolImport
	// +kubebuilder:default=InferencePool
	Kind string `json:"kind,omitempty"`
	// Namespace of the pool. Defaults to the key's namespace.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Name of the pool. An import's alias is not valid here.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
