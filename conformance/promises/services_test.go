//go:build lab && linux

package promises

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Gateway gets the type of Service that its EnvoyFleet names, and reports the Service's
// addresses. If Kubernetes forbids a change, a condition has the command that resolves the problem.
func servicesOfEveryKind(p place) {
	p.apply(chat + plainGateway)
	balanced := p.programmed("gw")[0]
	nodes, err := p.CoreV1().Nodes().List(p.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		p.Fatalf("%d nodes: %v, want 1", len(nodes.Items), err)
	}
	node := nodes.Items[0].Status.Addresses[0].Address

	p.fleetIs(small + "service: {type: ClusterIP, annotations: {example.com/pool: internal}}")
	s := p.service("it is inside the cluster", func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeClusterIP && s.Annotations["example.com/pool"] == "internal"
	})
	p.Until("the address is the Service's", func(ctx context.Context) error { return p.at(ctx, s.Spec.ClusterIP) })

	p.fleetIs(small + "service: {type: NodePort, externalTrafficPolicy: Local}")
	s = p.service("nodes have its port", func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeNodePort &&
			s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	})
	p.Until("the address is the node's", func(ctx context.Context) error { return p.at(ctx, node) })
	p.answers("http://" + net.JoinHostPort(p.programmed("gw")[0], strconv.Itoa(int(s.Spec.Ports[0].NodePort))) +
		"/health")

	p.fleetIs(small + "service: {loadBalancerClass: example.com/none}")
	p.service("it has a class", func(s *corev1.Service) bool { return s.Spec.LoadBalancerClass != nil })
	p.fleetIs(small + "replicas: 1")
	p.Until("the condition names the command that removes the class", func(ctx context.Context) error {
		gw, err := p.gateway(ctx, "gw")
		if err != nil {
			return err
		}
		for _, c := range gw.Status.Conditions {
			if c.Type == "Accepted" && c.Status == metav1.ConditionFalse &&
				strings.Contains(c.Message, "spec.service.loadBalancerClass") &&
				strings.HasSuffix(c.Message, "kubectl delete service --namespace "+p.Namespace+" "+fleet) {
				return nil
			}
		}
		return fmt.Errorf("got %+v, want a message to delete the Service, for its loadBalancerClass",
			gw.Status.Conditions)
	})
	if err := p.CoreV1().Services(p.Namespace).Delete(p.Context(), fleet, metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
	p.service("it is created again, without a class",
		func(s *corev1.Service) bool { return s.Spec.LoadBalancerClass == nil })
	p.Until("the load balancer is back", func(ctx context.Context) error {
		gw, err := p.gateway(ctx, "gw")
		if err == nil &&
			(len(gw.Status.Addresses) != 1 || !strings.HasPrefix(gw.Status.Addresses[0].Value,
				balanced[:strings.LastIndex(balanced, ".")])) {
			err = fmt.Errorf("addresses: got %v, want one of %s", gw.Status.Addresses, balanced)
		}
		return err
	})
	p.answers("http://" + p.programmed("gw")[0] + "/health")
}

func (p place) service(what string, wanted func(*corev1.Service) bool) (s *corev1.Service) {
	p.Helper()
	p.Until("Service "+what, func(ctx context.Context) (err error) {
		if s, err = p.CoreV1().Services(p.Namespace).Get(ctx, fleet, metav1.GetOptions{}); err == nil && !wanted(s) {
			err = fmt.Errorf("got %+v, want %s", s.Spec, what)
		}
		return err
	})
	return s
}
