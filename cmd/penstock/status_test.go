package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/server"
)

func TestStatus_ProxySyncStateNamesMissingResources(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]server.ProxyStatus{
		"is in sync":                       {InSync: true},
		"is behind: it connected just now": {},
		"waits for its Gateway, which does not exist here, or is not Penstock's: apply it, or name another one in " +
			"penstock bootstrap --gateway": {Waiting: true},
		"is in sync (2 of type cluster to remove)": {
			Types: []server.TypeStatus{{Type: "cluster", Summary: publish.Summary{Pending: 2, Leaving: 2}}},
		},
		"is behind: 1 of type listener to remove": {
			Types: []server.TypeStatus{{Type: "listener", Summary: publish.Summary{Pending: 1, Leaving: 1}}},
		},
		"is behind: 1 of type cluster to add, 1 of type cluster to remove, 3 of type " +
			"route rejected": {Types: []server.TypeStatus{
			{Type: "cluster", Summary: publish.Summary{Pending: 2, Leaving: 1}},
			{Type: "route", Summary: publish.Summary{Rejected: 3}},
		}},
	} {
		if got := syncState(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStatus_WatchPrintsEachChange(t *testing.T) {
	t.Parallel()
	board := status.NewBoard(nil)
	page := httptest.NewServer(status.Page(board, "penstock.dev/gateway-controller", nil))
	t.Cleanup(page.Close)
	for _, output := range []string{"text", "json"} {
		board.Set(status.Translation, routeReport("Accepted"))
		var out transcript
		ctx, stop := context.WithCancel(t.Context())
		root := newRoot()
		root.SetArgs([]string{"status", "--watch", "--http", page.URL, "-o", output})
		root.SetOut(&out)
		ended := make(chan error)
		go func() { ended <- root.ExecuteContext(ctx) }()
		out.expect(t, "Accepted")
		board.Set(status.Translation, routeReport("NotAllowedByListeners"))
		out.expect(t, "NotAllowedByListeners")
		stop()
		if err := <-ended; err != nil {
			t.Errorf("an interrupted watch fails: %v", err)
		}
	}
}

// In Kubernetes, the object's own status is printed: only the leader has all proxies' addresses and
// ACKs.
func TestStatus_KubernetesHasTheObjectsOwn(t *testing.T) {
	t.Parallel()
	board := status.NewBoard(nil)
	gateway, route := report.Ref{Kind: "Gateway", Namespace: "default", Name: "gw"}, routeReport("Accepted")
	programmed := report.Condition{Type: report.Programmed, Status: report.True, Reason: report.Programmed}
	board.Set(status.Translation, report.Report{Owner: gateway, Addresses: []string{"0.0.0.0"},
		Conditions: []report.Condition{programmed}})
	board.Set(status.Translation, route)
	own := `{"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}], "listeners": [{"name": "http"}],
		"conditions": [{"type": "Programmed", "status": "False", "reason": "Pending", "message": "not acknowledged"},
			{"type": "penstock.dev/RolledOut", "status": "False", "reason": "Stuck", "message": "0 of 2 proxies"}]}`
	others := `{"parents": [{"controllerName": "example.com/other", "conditions": [{"type": "Alien"}]}]}`
	page := httptest.NewServer(status.Page(board, "c", func(ref report.Ref) any {
		if ref == gateway {
			return json.RawMessage(own)
		}
		return json.RawMessage(others)
	}))
	t.Cleanup(page.Close)
	var doc status.Document
	if err := runningAt(page.URL).get(t.Context(), "/status", &doc); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := status.Text(&text, &doc, nil); err != nil {
		t.Fatal(err)
	}
	got := text.String()
	for _, want := range []string{"192.0.2.1", "not acknowledged", "0 of 2 proxies", "Accepted"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q", got, want)
		}
	}
	if strings.Contains(got, "0.0.0.0") || strings.Contains(got, "Alien") {
		t.Errorf("got\n%s\nwant neither 0.0.0.0 nor Alien", got)
	}
}

func routeReport(reason string) report.Report {
	accepted := report.Condition{Type: "Accepted", Status: report.False, Reason: reason}
	return report.Report{
		Owner: report.Ref{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "default", Name: "chat"},
		Parents: []report.Parent{
			{Ref: report.ParentRef{Kind: "Gateway", Name: "gw"}, Conditions: []report.Condition{accepted}},
		},
	}
}
