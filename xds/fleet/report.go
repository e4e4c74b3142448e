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

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

// ConditionRolledOut is False while new proxies do not become ready, and otherwise absent. The old
// proxies serve meanwhile, so the Gateway stays Programmed.
const ConditionRolledOut = "penstock.dev/RolledOut"

func (f *Fleets) report(k key, m *member, there []apply.Object, err error) {
	f.publish(k, describe(m, ofGateway(m.object, there), f.cfg.Settings().ExternalIPs, err))
}

func (f *Fleets) publish(k key, r report.Report) (changed bool) {
	f.mu.Lock()
	old, known := f.reports[k]
	f.reports[k] = r
	f.mu.Unlock()
	if known && reflect.DeepEqual(old, r) {
		return false
	}
	f.cfg.Board.Set(Source, r)
	return true
}

func (f *Fleets) reportMissingClass(k key, there []apply.Object) bool {
	view := f.cfg.Store.View()
	for _, o := range there {
		gw, ok := store.Gateways.Get(view, objectid.Join(k.namespace, o.OwnerName))
		if !ok || string(gw.UID) != o.Owner || render.Name(gw.Name, string(gw.Spec.GatewayClassName)) != k.fleet {
			continue
		}
		if _, ok := store.GatewayClasses.Get(view, string(gw.Spec.GatewayClassName)); ok {
			continue
		}
		r := report.Report{Owner: store.Gateways.Ref(gw)}
		message := fmt.Sprintf("GatewayClass %s does not exist: no listener takes traffic until it is created again",
			gw.Spec.GatewayClassName)
		notProgrammed := report.NotProgrammed(string(gatewayv1.GatewayReasonPending), message)
		notAccepted := notProgrammed
		notAccepted.Type = string(gatewayv1.GatewayConditionAccepted)
		r.Conditions = []report.Condition{notAccepted, notProgrammed}
		if f.publish(k, r) {
			f.cfg.Log.Warn("Gateway takes no traffic: its GatewayClass does not exist", "gateway", store.ID(gw),
				"class", string(gw.Spec.GatewayClassName))
		}
		return true
	}
	return false
}

func (f *Fleets) clearReport(k key) {
	f.mu.Lock()
	old, known := f.reports[k]
	delete(f.reports, k)
	f.mu.Unlock()
	if known {
		f.cfg.Board.Remove(Source, old.Owner)
	}
}

func describe(m *member, there []apply.Object, external []netip.Prefix, err error) report.Report {
	r := report.Report{Owner: store.Gateways.Ref(m.object)}
	notProgrammed := func(reason gatewayv1.GatewayConditionReason, message string) {
		r.Conditions = []report.Condition{report.NotProgrammed(string(reason), message)}
	}
	if m.Spec != nil && m.Spec.Mode == v1alpha1.FleetExternal {
		describeExternal(&r, m.Spec.External)
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
		return r
	}
	unavailable := deployment == nil || deployment.Available == 0
	atNodes := service != nil && service.Type == corev1.ServiceTypeNodePort
	var invalidField *render.InvalidField
	missing := slices.DeleteFunc(render.StaticAddresses(m.object),
		func(a string) bool { return slices.Contains(r.Addresses, a) })
	switch {
	case errors.As(err, &invalidField):
		setInvalid(&r, invalidField)
	case errors.Is(err, apply.ErrNotOwned):
		problem := strings.ReplaceAll(err.Error(), "\n", "; ")
		notProgrammed(gatewayv1.GatewayReasonInvalid, problem+": rename it, or the Gateway")
		r.Findings = []report.Finding{
			{Severity: report.Error, Owner: r.Owner, Field: "metadata.name", Problem: problem,
				Fix: "rename it, or the Gateway"},
		}
	case err != nil && len(missing) > 0 && apierrors.IsInvalid(err):
		message := err.Error()
		if service != nil && invalid(err, "spec.clusterIP") {
			message = fmt.Sprintf("spec.addresses: %s has the cluster IP %s, which is immutable; to get %s, %s",
				service.Ref, strings.Join(service.ClusterIPs, ", "), missing[0], recreate(service))
		}
		notProgrammed(gatewayv1.GatewayReasonAddressNotUsable, message)
	case err != nil:
		notProgrammed(gatewayv1.GatewayReasonNoResources, err.Error())
	case len(missing) > 0:
		notProgrammed(gatewayv1.GatewayReasonAddressNotUsable, notAssigned(m, missing, external))
	case len(r.Addresses) == 0 && !(atNodes && unavailable):
		notProgrammed(gatewayv1.GatewayReasonAddressNotAssigned, "the Gateway's Service has no address yet")
	case unavailable:
		message := "no proxy is ready"
		if deployment != nil && deployment.Stuck != "" {
			message += ": " + deployment.Stuck
		}
		notProgrammed(gatewayv1.GatewayReasonPending, message)
	}
	if deployment != nil && deployment.Stuck != "" {
		r.Conditions = append(r.Conditions, report.Condition{
			Type: ConditionRolledOut, Status: report.False, Reason: "Stuck",
			Message: fmt.Sprintf("%d of %d proxies are available, and new ones do not become ready: Deployment %s: %s",
				deployment.Available, deployment.Replicas, deployment.Name, deployment.Stuck),
		})
	}
	return r
}

func describeExternal(r *report.Report, spec *v1alpha1.FleetExternalSpec) {
	if spec == nil {
		return
	}
	for _, a := range spec.Addresses {
		if bad := render.ExternalAddress(a); bad != nil {
			setInvalid(r, bad)
			continue
		}
		r.Addresses = append(r.Addresses, a)
	}
}

func setInvalid(r *report.Report, field *render.InvalidField) {
	problem := "the EnvoyFleet's " + field.Field + ": " + field.Problem
	r.Conditions = []report.Condition{{
		Type: string(gatewayv1.GatewayConditionAccepted), Status: report.False,
		Reason: string(gatewayv1.GatewayReasonInvalidParameters), Message: problem + "; " + field.Fix,
	}}
	r.Findings = []report.Finding{{
		Severity: report.Error, Owner: r.Owner, Field: "spec.infrastructure.parametersRef", Problem: problem,
		Fix: field.Fix,
	}}
}

func notAssigned(m *member, missing []string, external []netip.Prefix) string {
	var outside, why []string
	if m.Spec != nil {
		_, _, outside = render.Assign(m.object, m.Spec, external)
	}
	if waiting := slices.DeleteFunc(slices.Clone(missing),
		func(a string) bool { return slices.Contains(outside, a) }); len(waiting) > 0 {
		why = append(why, "not assigned to the Gateway's Service: "+strings.Join(waiting, ", "))
	}
	if len(outside) > 0 {
		why = append(why,
			fmt.Sprintf(
				"outside the allowed ranges: %s; remove it, or allow its range with penstock serve --external-ips: "+
					"a Service gets one address, and nodes accept others only within these ranges",
				strings.Join(outside, ", ")))
	}
	return strings.Join(why, "; ")
}

func addresses(s *apply.Object) []string {
	if s == nil {
		return nil
	}
	return report.Service{Type: string(s.Type), ClusterIPs: s.ClusterIPs, ExternalIPs: s.External,
		LoadBalancer: s.Balancer, Nodes: s.Nodes}.Addresses()
}
