package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterSet configures this cluster's part in a set of clusters that share InferencePools: its own name in the set, and the other members.
// A cluster has one ClusterSet. Of several the oldest counts, or the first by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cset
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name=Cluster,type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name=Members,type=string,JSONPath=`.spec.members[*].name`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSetSpec `json:"spec"`
}

// ClusterSetSpec is the specification of a ClusterSet.
type ClusterSetSpec struct {
	// Cluster is the name of this cluster in the set. Other members import its pools under this name. Every member must have a name of
	// its own.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Cluster string `json:"cluster"`
	// Members are the other clusters of the set.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Members []ClusterSetMember `json:"members,omitempty"`
}

// ClusterSetMember is one other cluster of the set.
type ClusterSetMember struct {
	// Name of the cluster in the set.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Peer configures a member whose Penstock exchanges exports with this one.
	//
	// +optional
	Peer *ClusterSetPeer `json:"peer,omitempty"`
	// Allow limits what the member can make this cluster do. It narrows what the operator of Penstock allows (--allowed-cidrs).
	//
	// +optional
	Allow ClusterSetAllow `json:"allow,omitempty"`
}

// ClusterSetPeer is how a member's Penstock is reached and recognised. `penstock clusters show` prints it at the member.
type ClusterSetPeer struct {
	// Address at which the member's Penstock serves other members, as HOST:PORT.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=260
	Address string `json:"address"`
	// TrustDomain is the SPIFFE trust domain of the member. Defaults to the member's name. The members of a set have different ones.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-z0-9._-]*$`
	TrustDomain string `json:"trustDomain,omitempty"`
	// Bundle has the member's CA certificates, in PEM. They vouch for SPIFFE IDs of its trust domain alone. A bundle that the
	// member renews is written here again.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Bundle string `json:"bundle"`
}

// ClusterSetAllow limits a member.
type ClusterSetAllow struct {
	// PodCIDRs are the ranges in which the member's model servers may have addresses. Defaults to all that the operator allows.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Addresses are the ranges in which its pickers and gateways may have addresses. Defaults to all that the operator allows.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Addresses []string `json:"addresses,omitempty"`
	// Namespaces in which the member's exports are imported. Defaults to all.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Namespaces []string `json:"namespaces,omitempty"`
	// Exports is how many pools of the member are imported; further ones, by namespace and name, are not. Defaults to 1,000.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Exports *int32 `json:"exports,omitempty"`
	// Endpoints is how many model servers of all its pools together are used; further ones are not. Defaults to 10,000.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Endpoints *int32 `json:"endpoints,omitempty"`
}

// ClusterSetList is a list of ClusterSets.
//
// +kubebuilder:object:root=true
type ClusterSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterSet `json:"items"`
}
