package set

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/registry"
)

func memberRecord(m v1alpha1.ClusterSetMemberStatus) registry.Record {
	r := registry.Record{
		RecordID: registry.RecordID{Cluster: m.Name}, UID: m.UID, Stamp: stampOf(m.Epoch, m.Sequence),
		Draining: m.Draining, Bundle: []byte(m.Bundle),
	}
	if m.Started != nil {
		r.Started = m.Started.Time
	}
	return r
}

func memberStatus(r registry.Record) v1alpha1.ClusterSetMemberStatus {
	m := v1alpha1.ClusterSetMemberStatus{
		Name: r.Cluster, UID: r.UID, Epoch: int64(r.Stamp.Epoch), Sequence: int64(r.Stamp.Sequence),
		Draining: r.Draining, Bundle: string(r.Bundle),
	}
	if !r.Started.IsZero() {
		m.Started = &metav1.MicroTime{Time: r.Started.UTC()}
	}
	return m
}

func exportRecord(p *v1alpha1.PoolExport) registry.Record {
	return registry.Record{
		RecordID: registry.RecordID{Cluster: p.Spec.Cluster,
			Pool: objectid.Pool{Namespace: p.Namespace, Name: p.Spec.Pool}},
		UID: p.Status.ClusterUID, Stamp: stampOf(p.Status.Epoch, p.Status.Sequence), Entry: *p.Status.Entry,
		Since: sinceOf(p.Status.Since), Withdrawn: p.Status.Withdrawn,
	}
}

func exportStatus(r registry.Record) v1alpha1.PoolExportStatus {
	entry := deepcopy.Of(&r.Entry)
	entry.Endpoints = nil
	return v1alpha1.PoolExportStatus{
		ClusterUID: r.UID, Epoch: int64(r.Stamp.Epoch), Sequence: int64(r.Stamp.Sequence), Since: sinceTime(r.Since),
		Withdrawn: r.Withdrawn, Entry: entry,
	}
}

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
