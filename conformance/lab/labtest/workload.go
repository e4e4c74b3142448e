package labtest

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolledOut waits until all pods of a Deployment are available and of its newest generation.
func (p Place) RolledOut(namespace, name string) *appsv1.Deployment {
	p.Helper()
	var d *appsv1.Deployment
	p.Until("the rollout of "+name, func(ctx context.Context) (err error) {
		if d, err = p.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		n := *d.Spec.Replicas
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != n || s.AvailableReplicas != n ||
			s.Replicas != n {
			return fmt.Errorf("got %+v, want %d replicas, updated and available", s, n)
		}
		pods, err := p.CoreV1().Pods(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
		if err == nil && len(pods.Items) != int(n) {
			err = fmt.Errorf("got %d pods, want %d", len(pods.Items), n)
		}
		return err
	})
	return d
}

// PodLog returns the log of a pod's container; "" means the only container. previous selects the
// instance before the last restart.
func (p Place) PodLog(ctx context.Context, namespace, pod, container string, previous bool) (string, error) {
	raw, err := p.CoreV1().Pods(namespace).GetLogs(pod,
		&corev1.PodLogOptions{Container: container, Previous: previous}).DoRaw(ctx)
	return string(raw), err
}
