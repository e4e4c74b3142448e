package shape

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
)

func TestProgrammed_Decision(t *testing.T) {
	yes := report.Condition{Type: "Programmed", Status: report.True, Reason: "Programmed"}
	nack := report.Condition{Type: "Programmed", Status: report.False, Reason: "Invalid", Message: "Envoy rejects it"}
	for _, c := range []struct {
		name       string
		reported   report.Condition
		proxies    Proxies
		reason     string
		message    string
		generation int64
	}{
		{"all proxies have it", yes, Proxies{Connected: 2, Acked: true}, "Programmed", "", 0},
		{"a source reports False", nack, Proxies{Connected: 2, Acked: true, Before: 4}, "Invalid", "Envoy rejects it",
			0},
		{"the reason of a source wins over a missing address", nack, Proxies{Addressless: "default/gw"}, "Invalid",
			"Envoy rejects it", 0},
		{"no address", yes, Proxies{Connected: 2, Acked: true, Addressless: "default/gw"}, "AddressNotAssigned",
			"Service default/gw has no address yet", 0},
		{"never had a proxy", yes, Proxies{}, "Pending", "no proxy is connected", 0},
		{"proxies reconnect elsewhere", yes, Proxies{Before: 4, Absent: ReconnectGrace}, "Programmed", "", 4},
		{"proxies are gone", yes, Proxies{Before: 4, Absent: ReconnectGrace + time.Second}, "Pending",
			"no proxy is connected", 0},
		{"first generation is on its way", yes, Proxies{Connected: 1}, "Pending",
			"the proxies have not acknowledged the listeners yet", 0},
		{"next generation is on its way", yes, Proxies{Connected: 1, Before: 4}, "Programmed", "", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, generation := Programmed(c.reported, c.proxies)
			if got.Reason != c.reason || got.Message != c.message || generation != c.generation ||
				(got.Status == report.True) != (c.reason == "Programmed") {
				t.Errorf("got %+v for generation %d, want %s %q for %d",
					got, generation, c.reason, c.message, c.generation)
			}
		})
	}
}

func TestProgrammed_PendingProxiesHideNoInvalidListener(t *testing.T) {
	in := input(&gatewayv1.GatewayStatus{}, report.Report{
		Conditions: programmedReport.Conditions,
		Listeners: []report.Listener{
			{Name: "good", Conditions: programmedReport.Conditions},
			{
				Name: "bad", Conditions: []report.Condition{
					{Type: "Programmed", Status: report.False, Reason: "Invalid"},
				},
			},
		},
	})
	in.Proxies = &Proxies{}
	out := Gateway().Make(in).(*gatewayv1.GatewayStatus)
	got := []string{find(out.Conditions, "Programmed").Reason, find(out.Listeners[0].Conditions, "Programmed").Reason,
		find(out.Listeners[1].Conditions, "Programmed").Reason}
	if diff := cmp.Diff([]string{"Pending", "Pending", "Invalid"}, got); diff != "" {
		t.Error(diff)
	}
	if out.Listeners[0].SupportedKinds == nil {
		t.Error("supportedKinds is missing: the field is required, even if empty")
	}
}

func TestProgrammed_NextGenerationKeepsTheProgrammedOne(t *testing.T) {
	in := input(&gatewayv1.GatewayStatus{}, programmedReport)
	in.Proxies = &Proxies{Connected: 1, Before: 2}
	out := Gateway().Make(in).(*gatewayv1.GatewayStatus)
	if a, p := find(out.Conditions, "Accepted"), find(out.Conditions, "Programmed"); a.ObservedGeneration != 3 ||
		p.ObservedGeneration != 2 || p.Status != "True" {
		t.Errorf("conditions %+v, want Accepted for generation 3, and Programmed True for 2", out.Conditions)
	}
}
