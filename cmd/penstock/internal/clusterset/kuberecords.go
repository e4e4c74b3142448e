package clusterset

import (
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
