package shape

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// MultiCluster is the controllerName of Penstock's multi-cluster controller. The controller writes
// the entry in a pool's status about imports of the pool in other clusters, and the clusters in the
// status of an import.
const MultiCluster = v1alpha1.Group + "/multicluster-controller"

// Hub is the controllerName of a hub, which writes the same entries into its members. For a
// member's own Penstock, a hub is another controller.
const Hub = v1alpha1.Group + "/multicluster-hub"

// InferencePool is the shape of an InferencePool's status. The status has an entry for each
// Gateway, and one entry about imports of the pool in other clusters.
func InferencePool() *Shape {
	return &Shape{
		Take: func(obj store.Object) any { return take(&obj.(*inferencev1.InferencePool).Status) },
		Make: func(in Input) any {
			old := in.Old.(*inferencev1.InferencePoolStatus)
			out := &inferencev1.InferencePoolStatus{}
			var mine []inferencev1.ParentStatus
			for _, entry := range old.Parents {
				switch {
				case placeholder(entry):
				case !in.ours(entry):
					out.Parents = append(out.Parents, entry)
				case in.later(entry.Conditions):
					return old
				default:
					mine = append(mine, entry)
				}
			}
			out.Parents = append(out.Parents, in.poolParents(mine)...)
			if len(out.Parents) == 0 && len(old.Parents) == 0 {
				return old
			}
			return out
		},
	}
}

// placeholder reports whether an entry is the default entry that CRDs before v1.1 set in each new
// pool.
func placeholder(entry inferencev1.ParentStatus) bool {
	return entry.ParentRef.Kind == "Status" && entry.ParentRef.Name == "default"
}

// ours reports whether an entry in a pool's status belongs to Penstock. If the CRD is older,
// entries have no controllerName. Then an entry belongs to Penstock if its parent is a Gateway in
// the report.
func (in Input) ours(entry inferencev1.ParentStatus) bool {
	if entry.ControllerName != "" {
		return string(entry.ControllerName) == in.Controller || string(entry.ControllerName) == MultiCluster
	}
	return slices.ContainsFunc(in.Report.Parents, func(p report.Parent) bool { return p.Ref == in.poolParent(entry) })
}

func (in Input) poolParent(entry inferencev1.ParentStatus) report.ParentRef {
	ref := report.ParentRef{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: in.Object.GetNamespace(),
		Name: string(entry.ParentRef.Name)}
	if entry.ParentRef.Group != nil {
		ref.Group = string(*entry.ParentRef.Group)
	}
	if entry.ParentRef.Kind != "" {
		ref.Kind = string(entry.ParentRef.Kind)
	}
	if entry.ParentRef.Namespace != "" {
		ref.Namespace = string(entry.ParentRef.Namespace)
	}
	return ref
}

func (in Input) poolParents(old []inferencev1.ParentStatus) (out []inferencev1.ParentStatus) {
	for _, p := range in.Report.Parents {
		var before []metav1.Condition
		if i := slices.IndexFunc(old, func(o inferencev1.ParentStatus) bool {
			return in.poolParent(o) == p.Ref
		}); i >= 0 {
			before = old[i].Conditions
		}
		group, controller := inferencev1.Group(p.Ref.Group), in.Controller
		if p.Ref.Kind == store.InferencePoolImports.Kind() {
			controller = MultiCluster
		}
		out = append(out, inferencev1.ParentStatus{
			ParentRef: inferencev1.ParentReference{
				Group: &group, Kind: inferencev1.Kind(p.Ref.Kind), Namespace: inferencev1.Namespace(p.Ref.Namespace),
				Name: inferencev1.ObjectName(p.Ref.Name),
			},
			ControllerName: inferencev1.ControllerName(controller),
			Conditions:     in.conditions(before, p.Conditions),
		})
	}
	return out
}

// InferencePoolImport is the shape of an import's status. Make writes only the entry of Penstock's
// gateway controller in status.controllers (ImportController.Name), with a parent for each Gateway.
// Take leaves three parts of the status in the object, because translation reads them: False
// conditions, the clusters of other controllers, and other controllers with False conditions.
// Translation reads the clusters of Penstock's own controller from Offers instead, because the
// status is out of date while no process leads.
func InferencePoolImport() *Shape {
	return &Shape{
		Take: func(obj store.Object) any {
			imp := obj.(*inferenceapi.InferencePoolImport)
			out := imp.Status
			out.Clusters = uncarried(&out)
			imp.Status = inferenceapi.InferencePoolImportStatus{
				Clusters: unmirrored(&out), Conditions: withheld(&out), Controllers: declining(&out),
			}
			return &out
		},
		Make: func(in Input) any {
			old := in.Old.(*inferenceapi.InferencePoolImportStatus)
			i := slices.IndexFunc(old.Controllers,
				func(c upstream.ImportController) bool { return string(c.Name) == in.Controller })
			var before []inferencev1.ParentStatus
			if i >= 0 {
				before = old.Controllers[i].Parents
			}
			for _, p := range before {
				if in.later(p.Conditions) {
					return old
				}
			}
			out := *old
			out.Controllers = slices.Clone(old.Controllers)
			entry := upstream.ImportController{Name: upstream.ControllerName(in.Controller),
				Parents: in.poolParents(before)}
			switch {
			case len(entry.Parents) == 0 && i < 0:
				return old
			case len(entry.Parents) == 0:
				out.Controllers = slices.Delete(out.Controllers, i, i+1)
			case i < 0:
				out.Controllers = append(out.Controllers, entry)
			default:
				out.Controllers[i] = entry
			}
			return &out
		},
	}
}

// uncarried returns the clusters in an import's status. If the installed CRD has no field for
// clusters, it decodes the conditions into which a hub encoded them.
func uncarried(s *inferenceapi.InferencePoolImportStatus) []inferenceapi.ImportedCluster {
	i := slices.IndexFunc(s.Controllers, func(c upstream.ImportController) bool { return c.Name == Hub })
	if i < 0 || len(s.Clusters) > 0 {
		return s.Clusters
	}
	return inferenceapi.Carried(s.Controllers[i].Conditions)
}

// withheld returns the False conditions of an import. For a status that Penstock wrote it returns
// none, because each cluster then has its own conditions.
func withheld(s *inferenceapi.InferencePoolImportStatus) []metav1.Condition {
	if slices.ContainsFunc(s.Controllers, func(c upstream.ImportController) bool {
		return v1alpha1.OfPenstock(string(c.Name))
	}) {
		return nil
	}
	return untrue(s.Conditions)
}

func declining(s *inferenceapi.InferencePoolImportStatus) (out []upstream.ImportController) {
	for _, c := range s.Controllers {
		if no := untrue(c.Conditions); len(no) > 0 && len(c.ExportingClusters) > 0 &&
			!v1alpha1.OfPenstock(string(c.Name)) {
			out = append(out, upstream.ImportController{
				Name: c.Name, ExportingClusters: c.ExportingClusters, Conditions: no,
			})
		}
	}
	return out
}

// untrue returns the type, status and reason of the False conditions. Other fields may change while
// the condition stays False.
func untrue(all []metav1.Condition) (out []metav1.Condition) {
	for _, c := range all {
		if c.Status == metav1.ConditionFalse {
			out = append(out, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	return out
}

func unmirrored(s *inferenceapi.InferencePoolImportStatus) []inferenceapi.ImportedCluster {
	i := slices.IndexFunc(s.Controllers, func(c upstream.ImportController) bool { return c.Name == MultiCluster })
	if i < 0 {
		return s.Clusters
	}
	mine := s.Controllers[i].ExportingClusters
	return slices.DeleteFunc(slices.Clone(s.Clusters), func(c inferenceapi.ImportedCluster) bool {
		return slices.ContainsFunc(mine, func(e upstream.ExportingCluster) bool { return string(e.Name) == c.Name })
	})
}
