package kube

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/kube/statuses"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// bareTime is how long a Gateway counts as programmed that all proxies have left: they may be on their way to another
// process of ours.
const bareTime = time.Minute

// gateway says where a Gateway can be reached, and what is missing for it to be programmed.
func (w *Writer) gateway(in *statuses.Input, view *store.View, gw *gatewayv1.Gateway) {
	key := store.ID(gw)
	services := store.Services.By(view, store.ByGateway, key)
	switch {
	case len(services) == 0:
		in.Addresses = toldAddresses(gw, in.Report)
	case slices.ContainsFunc(services, func(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeNodePort }):
		in.Addresses = nodeAddresses(in, services)
	default:
		in.Addresses = serviceAddresses(services)
	}
	if len(services) > 0 && len(in.Addresses) == 0 {
		in.Pending = pending(gatewayv1.GatewayReasonAddressNotAssigned, "the Service has no address yet: "+store.ID(services[0]))
		return
	}
	w.delivered(in, key, in.Generation, in.Old.(*gatewayv1.GatewayStatus).Conditions)
}

// listenerSet says what is missing for a ListenerSet to be programmed: it is part of its Gateway, whose proxies must have it.
func (w *Writer) listenerSet(in *statuses.Input, set *gatewayv1.ListenerSet) {
	for _, k := range store.ListenerSets.Keys(set) {
		if k.Index == store.ByParent {
			w.mu.Lock()
			generation := w.observed[gatewayRef(k.Key)]
			w.mu.Unlock()
			w.delivered(in, k.Key, generation, in.Old.(*gatewayv1.ListenerSetStatus).Conditions)
		}
	}
}

func pending(reason gatewayv1.GatewayConditionReason, message string) *report.Condition {
	return &report.Condition{Type: string(gatewayv1.GatewayConditionProgrammed), Status: report.False, Reason: string(reason), Message: message}
}

// delivered says whether the proxies of a gateway have what one of its generations asks for, with all of its listeners. What
// they had before, as old conditions tell, stays programmed until they say that they have what is new.
func (w *Writer) delivered(in *statuses.Input, gateway string, generation int64, old []metav1.Condition) {
	proxies, acked := w.cfg.Delivery.Delivered(gateway, generation)
	bare := w.noProxies(in.Report.Owner, proxies)
	before := programmedFor(old)
	switch {
	case proxies > 0 && acked:
	case proxies == 0 && (before == 0 || bare > bareTime):
		in.Pending = pending(gatewayv1.GatewayReasonPending, "no proxy is connected")
	case before != 0:
		in.Programmed = before
	default:
		in.Pending = pending(gatewayv1.GatewayReasonPending, "the proxies have not acknowledged the listeners yet")
	}
}

// noProxies says for how long a Gateway has had no proxies.
func (w *Writer) noProxies(ref report.Ref, proxies int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if proxies > 0 {
		delete(w.bare, ref)
		return 0
	}
	since, ok := w.bare[ref]
	if !ok {
		since = w.cfg.Now()
		w.bare[ref] = since
		if w.queues != nil {
			w.queues.of(ref).AddAfter(ref, bareTime+time.Second)
		}
	}
	return w.cfg.Now().Sub(since)
}

// programmedFor is the generation for which conditions say that something is programmed; 0 for none.
func programmedFor(conditions []metav1.Condition) int64 {
	for _, c := range conditions {
		if c.Type == string(gatewayv1.GatewayConditionProgrammed) && c.Status == metav1.ConditionTrue {
			return c.ObservedGeneration
		}
	}
	return 0
}

// serviceAddresses are where the Services in front of a Gateway's proxies can be reached from: a load balancer's addresses
// where one is asked for, else the cluster's own and those that the Service was given.
func serviceAddresses(services []*corev1.Service) (out []gatewayv1.GatewayStatusAddress) {
	for _, s := range services {
		var values []string
		switch {
		case s.Spec.Type == corev1.ServiceTypeLoadBalancer:
			for _, in := range s.Status.LoadBalancer.Ingress {
				values = append(values, in.IP, in.Hostname)
			}
		case s.Spec.ClusterIP != corev1.ClusterIPNone:
			values = append(values, s.Spec.ClusterIPs...)
			if len(values) == 0 {
				values = append(values, s.Spec.ClusterIP)
			}
		}
		for _, v := range append(values, s.Spec.ExternalIPs...) {
			out = addAddress(out, v)
		}
	}
	return out
}

// toldAddresses are where proxies are reached that somebody else runs: where their EnvoyFleet says, or else where the Gateway
// asks for, unless it was refused.
func toldAddresses(gw *gatewayv1.Gateway, said report.Report) (out []gatewayv1.GatewayStatusAddress) {
	out = reported(said)
	accepted := report.Find(said.Conditions, string(gatewayv1.GatewayConditionAccepted))
	if len(out) > 0 || accepted != nil && accepted.Status == report.False {
		return out
	}
	for _, a := range gw.Spec.Addresses {
		if a.Type == nil || *a.Type == gatewayv1.IPAddressType { // nobody has those of another type
			out = addAddress(out, a.Value)
		}
	}
	return out
}

// nodeAddresses are where a Gateway behind a NodePort is reached: at nodes, of which only who runs the proxies knows those that they are
// on. What it said to the process that led before counts until it says something to this one.
func nodeAddresses(in *statuses.Input, services []*corev1.Service) []gatewayv1.GatewayStatusAddress {
	if told := reported(in.Report); len(told) > 0 {
		return told
	}
	if before := in.Old.(*gatewayv1.GatewayStatus).Addresses; len(before) > 0 {
		return before
	}
	if p := report.Find(in.Report.Conditions, string(gatewayv1.GatewayConditionProgrammed)); p != nil && p.Status == report.False {
		return nil // no proxy is on any node yet
	}
	return serviceAddresses(services) // somebody else runs the proxies, and does not say where
}

// reported are the addresses of a report.
func reported(said report.Report) (out []gatewayv1.GatewayStatusAddress) {
	for _, a := range said.Addresses {
		if ip, err := netip.ParseAddr(a); err != nil || !ip.IsUnspecified() { // that is where they listen, not where they are
			out = addAddress(out, a)
		}
	}
	return out
}

// addAddress leaves out what the API server would refuse, and the rest of the status with it.
func addAddress(list []gatewayv1.GatewayStatusAddress, value string) []gatewayv1.GatewayStatusAddress {
	if slices.ContainsFunc(list, func(a gatewayv1.GatewayStatusAddress) bool { return a.Value == value }) {
		return list
	}
	typ := gatewayv1.HostnameAddressType
	if ip, err := netip.ParseAddr(value); err == nil && ip.Zone() == "" {
		typ = gatewayv1.IPAddressType
	} else if len(validation.IsDNS1123Subdomain(value)) > 0 {
		return list
	}
	return append(list, gatewayv1.GatewayStatusAddress{Type: &typ, Value: value})
}
