package shape

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// FormerPoolStatus is the status of an InferencePool in v1alpha2.
type FormerPoolStatus struct {
	Parents []FormerParent `json:"parent,omitempty"`
}

// FormerParent is an entry of FormerPoolStatus. It has no controller name.
type FormerParent struct {
	ParentRef  inferencev1.ParentReference `json:"parentRef"`
	Conditions []metav1.Condition          `json:"conditions,omitempty"`
}

// FormerPool is the shape of an InferencePool's status in v1alpha2, which has no controller names:
// an entry belongs to Penstock if its parent is a Gateway in the report. Other entries stay.
func FormerPool(status func(store.Object) *FormerPoolStatus) *Shape {
	today := InferencePool()
	return &Shape{
		Take: func(obj store.Object) any { return take(status(obj)) },
		Make: func(in Input) any {
			old := in.Old.(*FormerPoolStatus)
			before := &inferencev1.InferencePoolStatus{}
			for _, p := range old.Parents {
				before.Parents = append(before.Parents,
					inferencev1.ParentStatus{ParentRef: p.ParentRef, Conditions: p.Conditions})
			}
			in.Old = before
			after := today.Make(in).(*inferencev1.InferencePoolStatus)
			if after == before {
				return old
			}
			out := &FormerPoolStatus{}
			for _, p := range after.Parents {
				out.Parents = append(out.Parents, FormerParent{p.ParentRef, p.Conditions})
			}
			return out
		},
	}
}
