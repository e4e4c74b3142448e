package main

import (
	"context"
	"net/http/httptest"
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
	page := httptest.NewServer(status.Page(board, "penstock.dev/gateway-controller"))
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

func routeReport(reason string) report.Report {
	accepted := report.Condition{Type: "Accepted", Status: report.False, Reason: reason}
	return report.Report{
		Owner: report.Ref{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "default", Name: "chat"},
		Parents: []report.Parent{
			{Ref: report.ParentRef{Kind: "Gateway", Name: "gw"}, Conditions: []report.Condition{accepted}},
		},
	}
}
