package render

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func (b *builder) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	a := b.Spec.Autoscaling
	least, percent := minReplicas(a), or(a.CPUPercent, 60)
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: b.meta(),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: "apps/v1", Kind: "Deployment", Name: b.name,
			},
			MinReplicas: &least, MaxReplicas: a.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent,
					},
				},
			}},
		},
	}
}

func minReplicas(a *v1alpha1.FleetAutoscaling) int32 { return or(a.MinReplicas, min(2, a.MaxReplicas)) }
