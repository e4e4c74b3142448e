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

// refused says whether the API server did not take an object for a field of it.
func refused(err error, field string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return strings.HasPrefix(c.Field, field) })
}

// anew is how a Service comes to have what Kubernetes lets nobody change of one that there is. To delete it is the user's to decide: its
// load balancer goes with it.
func anew(s *apply.Object) string {
	return fmt.Sprintf("delete the Service, which is then made anew: kubectl delete service --namespace %s %s", s.Namespace, s.Name)
}

// classKept is what is wrong if a Service was refused because the one that there is has another load balancer class, or one at all; else nil.
func classKept(there *apply.Object, wanted render.Object, err error) error {
	s, ok := wanted.(*corev1.Service)
	if !ok || !refused(err, "spec.loadBalancerClass") {
		return nil
	}
	class := ""
	if s.Spec.LoadBalancerClass != nil {
		class = *s.Spec.LoadBalancerClass
	}
	if there.Class == class {
		return nil
	}
	has, keep := "none", "remove it"
	if there.Class != "" {
		has, keep = there.Class, "write "+there.Class+" again"
	}
	return &render.Mistake{
		Field:   "spec.service.loadBalancerClass",
		Problem: fmt.Sprintf("%s has %s, which Kubernetes lets nobody change", there.Ref, has),
		Fix:     keep + ", or, for another load balancer and perhaps another address, " + anew(there),
	}
}
