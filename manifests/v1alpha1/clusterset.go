package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// ClusterSet configures this cluster's part in a set of clusters that share InferencePools: its
// name in the set, and the other members. If there are several ClusterSets, the oldest is used,
// then the first by name.
//
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
	// Status reports whether the ClusterSet is in use, and the state of its members.
	//
	// +optional
	// +kubebuilder:default={}
	Status ClusterSetStatus `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (in *ClusterSet) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// ClusterSetSpec is the specification of a ClusterSet.
type ClusterSetSpec struct {
	// Cluster is the name of this cluster in the set. It must be unique in the set. Other members
	// import this cluster's pools under this name. The name is also the SPIFFE trust domain of this
	// cluster's certificates. Defaults to spec.value of the ClusterProperty
	// cluster.clusterset.k8s.io (about.k8s.io), which must follow the same pattern.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Cluster string `json:"cluster,omitempty"`
	// Region of this cluster, such as eu-west-1. If empty, the region is unknown.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	Region string `json:"region,omitempty"`
	// Zone of this cluster within its region, such as eu-west-1a.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	Zone string `json:"zone,omitempty"`
	// Imports selects the clusters that back an import: Others (the default), or All, which adds
	// the pool of this cluster itself.
	//
	// +kubebuilder:default=Others
	Imports ImportsFrom `json:"imports,omitempty"`
	// CreateNamespaces makes Penstock create the namespace of an import if it does not exist in
	// this cluster. If false, the pool is imported only once the namespace exists.
	CreateNamespaces bool `json:"createNamespaces,omitempty"`
	// PodCIDRs are the address ranges of this cluster's pods. Other members use a model server of
	// this cluster only if its address is in these ranges.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Members are the other clusters of the set.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Members []ClusterSetMember `json:"members,omitempty"`
	// PeerListener makes each Gateway of this cluster listen for requests from the members.
	// Gateways listen only if the set has members.
	PeerListener *ClusterSetPeerListener `json:"peerListener,omitempty"`
	// Draining makes the other members send no new requests to this cluster. Its pools stay
	// exported, and requests in flight complete. `penstock clusters drain` sets it.
	Draining bool `json:"draining,omitempty"`
}

// CheckClusterName returns the reason why name is invalid as the name of a cluster, or "". It
// applies the same rules as the pattern of ClusterSetSpec.Cluster.
func CheckClusterName(name string) string {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Sprintf("%.100q is no DNS label: at most %d lower-case letters, digits and -", name,
			validation.DNS1123LabelMaxLength)
	}
	return ""
}

// ImportsFrom selects the clusters that back an import.
//
// +kubebuilder:validation:Enum=Others;All
type ImportsFrom string

const (
	// ImportOthers selects the other members that export the pool.
	ImportOthers ImportsFrom = "Others"
	// ImportAll selects the other members and this cluster itself.
	ImportAll ImportsFrom = "All"
)

// ClusterSetStatus is the status of a ClusterSet.
type ClusterSetStatus struct {
	// ObservedGeneration is the generation of the object that the conditions describe. It is -1
	// before Penstock has written conditions. In a cluster that only has a hub, it is the
	// generation that the hub uses.
	//
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Members has the state of each member that Penstock keeps across a restart.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Members []ClusterSetMemberStatus `json:"members,omitempty"`
	// Conditions of the ClusterSet. Accepted is False if another ClusterSet is used. Stalled is
	// True, with the same reason, while Accepted is False.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterSetMemberStatus is the last published state of a member.
type ClusterSetMemberStatus struct {
	// Name of the cluster in the set.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// UID of the member's cluster. It differs if another cluster takes the same name later.
	//
	// +kubebuilder:validation:MaxLength=253
	UID string `json:"uid,omitempty"`
	// Epoch of a publication of the member. All exports up to this publication are known.
	//
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
	// Sequence is the publication's number within the epoch.
	//
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`
	// Draining reports that the member is draining: its exports take no new requests.
	Draining bool `json:"draining,omitempty"`
	// Bundle is the member's current set of CA certificates, in PEM: spec.members[].peer.bundle, or
	// newer certificates that the member published.
	//
	// +kubebuilder:validation:MaxLength=65536
	Bundle string `json:"bundle,omitempty"`
	// Started is when the member's process began to publish, by the member's clock. If the member's
	// epoch decreases, Penstock follows the member at once only if the process began later than
	// Started.
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
	// Peer configures a member whose Penstock exchanges exports with this cluster's Penstock.
	// `penstock hub` ignores such a member.
	Peer *ClusterSetPeer `json:"peer,omitempty"`
	// Kubeconfig configures a member whose API server `penstock hub` reads and writes. Only
	// `penstock hub` uses it.
	Kubeconfig *ClusterSetKubeconfig `json:"kubeconfig,omitempty"`
	// ClusterProfile configures a member that is in a cluster inventory. Only `penstock hub` uses
	// it: the hub reads and writes the member's API server.
	ClusterProfile *ClusterSetProfile `json:"clusterProfile,omitempty"`
	// Draining makes the hub send no new requests from the other members to this member. It applies
	// only to members of a hub; other clusters set spec.draining in their own ClusterSet.
	Draining bool `json:"draining,omitempty"`
	// Allow limits the exports that this cluster accepts from the member. It narrows the ranges
	// that the operator of Penstock allows (--allowed-cidrs).
	Allow ClusterSetAllow `json:"allow,omitempty"`
}

// ClusterSetPeer is the address and the identity of a member's Penstock. Run `penstock clusters
// show` in the member's cluster to print it.
type ClusterSetPeer struct {
	// Address at which the member's Penstock serves other members, as HOST:PORT.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=260
	Address string `json:"address"`
	// Bundle is the set of the member's CA certificates, in PEM. They are trusted only for SPIFFE
	// IDs of the member's trust domain. The trust domain is the member's name. The member publishes
	// newer certificates.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Bundle string `json:"bundle"`
	// Hub must not be true. Earlier builds used it for a hub that relayed between Penstocks.
	//
	// +kubebuilder:validation:XValidation:rule="!self",message="no hub relays between Penstocks any more: remove this member, and join the clusters that it relayed to each other with penstock clusters join; or use penstock hub with kubeconfig or clusterProfile"
	Hub bool `json:"hub,omitempty"`
}

// ClusterSetKubeconfig configures how a hub reaches the API server of a member.
type ClusterSetKubeconfig struct {
	// File is the name of a kubeconfig in the folder of `penstock hub --kubeconfigs`. Changes to
	// the file take effect within seconds.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9_.]*[-A-Za-z0-9_][-A-Za-z0-9_.]*$`
	File string `json:"file"`
	// Context of the kubeconfig. Defaults to its current-context.
	//
	// +kubebuilder:validation:MaxLength=253
	Context string `json:"context,omitempty"`
}

// ClusterSetProfile names a ClusterProfile (multicluster.x-k8s.io) in the hub's own cluster. The
// hub reaches the member through the profile's status.accessProviders and a provider of `penstock
// hub --clusterprofile-provider-file`.
type ClusterSetProfile struct {
	// Namespace of the ClusterProfile. The value of its label multicluster.x-k8s.io/clusterset must
	// be the name of the ClusterSet.
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

// ClusterSetPeerListener configures the port at which each Gateway accepts requests from members
// for the pools that this cluster exports to them. A member's Gateway connects with mTLS. Its
// certificate has the SPIFFE ID spiffe://CLUSTER/gateway of its own cluster, and is verified with
// the member's bundle. The Gateway here presents the corresponding certificate of this cluster. The
// server name (SNI) and the authority are both POOL.NAMESPACE.CLUSTER.pool.penstock. A member
// reaches only pools that are exported to it, at Gateways whose routes lead to these pools. Filters
// of routes do not apply to its requests.
type ClusterSetPeerListener struct {
	// Port that each Gateway binds in addition to the ports of its listeners. It must differ from
	// all of them. In a folder, only the first of several Gateways on one machine binds the port.
	// On Kubernetes, Penstock adds the port to the Services and NetworkPolicies of fleets.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Address at which members reach the port, as HOST:PORT. Defaults to the Gateway's addresses,
	// each with the number in port.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=260
	Address string `json:"address,omitempty"`
}

// Identity is a part of a caller's identity.
//
// +kubebuilder:validation:Enum=Owner;Groups
type Identity string

// The values of Identity.
const (
	IdentityOwner  Identity = "Owner"
	IdentityGroups Identity = "Groups"
)

// ClusterSetAllow limits the exports of a member. Only pools that the fields namespaces or pools
// allow are imported.
type ClusterSetAllow struct {
	// PodCIDRs are the allowed address ranges of the member's model servers. Defaults to all ranges
	// that the operator allows.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Addresses are the allowed address ranges of the member's pickers and gateways. Defaults to
	// all ranges that the operator allows.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Addresses []string `json:"addresses,omitempty"`
	// Namespaces are the namespaces from which all of the member's pools are imported. Defaults to
	// none.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Namespaces []string `json:"namespaces,omitempty"`
	// Pools are further pools that are imported from the member, each as NAMESPACE/NAME. Defaults
	// to none.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Pools []string `json:"pools,omitempty"`
	// Cleartext allows requests, including prompts and credentials, to reach gateways of the member
	// (ParentMode) without TLS. Peer listeners always use TLS.
	Cleartext bool `json:"cleartext,omitempty"`
	// Identities are the parts of a caller's identity that this cluster believes if the member
	// states them in requests to pools that are exported to it: Owner, and Groups, which needs
	// Owner. The caller is then MEMBER:CALLER in flow control and in access logs. The member's
	// AccessPolicies have verified the caller. Defaults to none.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="!('Groups' in self) || 'Owner' in self",message="Groups needs Owner: add Owner"
	Identities []Identity `json:"identities,omitempty"`
	// Exports is the maximum number of pools that are imported from the member, in the order of
	// namespace and name. Defaults to 1,000.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Exports *int32 `json:"exports,omitempty"`
	// Endpoints is the maximum number of model servers of all the member's pools together. Defaults
	// to 10,000.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Endpoints *int32 `json:"endpoints,omitempty"`
}
