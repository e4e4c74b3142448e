package gatewayapi

import (
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Class reports on a GatewayClass, or returns nil if the class belongs to another controller.
func Class(r store.Reader, cfg Config, name string) *report.Report {
	class, ok := store.GatewayClasses.Get(r, name)
	if !ok || !cfg.AnyController && string(class.Spec.ControllerName) != cfg.controller() {
		return nil
	}
	out := &report.Report{Owner: store.GatewayClasses.Ref(class)}
	if _, bad := classParameters(r, class); bad != nil {
		out.Conditions = []report.Condition{
			falseCondition(gatewayv1.GatewayClassConditionStatusAccepted, gatewayv1.GatewayClassReasonInvalidParameters,
				bad.field+": "+bad.problem),
		}
		out.Findings = []report.Finding{finding(out.Owner, bad.field, bad.problem, bad.fix)}
		return out
	}
	out.Conditions = []report.Condition{
		trueCondition(gatewayv1.GatewayClassConditionStatusAccepted, gatewayv1.GatewayClassReasonAccepted),
	}
	return out
}

func ours(r store.Reader, cfg Config, gw *gatewayv1.Gateway) (bool, report.Finding) {
	name := string(gw.Spec.GatewayClassName)
	f := report.Finding{Owner: store.Gateways.Ref(gw), Field: "spec.gatewayClassName"}
	class, ok := store.GatewayClasses.Get(r, name)
	switch {
	case cfg.AnyController, ok && string(class.Spec.ControllerName) == cfg.controller(), !ok && cfg.AnyClass:
		return true, report.Finding{}
	case ok:
		f.Severity = report.Info
		f.Problem = fmt.Sprintf("GatewayClass %s belongs to controller %s: this Gateway is not served here", name,
			class.Spec.ControllerName)
		return false, f
	default:
		f.Severity = report.Warning
		f.Problem = NotExist(r, f.Owner, store.RefOf(store.GatewayClasses, name))
		f.Fix = "create it with controllerName " + cfg.controller()
		return false, f
	}
}

// NotOurs reports why Penstock does not serve a Gateway, or returns nil.
func NotOurs(r store.Reader, cfg Config, key string) *report.Report {
	gw, ok := store.Gateways.Get(r, key)
	if !ok {
		return nil
	}
	mine, f := ours(r, cfg, gw)
	if mine {
		return nil
	}
	return &report.Report{Owner: f.Owner, Findings: []report.Finding{f}}
}

func trueCondition[T, R ~string](typ T, reason R) report.Condition {
	return report.Condition{Type: string(typ), Status: report.True, Reason: string(reason)}
}

func falseCondition[T, R ~string](typ T, reason R, message string) report.Condition {
	return report.Condition{Type: string(typ), Status: report.False, Reason: string(reason), Message: message}
}
