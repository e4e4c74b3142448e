package render_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

func TestEnvoyFleet_InvalidFieldIsKnownWithoutAGateway(t *testing.T) {
	memory := func(text string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse(text)}}
	}
	for want, specs := range map[string][]v1alpha1.EnvoyFleetSpec{
		"": {
			{}, {Resources: memory("64Mi")}, {Mode: v1alpha1.FleetExternal},
			{Bootstrap: &runtime.RawExtension{Raw: []byte(`{"flags_path": "/etc/flags"}`)}},
			{Mode: v1alpha1.FleetExternal, External: &v1alpha1.FleetExternalSpec{
				Addresses: []string{"192.0.2.1", "edge.example.com"}}},
		},
		"spec.resources.limits.memory": {{Resources: memory("1Mi")}},
		"spec.bootstrap":               {{Bootstrap: &runtime.RawExtension{Raw: []byte(`{"no_such_field": 1}`)}}},
		"spec.external.addresses": {{Mode: v1alpha1.FleetExternal, External: &v1alpha1.FleetExternalSpec{
			Addresses: []string{"192.0.2.1", "an address"}}}},
	} {
		for _, spec := range specs {
			field := ""
			if bad := render.Problem(&spec); bad != nil {
				field = bad.Field
			}
			if field != want {
				t.Errorf("%+v: the problem is in %q, want %q", spec, field, want)
			}
		}
	}
}
