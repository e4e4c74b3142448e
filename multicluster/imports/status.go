package imports

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

const (
	ConditionAccepted     = "Accepted"
	ConditionReady        = "Ready"
	ConditionEPPReady     = "EPPReady"     // state of the picker of a cluster in EndpointMode
	ConditionParentsReady = "ParentsReady" // state of the gateways of a cluster in ParentMode
)

// Reasons of the conditions above. A cluster gets no new requests if its condition Ready is False.
// It gets requests if Ready is Unknown.
const (
	AcceptedReason       = "Accepted"
	ReadyReason          = "Ready"
	NoReadyClusterReason = "NoReadyCluster" // no cluster of the import gets requests
	// StaleReason, with status Unknown: the cluster is connected, but silent. As the reason of an
	// import: no cluster is Ready, but some get requests.
	StaleReason       = "Stale"
	UnreachableReason = "Unreachable" // the condition's status is Unknown
	PickerDownReason  = "PickerDown"  // the condition's status is Unknown
	DrainingReason    = "Draining"    // the condition's status is False
)

// Source is one exporting cluster of an import.
type Source struct {
	Entry inferenceapi.ImportedCluster
	// State is the state of the member that exports; "": the cluster is no longer in the set.
	State registry.State
	// Draining means that the member withdrew the export, or drains.
	Draining bool
	// NotAllowed states why the export is not imported; "": it is imported.
	NotAllowed string
	// PickerDown describes how the cluster's picker fails; "": no failure is known.
	PickerDown string

	reason, message string
	most            int
	gone            bool
	incarnation     uint64
	unnamed         bool
	since           int64 // Export.Since; 0 for this cluster
	local           bool
}

// imported reports whether routes may use the cluster.
func (s *Source) imported() bool {
	return s.Entry.RoutingMode != "" && s.routed()
}

// NotSupported concerns only a newer version of the export, and Conflict only the status of the
// import.
func (s *Source) routed() bool {
	return s.reason == "" || s.reason == NotSupportedReason || s.reason == ConflictReason
}

func (s *Source) well() bool {
	return s.Entry.RoutingMode != "" && s.reason == "" && s.ready().Status == metav1.ConditionTrue
}

func (s *Source) ready() metav1.Condition {
	out := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionUnknown}
	switch {
	case s.NotAllowed != "":
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, NotAllowedReason, s.NotAllowed
	case s.Draining, s.State == registry.Draining:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, DrainingReason,
			"the cluster has withdrawn its export, or drains"
	case s.State == registry.Stale:
		out.Reason, out.Message = StaleReason, "the cluster is connected and silent"
	case s.State == registry.Unreachable:
		out.Reason, out.Message = UnreachableReason, "the cluster is not connected"
	case s.PickerDown != "":
		out.Reason, out.Message = PickerDownReason, s.PickerDown
	default:
		out.Status, out.Reason = metav1.ConditionTrue, ReadyReason
	}
	return out
}

func (s *Source) conditions(generation int64) []metav1.Condition {
	ready := s.ready()
	servers := ready
	servers.Type = ConditionEPPReady
	if s.Entry.RoutingMode == inferenceapi.ParentMode {
		servers.Type = ConditionParentsReady
	}
	if s.PickerDown != "" && ready.Reason == PickerDownReason {
		servers.Status = metav1.ConditionFalse
	}
	ready.ObservedGeneration, servers.ObservedGeneration = generation, generation
	return []metav1.Condition{servers, ready}
}

// StatusOf returns an import's status, without transition times. The result shares lists with the
// sources. The entry of a cluster that is not allowed has only its name, mode, target ports, weight
// 0 and the reason.
func StatusOf(sources []Source, generation int64) (out inferenceapi.InferencePoolImportStatus) {
	out.ObservedGeneration = generation
	var ready, unknown int
	var not []string
	for _, s := range sources {
		if s.NotAllowed == "" && !s.routed() {
			s.NotAllowed = s.message
		}
		if s.Entry.RoutingMode == "" {
			continue
		}
		c := s.Entry
		c.Local = s.local // ignores the exporter's value
		if s.NotAllowed != "" {
			none := int32(0)
			c = inferenceapi.ImportedCluster{Name: c.Name, RoutingMode: c.RoutingMode,
				TargetPortNumber: c.TargetPortNumber, TargetPorts: c.TargetPorts, Weight: &none}
		}
		c.Conditions = s.conditions(generation)
		r := c.Conditions[1]
		if r.Status == metav1.ConditionTrue {
			ready++
		} else {
			not = append(not, c.Name+" is "+r.Reason)
		}
		if r.Status == metav1.ConditionUnknown {
			unknown++
		}
		out.Clusters = append(out.Clusters, c)
	}
	condition := metav1.Condition{Type: ConditionReady, ObservedGeneration: generation,
		Message: fmt.Sprintf("%d of %d exporting clusters are ready", ready, len(out.Clusters))}
	if len(not) > 0 {
		condition.Message += ": " + registry.Listed(not)
	}
	switch {
	case ready > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, ReadyReason
	case unknown > 0:
		condition.Status, condition.Reason = metav1.ConditionUnknown, StaleReason
	default:
		condition.Status, condition.Reason = metav1.ConditionFalse, NoReadyClusterReason
	}
	accepted := metav1.Condition{Type: ConditionAccepted, Status: metav1.ConditionTrue, Reason: AcceptedReason,
		ObservedGeneration: generation}
	out.Conditions = []metav1.Condition{accepted, condition}
	return out
}
