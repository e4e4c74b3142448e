package main

import (
	"testing"

	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/server"
)

func TestStatus_ProxySyncStateNamesMissingResources(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]server.ProxyStatus{
		"is in sync":                               {InSync: true},
		"is behind: it connected just now":         {},
		"is in sync (2 of type cluster to remove)": {Types: []server.TypeStatus{{Type: "cluster", Summary: publish.Summary{Pending: 2, Leaving: 2}}}},
		"is behind: 1 of type listener to remove":  {Types: []server.TypeStatus{{Type: "listener", Summary: publish.Summary{Pending: 1, Leaving: 1}}}},
		"is behind: 1 of type cluster to add, 1 of type cluster to remove, 3 of type route rejected": {Types: []server.TypeStatus{
			{Type: "cluster", Summary: publish.Summary{Pending: 2, Leaving: 1}}, {Type: "route", Summary: publish.Summary{Rejected: 3}},
		}},
	} {
		if got := syncState(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
