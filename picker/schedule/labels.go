package schedule

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
)

func labelSelector(p endpointpicker.Instance) func(*endpoint.Endpoint, *endpoint.State) bool {
	selector, err := metav1.LabelSelectorAsSelector(
		(*metav1.LabelSelector)(p.Parameters.(*endpointpicker.LabelSelector)))
	if err != nil { // unreachable: endpointpicker.Resolve has checked it
		selector = labels.Nothing()
	}
	return func(e *endpoint.Endpoint, _ *endpoint.State) bool { return selector.Matches(labels.Set(e.Labels)) }
}

func role(p endpointpicker.Instance) func(*endpoint.Endpoint, *endpoint.State) bool {
	return func(e *endpoint.Endpoint, _ *endpoint.State) bool { return endpointpicker.HasRole(p.Type, e.Labels) }
}
