package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// PoolExport is a pool that a cluster of the set exports. The cluster may be this cluster. Penstock
// writes these objects and reads them when it starts, so that exports of an unreachable member
// survive a restart. An export that the ClusterSet does not allow has no PoolExport. The name of a
// PoolExport is POOL.CLUSTER.
//
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
	// Status is the published state of the export.
	//
	// +optional
	// +kubebuilder:default={}
	Status PoolExportStatus `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (in *PoolExport) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// PoolExportSpec identifies the exported pool and its cluster.
type PoolExportSpec struct {
	// Cluster that exports the pool, by its name in the set.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cluster cannot change"
	Cluster string `json:"cluster"`
	// Pool is the name of the InferencePool in the exporting cluster. The namespace there has the
	// same name as the namespace of this object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="pool cannot change"
	Pool string `json:"pool"`
}

// PoolExportStatus is the published state of an export.
type PoolExportStatus struct {
	// ClusterUID is the UID of the exporting cluster. It differs if another cluster takes the same
	// name later.
	//
	// +kubebuilder:validation:MaxLength=253
	ClusterUID string `json:"clusterUID,omitempty"`
	// Epoch and Sequence order the publications of the cluster. Older publications are ignored.
	//
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
	// Sequence of the publication within the epoch.
	//
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`
	// Since is when this cluster first imported the export. If a name is ambiguous between two
	// exports, the older export is used.
	Since *metav1.MicroTime `json:"since,omitempty"`
	// Withdrawn reports that the cluster no longer exports the pool. The export takes no new
	// requests and is removed after the drain time.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Entry describes how to reach the pool: its picker with the type, addresses and ports of its
	// Services, or its gateways. It has no endpoints: these never pass through an API server.
	Entry *inferenceapi.ImportedCluster `json:"entry,omitempty"`
	// Conditions of the export. Accepted is False, and Stalled True, if this cluster does not use
	// the export; the exporter gets the same reason. Reconciling is True before Penstock has
	// written the export, and while a withdrawn export drains.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:default={{type: "Reconciling", status: "True", reason: "Pending", message: "Penstock has not written the export yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
