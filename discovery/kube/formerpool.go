package kube

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/status/shape"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// pools returns the kinds of InferencePools. Before v1, InferencePools had another API group.
// Releases of the inference extension up to v1.4 still install a CRD in this group.
func pools() (today, former *kind) {
	today = backend(custom(store.InferencePools, "inferencepools", "v1"))
	today.rivals = newRivals()
	former = &kind{
		table: formerPools{store.InferencePools}, resource: "inferencepools", versions: []string{"v1alpha2"},
		list:   newList[list[formerPool]],
		status: shape.FormerPool(func(obj store.Object) *shape.FormerPoolStatus { return &obj.(*formerPool).former }),
		role:   isBackend, instead: today, rivals: today.rivals,
	}
	return today, former
}

type formerPools struct{ table }

type table = store.Kind // an alias, because store.Kind has a method Kind

func (formerPools) Group() string { return inferenceapi.Group }

func (formerPools) New() store.Object { return &formerPool{} }

func (t formerPools) PutObject(obj store.Object) store.Op {
	return t.table.PutObject(&obj.(*formerPool).InferencePool)
}

type formerPool struct {
	inferencev1.InferencePool
	former shape.FormerPoolStatus
}

func (p *formerPool) DeepCopyObject() runtime.Object {
	return &formerPool{InferencePool: *p.InferencePool.DeepCopy(), former: *deepcopy.Of(&p.former)}
}

// UnmarshalJSON decodes an InferencePool of v1alpha2, which has one target port, a selector without
// matchLabels, and an extensionRef with an optional port.
func (p *formerPool) UnmarshalJSON(text []byte) error {
	var old struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Selector         map[inferencev1.LabelKey]inferencev1.LabelValue `json:"selector"`
			TargetPortNumber inferencev1.PortNumber                          `json:"targetPortNumber"`
			ExtensionRef     *struct {
				Group       *inferencev1.Group                    `json:"group"`
				Kind        inferencev1.Kind                      `json:"kind"`
				Name        inferencev1.ObjectName                `json:"name"`
				PortNumber  *inferencev1.PortNumber               `json:"portNumber"`
				FailureMode inferencev1.EndpointPickerFailureMode `json:"failureMode"`
			} `json:"extensionRef"`
		} `json:"spec"`
		Status shape.FormerPoolStatus `json:"status"`
	}
	if err := json.Unmarshal(text, &old); err != nil {
		return err
	}
	p.TypeMeta, p.ObjectMeta, p.former = old.TypeMeta, old.ObjectMeta, old.Status
	p.Spec = inferencev1.InferencePoolSpec{
		Selector:    inferencev1.LabelSelector{MatchLabels: old.Spec.Selector},
		TargetPorts: []inferencev1.Port{{Number: old.Spec.TargetPortNumber}},
	}
	if ref := old.Spec.ExtensionRef; ref != nil && ref.Name != "" {
		port := inferencev1.Port{Number: 9002}
		if ref.PortNumber != nil {
			port.Number = *ref.PortNumber
		}
		p.Spec.EndpointPickerRef = &inferencev1.EndpointPickerRef{
			Group: ref.Group, Kind: ref.Kind, Name: ref.Name, Port: &port, FailureMode: ref.FailureMode,
		}
	}
	return nil
}
