package set

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/imports"
)

const prunedMessage = "the installed CRD of InferencePoolImport has no status.clusters: imports list the names of " +
	"their clusters alone. Requests are routed all the same. For the whole status, apply the CRD of Penstock's chart"

const prunedForHubMessage = "the installed CRD of InferencePoolImport has no status.clusters. Conditions " +
	inferenceapi.ClustersCondition + " have them, which Penstock reads; " +
	"for other gateways, apply the CRD of Penstock's chart"

// writePruned applies the part of an import's status that the upstream CRD has, which lacks
// status.clusters.
func (k *Kubernetes) writePruned(ctx context.Context, p objectid.Pool, w writing,
	want inferenceapi.InferencePoolImportStatus) (applied inferenceapi.InferencePoolImportStatus, err error) {
	only := inferenceapi.InferencePoolImportStatus{Controllers: slices.Clone(want.Controllers)}
	accepted, message := only.Controllers[0].Conditions[0], prunedMessage
	if k.cfg.Hub != nil {
		message = prunedForHubMessage
	}
	only.Controllers[0].Conditions = append(slices.Clone(want.Controllers[0].Conditions), metav1.Condition{
		Type: conditionClustersPruned, Status: metav1.ConditionTrue, Reason: crdOfAnotherReason, Message: message,
		ObservedGeneration: accepted.ObservedGeneration, LastTransitionTime: accepted.LastTransitionTime,
	})
	if k.cfg.Hub != nil {
		carried, err := inferenceapi.Carry(want.Clusters, accepted.ObservedGeneration, accepted.LastTransitionTime)
		if err != nil {
			return applied, fmt.Errorf("InferencePoolImport %s/%s: %w", p.Namespace, p.Name, err)
		}
		ready := slices.DeleteFunc(slices.Clone(want.Conditions),
			func(c metav1.Condition) bool { return c.Type != imports.ConditionReady })
		only.Controllers[0].Conditions = slices.Concat(only.Controllers[0].Conditions, ready, carried)
	}
	w.force = true
	if err = k.applyAs(ctx, w, importKind, "InferencePoolImport", p.Namespace, p.Name, map[string]any{"status": only},
		"status"); err != nil {
		return applied, err
	}
	return want, nil
}

func (k *Kubernetes) prunes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pruned
}

func (k *Kubernetes) setPruned(pruned bool) {
	k.mu.Lock()
	changed := k.pruned != pruned
	k.pruned = pruned
	k.mu.Unlock()
	if changed {
		k.report()
	}
}

func undeclared(err error) bool {
	return err != nil && strings.Contains(err.Error(), "field not declared in schema")
}
