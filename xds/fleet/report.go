package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

// ConditionRolledOut of a Gateway is False while its proxies cannot be replaced by those that are wanted: a bad image, say, or
// no node for them. Those that run go on serving, so it is Programmed all the same. Else there is no such condition.
const ConditionRolledOut = "penstock.dev/RolledOut"

// report tells the board where a Gateway's proxies are reached, and what keeps them from being as they should be.
func (f *Fleets) report(k key, m *member, there []apply.Object, err error) {
	f.say(k, describe(m, ofGateway(m.object, there), f.cfg.Settings().ExternalIPs, err))
}

// say tells the board, unless it is what was said last; then it is no news.
func (f *Fleets) say(k key, r report.Report) (news bool) {
	f.mu.Lock()
	old, known := f.said[k]
	f.said[k] = r
	f.mu.Unlock()
	if known && reflect.DeepEqual(old, r) {
		return false
	}
	f.cfg.Board.Set(Source, r)
	return true
}

// stranded reports on proxies whose Gateway is nobody's, because its class is gone: they run on, without a listener. That
// their Gateway was ours, they show themselves. It says whether that is so.
func (f *Fleets) stranded(k key, there []apply.Object) bool {
	view := f.cfg.Store.View()
	for _, o := range there {
		gw, ok := store.Gateways.Get(view, k.namespace+"/"+o.OwnerName)
		if !ok || string(gw.UID) != o.Owner || render.Name(gw.Name, string(gw.Spec.GatewayClassName)) != k.fleet {
			continue
		}
		if _, ok := store.GatewayClasses.Get(view, string(gw.Spec.GatewayClassName)); ok {
			continue
		}
		r := report.Report{Owner: store.Gateways.Ref(gw)}
		message := fmt.Sprintf("GatewayClass %s does not exist any more: no listener takes traffic until it does", gw.Spec.GatewayClassName)
		for _, typ := range []gatewayv1.GatewayConditionType{gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayConditionProgrammed} {
			r.Conditions = append(r.Conditions, report.Condition{Type: string(typ), Status: report.False, Reason: string(gatewayv1.GatewayReasonPending), Message: message})
		}
		if f.say(k, r) {
			f.cfg.Log.Warn("a Gateway takes no traffic: its class is gone", "gateway", store.ID(gw), "class", string(gw.Spec.GatewayClassName))
		}
		return true
	}
	return false
}

// unsay takes back what was said of a Gateway that is not ours any more.
func (f *Fleets) unsay(k key) {
	f.mu.Lock()
	old, known := f.said[k]
	delete(f.said, k)
	f.mu.Unlock()
	if known {
		f.cfg.Board.Remove(Source, old.Owner)
	}
}

// describe is what is to be said of a Gateway: its addresses, and of what is wrong the first that applies.
func describe(m *member, there []apply.Object, external []netip.Prefix, err error) report.Report {
	r := report.Report{Owner: store.Gateways.Ref(m.object)}
	say := func(typ gatewayv1.GatewayConditionType, reason gatewayv1.GatewayConditionReason, message string) {
		r.Conditions = []report.Condition{{Type: string(typ), Status: report.False, Reason: string(reason), Message: message}}
	}
	mistaken := func(mistake *render.Mistake) {
		problem := "the EnvoyFleet's " + mistake.Field + ": " + mistake.Problem
		say(gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayReasonInvalidParameters, problem+"; "+mistake.Fix)
		r.Findings = []report.Finding{{Severity: report.Error, Owner: r.Owner, Field: "spec.infrastructure.parametersRef", Problem: problem, Fix: mistake.Fix}}
	}
	if m.Spec != nil && m.Spec.Mode == v1alpha1.FleetExternal {
		if m.Spec.External == nil {
			return r
		}
		for _, a := range m.Spec.External.Addresses {
			if report.AddressType(a) != "" {
				r.Addresses = append(r.Addresses, a)
				continue
			}
			mistaken(&render.Mistake{Field: "spec.external.addresses", Problem: fmt.Sprintf("%q is neither an IP address nor a host name", a), Fix: "write one such as 192.0.2.1 or edge.example.com"})
		}
		return r
	}
	var service, deployment *apply.Object
	for i := range there {
		switch there[i].Kind {
		case "Service":
			service = &there[i]
		case "Deployment":
			deployment = &there[i]
		}
	}
	r.Addresses = addresses(service)
	if m.Spec == nil && err == nil {
		return r // why it is not accepted, and so not programmed, translation says
	}
	unavailable := deployment == nil || deployment.Available == 0
	atNodes := service != nil && service.Type == corev1.ServiceTypeNodePort // which are those of ready proxies
	var mistake *render.Mistake
	missing := slices.DeleteFunc(render.StaticAddresses(m.object), func(a string) bool { return slices.Contains(r.Addresses, a) })
	switch {
	case errors.As(err, &mistake):
		mistaken(mistake)
	case errors.Is(err, apply.ErrForeign):
		problem := strings.ReplaceAll(err.Error(), "\n", "; ")
		say(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonInvalid, problem+": rename it, or the Gateway")
		r.Findings = []report.Finding{{Severity: report.Error, Owner: r.Owner, Field: "metadata.name", Problem: problem, Fix: "rename it, or the Gateway"}}
	case err != nil && len(missing) > 0 && apierrors.IsInvalid(err): // the API server will not have it
		message := err.Error()
		if service != nil && refused(err, "spec.clusterIP") {
			message = fmt.Sprintf("spec.addresses: %s has the cluster IP %s, which Kubernetes lets nobody change; to have %s, %s", service.Ref, strings.Join(service.ClusterIPs, ", "), missing[0], anew(service))
		}
		say(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonAddressNotUsable, message)
	case err != nil:
		say(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonNoResources, err.Error())
	case len(missing) > 0:
		say(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonAddressNotUsable, notAssigned(m, missing, external))
	case len(r.Addresses) == 0 && !(atNodes && unavailable):
		say(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonAddressNotAssigned, "the Gateway's Service has no address yet")
	case unavailable:
		message := "no proxy is ready"
		if deployment != nil && deployment.Stuck != "" {
			message += ": " + deployment.Stuck
		}
		say(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonPending, message)
	}
	if deployment != nil && deployment.Stuck != "" {
		r.Conditions = append(r.Conditions, report.Condition{
			Type: ConditionRolledOut, Status: report.False, Reason: "Stuck",
			Message: fmt.Sprintf("%d of %d proxies are available, and new ones do not become ready: Deployment %s: %s", deployment.Available, deployment.Replicas, deployment.Name, deployment.Stuck),
		})
	}
	return r
}

// notAssigned says of the addresses that a Gateway does not have why, and what to do.
func notAssigned(m *member, missing []string, external []netip.Prefix) string {
	var refused, why []string
	if m.Spec != nil {
		_, _, refused = render.Assign(m.object, m.Spec, external)
	}
	if waiting := slices.DeleteFunc(slices.Clone(missing), func(a string) bool { return slices.Contains(refused, a) }); len(waiting) > 0 {
		why = append(why, "not assigned to the Gateway's Service: "+strings.Join(waiting, ", "))
	}
	if len(refused) > 0 {
		why = append(why, fmt.Sprintf("not allowed: %s; remove it: a Service is given one address, and the nodes take others only within the ranges "+
			"that Penstock is started with (penstock serve --external-ips)", strings.Join(refused, ", ")))
	}
	return strings.Join(why, "; ")
}

// addresses are where clients reach a Service.
func addresses(s *apply.Object) []string {
	if s == nil {
		return nil
	}
	return report.Service{Type: string(s.Type), ClusterIPs: s.ClusterIPs, ExternalIPs: s.External, LoadBalancer: s.Balancer, Nodes: s.Nodes}.Addresses()
}
