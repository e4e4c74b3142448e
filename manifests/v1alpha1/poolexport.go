package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// PoolExport is a pool that a cluster of the set exports and this cluster imports, or that it
// exports itself. Penstock writes these objects and reads them when it starts, so that a restart
// keeps the exports of a member that is away. An export that the ClusterSet does not allow has
// none. Its name is POOL.CLUSTER.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=pexp
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name=Pool,type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name=Cluster,type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.status.entry.routingMode`
// +kubebuilder:printcolumn:name=Withdrawn,type=boolean,JSONPath=`.status.withdrawn`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type PoolExport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PoolExportSpec `json:"spec"`
	// +optional
	Status PoolExportStatus `json:"status,omitempty"`
}

// PoolExportSpec names what is exported, and by which cluster.
type PoolExportSpec struct {
	// Cluster that exports the pool, by its name in the set.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cluster cannot change"
	Cluster string `json:"cluster"`
	// Pool is the name of the InferencePool in the exporting cluster, in the namespace of this
	// object's name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="pool cannot change"
	Pool string `json:"pool"`
}

// PoolExportStatus is what the cluster offers.
type PoolExportStatus struct {
	// ClusterUID is the UID of the cluster that exports the pool. A cluster that takes the name
	// later has another one.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClusterUID string `json:"clusterUID,omitempty"`
	// Epoch and Sequence order what the cluster publishes; what is older has no effect.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
	// Sequence within the epoch.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`
	// Since is when this cluster began to import the export. Of two exports that a name may mean,
	// the older one counts.
	//
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`
	// Withdrawn: the cluster does not export the pool any more. The export takes no new request,
	// and is removed after the drain time.
	//
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Entry is how the pool is reached: the picker with its Services' type, addresses and ports, or
	// the gateways. Endpoints are not part of it: they never pass through an API server.
	//
	// +optional
	Entry *inferenceapi.ImportedCluster `json:"entry,omitempty"`
}

// PoolExportList is a list of PoolExports.
//
// +kubebuilder:object:root=true
type PoolExportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PoolExport `json:"items"`
}
