package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

func invalid(err error, field string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes,
		func(c metav1.StatusCause) bool { return strings.HasPrefix(c.Field, field) })
}

// Penstock never deletes the Service, because its load balancer would be deleted, too.
func recreate(s *apply.Object) string {
	return fmt.Sprintf("delete the Service, and Penstock creates it again: kubectl delete service --namespace %s %s",
		s.Namespace, s.Name)
}

func classImmutable(there *apply.Object, wanted render.Object, err error) error {
	s, ok := wanted.(*corev1.Service)
	if !ok || !invalid(err, "spec.loadBalancerClass") {
		return nil
	}
	class := ""
	if s.Spec.LoadBalancerClass != nil {
		class = *s.Spec.LoadBalancerClass
	}
	if there.Class == class {
		return nil
	}
	has, keep := "none", "remove the field"
	if there.Class != "" {
		has, keep = there.Class, "write "+there.Class+" again"
	}
	return &render.InvalidField{
		Field:   "spec.service.loadBalancerClass",
		Problem: fmt.Sprintf("%s has %s, which is immutable", there.Ref, has),
		Fix:     keep + ", or, for another load balancer and perhaps another address, " + recreate(there),
	}
}
