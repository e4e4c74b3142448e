package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ClusterSet configures this cluster's part in a set of clusters that share InferencePools: its own
// name in the set, and the other members. A cluster has one ClusterSet. Of several the oldest
// counts, or the first by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cset
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name=Cluster,type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name=Members,type=string,JSONPath=`.spec.members[*].name`
// +kubebuilder:printcolumn:name=Accepted,type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSetSpec `json:"spec"`
	// +optional
	Status ClusterSetStatus `json:"status,omitempty"`
}

// ClusterSetSpec is the specification of a ClusterSet.
type ClusterSetSpec struct {
	// Cluster is the name of this cluster in the set. Other members import its pools under this
	// name, and it is the SPIFFE trust domain of this cluster's certificates. Every member must
	// have a name of its own. Defaults to spec.value of the ClusterProperty
	// cluster.clusterset.k8s.io (about.k8s.io), which must be such a name.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Cluster string `json:"cluster,omitempty"`
	// Region of this cluster, such as eu-west-1. Without it the region is not known.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	Region string `json:"region,omitempty"`
	// Zone of this cluster within its region, such as eu-west-1a.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	Zone string `json:"zone,omitempty"`
	// Imports selects the clusters that an import has: Others (the default), or All, with which the
	// pool of this cluster is an entry too.
	//
	// +optional
	// +kubebuilder:default=Others
	Imports ImportsFrom `json:"imports,omitempty"`
	// CreateNamespaces has Penstock create the namespace of an import that does not exist here.
	// Without it such a pool is not imported, until the namespace exists.
	//
	// +optional
	CreateNamespaces bool `json:"createNamespaces,omitempty"`
	// PodCIDRs are the ranges of this cluster's pods. Other members take addresses in these ranges
	// alone from the pickers and endpoints that this cluster exports.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Members are the other clusters of the set.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Members []ClusterSetMember `json:"members,omitempty"`
	// PeerListener has each Gateway of this cluster listen for requests of the members. Without it,
	// and without members, none does.
	//
	// +optional
	PeerListener *ClusterSetPeerListener `json:"peerListener,omitempty"`
	// Draining has the other members send this cluster no new request. Its pools stay exported, and
	// requests in flight end as they would. `penstock clusters drain` sets it.
	//
	// +optional
	Draining bool `json:"draining,omitempty"`
}

// CheckClusterName returns what is wrong with the name of a cluster; "" if nothing is. The pattern
// of ClusterSetSpec.Cluster has the same rules.
func CheckClusterName(name string) string {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Sprintf("%.100q is no DNS label: at most %d lower-case letters, digits and -", name,
			validation.DNS1123LabelMaxLength)
	}
	return ""
}

// ImportsFrom selects the clusters that an import has.
//
// +kubebuilder:validation:Enum=Others;All
type ImportsFrom string

// The selections.
const (
	// ImportOthers: the other members that export the pool.
	ImportOthers ImportsFrom = "Others"
	// ImportAll: they, and this cluster itself.
	ImportAll ImportsFrom = "All"
)

// ClusterSetStatus is the status of a ClusterSet.
type ClusterSetStatus struct {
	// Members are what Penstock keeps of each member over a restart.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Members []ClusterSetMemberStatus `json:"members,omitempty"`
	// Conditions of the ClusterSet: Accepted is False if another ClusterSet counts.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterSetMemberStatus is what a member has published last.
type ClusterSetMemberStatus struct {
	// Name of the cluster in the set.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// UID of the member's cluster. A cluster that takes the name later has another one.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	UID string `json:"uid,omitempty"`
	// Epoch and Sequence are up to where all exports of the member are known.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
	// Sequence within the epoch.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`
	// Draining: the member drains. Its exports take no new request.
	//
	// +optional
	Draining bool `json:"draining,omitempty"`
	// Bundle has the CA certificates that the member has published last, in PEM: those of
	// spec.members[].peer.bundle, or newer ones.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Bundle string `json:"bundle,omitempty"`
	// Started is when the member's process began to publish, by the member's clock. A member whose
	// epoch went back is followed at once if it began later than that.
	//
	// +optional
	Started *metav1.MicroTime `json:"started,omitempty"`
}

// ClusterSetMember is one other cluster of the set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.peer), has(self.kubeconfig), has(self.clusterProfile)].filter(is, is).size() <= 1",message="peer, kubeconfig and clusterProfile exclude each other: keep one of them"
// +kubebuilder:validation:XValidation:rule="has(self.peer) || has(self.kubeconfig) || has(self.clusterProfile)",message="it has no peer, kubeconfig or clusterProfile: add the peer that penstock clusters show prints at that cluster, or, for penstock hub, kubeconfig or clusterProfile"
type ClusterSetMember struct {
	// Name of the cluster in the set.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Peer configures a member whose Penstock exchanges exports with this one. `penstock hub`
	// ignores the member.
	//
	// +optional
	Peer *ClusterSetPeer `json:"peer,omitempty"`
	// Kubeconfig configures a member whose API server `penstock hub` reads and writes. Other
	// Penstocks ignore the member.
	//
	// +optional
	Kubeconfig *ClusterSetKubeconfig `json:"kubeconfig,omitempty"`
	// ClusterProfile is the same for a member of a cluster inventory.
	//
	// +optional
	ClusterProfile *ClusterSetProfile `json:"clusterProfile,omitempty"`
	// Draining has the hub send this member no new request of the others. It is for members of a
	// hub; others drain themselves.
	//
	// +optional
	Draining bool `json:"draining,omitempty"`
	// Allow limits what the member can make this cluster do. It narrows what the operator of
	// Penstock allows (--allowed-cidrs).
	//
	// +optional
	Allow ClusterSetAllow `json:"allow,omitempty"`
}

// ClusterSetPeer is how a member's Penstock is reached and recognised. `penstock clusters show`
// prints it at the member.
type ClusterSetPeer struct {
	// Address at which the member's Penstock serves other members, as HOST:PORT.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=260
	Address string `json:"address"`
	// Bundle has the member's CA certificates, in PEM. They vouch for SPIFFE IDs of its trust
	// domain, which is its name, alone. The member renews them by itself.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Bundle string `json:"bundle"`
	// Hub must not be true. In earlier builds it marked a hub that relayed between Penstocks.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self",message="no hub relays between Penstocks any more: remove this member, and join the clusters that it relayed to each other with penstock clusters join; or use penstock hub with kubeconfig or clusterProfile"
	Hub bool `json:"hub,omitempty"`
}

// ClusterSetKubeconfig is how a hub reaches the API server of a member.
type ClusterSetKubeconfig struct {
	// File is the name of a kubeconfig in the folder of `penstock hub --kubeconfigs`. A changed
	// file takes effect within seconds.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9_.]*[-A-Za-z0-9_][-A-Za-z0-9_.]*$`
	File string `json:"file"`
	// Context of the file. Defaults to its current-context.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Context string `json:"context,omitempty"`
}

// ClusterSetProfile names a ClusterProfile (multicluster.x-k8s.io) in the hub's own cluster. Its
// status.accessProviders and a provider of `penstock hub --clusterprofile-provider-file` are how
// the hub reaches the member.
type ClusterSetProfile struct {
	// Namespace of the ClusterProfile. Its label multicluster.x-k8s.io/clusterset must be the name
	// of the ClusterSet.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the ClusterProfile.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ClusterSetPeerListener is the port at which each Gateway takes requests of the members for the
// pools that this cluster exports to them.
//
// A member's Gateway connects with mTLS. Its certificate has the SPIFFE ID spiffe://CLUSTER/gateway
// of its own cluster, and the member's bundle vouches for it; the Gateway here presents the same of
// this cluster. Certificates are made by each cluster's Penstock and renew by themselves. Server
// name (SNI) and authority are both POOL.NAMESPACE.CLUSTER.pool.penstock. A member reaches the
// pools that are exported to it, at Gateways whose routes lead to them, and nothing else: no route,
// no other pool, and no import. Filters of routes do not apply to its requests.
type ClusterSetPeerListener struct {
	// Port that each Gateway binds beside those of its listeners, which must not have it. Gateways
	// of a folder share a machine: the first one has the port, unless they run on different
	// machines. On Kubernetes the Services and NetworkPolicies of fleets have it, too.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Address at which members reach that port, as HOST:PORT. Defaults to the addresses of the
	// Gateway, and Port.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=260
	Address string `json:"address,omitempty"`
}

// ClusterSetAllow limits a member. It exports nothing here but what namespaces or pools names.
type ClusterSetAllow struct {
	// PodCIDRs are the ranges in which the member's model servers may have addresses. Defaults to
	// all that the operator allows.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Addresses are the ranges in which its pickers and gateways may have addresses. Defaults to
	// all that the operator allows.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Addresses []string `json:"addresses,omitempty"`
	// Namespaces in which the member's exports are imported. Defaults to none.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Namespaces []string `json:"namespaces,omitempty"`
	// Pools that are imported from the member in other namespaces, each as NAMESPACE/NAME. Defaults
	// to none.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Pools []string `json:"pools,omitempty"`
	// Cleartext lets requests, with their prompts and credentials, go to gateways of the member
	// (ParentMode) without TLS. Peer listeners have TLS always.
	//
	// +optional
	Cleartext bool `json:"cleartext,omitempty"`
	// Exports is how many pools of the member are imported; further ones, by namespace and name,
	// are not. Defaults to 1,000.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Exports *int32 `json:"exports,omitempty"`
	// Endpoints is how many model servers of all its pools together are used; further ones are not.
	// Defaults to 10,000.
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
