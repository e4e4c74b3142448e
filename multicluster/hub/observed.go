package hub

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// observed writes status.observedGeneration of the ClusterSet, for which kstatus waits. If the
// status has conditions, a Penstock of this cluster writes it, and the hub must not.
func (h *Hub) observed(ctx context.Context, clusterSet *v1alpha1.ClusterSet) {
	if h.source == nil || clusterSet == nil {
		return
	}
	ref := store.ClusterSets.Ref(clusterSet)
	live, ok := h.source.Live(ref)
	if !ok {
		return
	}
	status := live.Status.(*v1alpha1.ClusterSetStatus)
	unset := status.ObservedGeneration == 0 // never written: the installed CRD lacks the field
	if unset || len(status.Conditions) > 0 || status.ObservedGeneration == clusterSet.Generation {
		return
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion},
		"status":   map[string]any{"observedGeneration": clusterSet.Generation},
	})
	if err == nil {
		err = h.source.Patch(ctx, ref, live, "status", body)
	}
	switch {
	case err == nil, ctx.Err() != nil, apierrors.IsConflict(err), apierrors.IsNotFound(err): // the hub retries
	case h.unwritten:
	default:
		h.unwritten = true
		h.log.Warn("the ClusterSet's status cannot be written: tools such as Flux wait for it", "error", err)
	}
}
