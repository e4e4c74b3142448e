package set

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/shape"
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

func recordID(p *v1alpha1.PoolExport) registry.RecordID {
	return registry.RecordID{Cluster: p.Spec.Cluster, Pool: objectid.Pool{Namespace: p.Namespace, Name: p.Spec.Pool}}
}

func exportRecord(p *v1alpha1.PoolExport) registry.Record {
	return registry.Record{
		RecordID: recordID(p), UID: p.Status.ClusterUID, Stamp: stampOf(p.Status.Epoch, p.Status.Sequence),
		Entry: *p.Status.Entry, Since: sinceOf(p.Status.Since), Withdrawn: p.Status.Withdrawn,
	}
}

func exportStatus(r registry.Record) v1alpha1.PoolExportStatus {
	entry := deepcopy.Of(&r.Entry)
	entry.Endpoints = nil
	return v1alpha1.PoolExportStatus{
		ClusterUID: r.UID, Epoch: int64(r.Stamp.Epoch), Sequence: int64(r.Stamp.Sequence), Since: sinceTime(r.Since),
		Withdrawn: r.Withdrawn, Entry: entry, Conditions: exportConditions(r),
	}
}

func exportConditions(r registry.Record) []metav1.Condition {
	accepted := metav1.Condition{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"}
	reconciling := metav1.Condition{Type: "Reconciling", Status: metav1.ConditionFalse, Reason: "Accepted"}
	stalled := metav1.Condition{Type: shape.Stalled, Status: metav1.ConditionFalse, Reason: "Accepted"}
	if r.Reason != "" {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, r.Reason, r.Message
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, r.Reason, r.Message
		reconciling.Reason = r.Reason
	}
	if r.Withdrawn {
		reconciling.Status, reconciling.Reason = metav1.ConditionTrue, "Withdrawn"
		reconciling.Message = "its cluster no longer exports the pool; the export is removed after the drain time"
	}
	return []metav1.Condition{accepted, reconciling, stalled}
}

func ownConditions() []metav1.Condition { return exportConditions(registry.Record{}) }

// settled reports whether the conditions of a PoolExport need no update. Earlier releases wrote
// none.
func settled(list []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(list, "Accepted") && meta.IsStatusConditionFalse(list, "Reconciling")
}

func (k *Kubernetes) know(list []v1alpha1.PoolExport) {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.known)
	for i := range list {
		p := &list[i]
		k.known[recordID(p)] = p.Status.Conditions
	}
}

func (k *Kubernetes) conditions(id registry.RecordID, want []metav1.Condition) []metav1.Condition {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := slices.Clone(want)
	settle(k.known[id], metav1.NewTime(time.Now().Truncate(time.Second)), out)
	k.known[id] = out
	return out
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
