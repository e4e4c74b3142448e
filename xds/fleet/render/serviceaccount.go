package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (b *builder) serviceAccount() *corev1.ServiceAccount {
	no := false // Envoy does not use the API server
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: b.meta(), AutomountServiceAccountToken: &no,
	}
}
