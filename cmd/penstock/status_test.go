package main

import (
	"testing"

	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/server"
)

func TestStatusSaysWhatAnEnvoyLacks(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]server.ProxyStatus{
		"has everything":                           {InSync: true},
		"is behind: it has just connected":         {},
		"has everything (2 of type cluster to go)": {Types: []server.TypeStatus{{Type: "cluster", Summary: publish.Summary{Pending: 2, Leaving: 2}}}},
		"is behind: 1 of type listener to go":      {Types: []server.TypeStatus{{Type: "listener", Summary: publish.Summary{Pending: 1, Leaving: 1}}}},
		"is behind: 1 of type cluster to come, 1 of type cluster to go, 3 of type route refused": {Types: []server.TypeStatus{
			{Type: "cluster", Summary: publish.Summary{Pending: 2, Leaving: 1}}, {Type: "route", Summary: publish.Summary{Rejected: 3}},
		}},
	} {
		if got := standing(p); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
}
