package clusterset

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/registry"
)

func memberRecord(m v1alpha1.ClusterSetMemberStatus) registry.Record {
	return registry.Record{RecordID: registry.RecordID{Cluster: m.Name}, UID: m.UID, Stamp: stampOf(m.Epoch, m.Sequence), Draining: m.Draining, Bundle: []byte(m.Bundle)}
}

func memberStatus(r registry.Record) v1alpha1.ClusterSetMemberStatus {
	return v1alpha1.ClusterSetMemberStatus{
		Name: r.Cluster, UID: r.UID, Epoch: int64(r.Stamp.Epoch), Sequence: int64(r.Stamp.Sequence), Draining: r.Draining, Bundle: string(r.Bundle),
	}
}

// sinceOf and sinceTime convert registry.Export.Since.
func sinceOf(t *metav1.MicroTime) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

func sinceTime(since int64) *metav1.MicroTime {
	if since == 0 {
		return nil
	}
	return &metav1.MicroTime{Time: time.UnixMicro(since).UTC()}
}
