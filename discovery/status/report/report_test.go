package report_test

import (
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
)

func TestFinding_PrintsPlaceObjectFieldProblemFix(t *testing.T) {
	owner := report.Ref{Kind: "HTTPRoute", Namespace: "default", Name: "chat"}
	for want, f := range map[string]report.Finding{
		"r.yaml:3: HTTPRoute default/chat spec.rules: is empty; write a rule": {
			Owner: owner, Source: "r.yaml:3", Field: "spec.rules", Problem: "is empty", Fix: "write a rule",
		},
		"HTTPRoute default/chat is unused": {Owner: owner, Problem: "is unused"},
		"r.yaml: is not YAML": {
			Source: "r.yaml", Problem: "is not YAML",
		},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCondition_OfATypeIsReplacedNotRepeated(t *testing.T) {
	list := []report.Condition{{Type: "Accepted", Status: report.True}, {Type: "Programmed", Status: report.True}}
	list = report.Set(list, report.Condition{Type: "Accepted", Status: report.False})
	list = report.Set(list, report.Condition{Type: "Ready", Status: report.Unknown})
	if len(list) != 3 || report.Find(list, "Accepted").Status != report.False || report.Find(list, "None") != nil {
		t.Errorf("got %+v, want 3 conditions, Accepted False, and no None", list)
	}
}

func TestRef_OfAClusterScopedKindHasNoNamespace(t *testing.T) {
	if got := (report.Ref{Kind: "GatewayClass", Name: "penstock"}).String(); got != "GatewayClass penstock" {
		t.Errorf(`got %q, want "GatewayClass penstock"`, got)
	}
}
