package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

func TestSilent_ReasonIsShown(t *testing.T) {
	silence := endpoint.Silence{Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Headers: true,
		Probe: "no token within 10s"}
	const reason = "suspect: headers only since 2026-01-02T03:04:05Z (probe: no token within 10s)"
	got := shownPicks(t, &picker.Record{Endpoints: "10.0.0.2:80", Verdicts: []schedule.Verdict{
		{Address: "10.0.0.1:80", Out: "silent", State: endpoint.State{Silent: &silence}}, {Address: "10.0.0.2:80"},
	}})
	if want := reason + ", 0 of our requests in flight; out: silent\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %q", got, want)
	}
	pool := objectid.MustParseTarget("ns/pool")
	all := make([]picker.Suspect, maxRates+2)
	for i := range all {
		all[i] = picker.Suspect{Pool: pool, Server: fmt.Sprint("server-", i), Kind: schedule.Silent,
			Why: silence.String()}
	}
	var out strings.Builder
	serving := []picker.Serving{{Pool: pool, Out: []picker.Out{
		{Server: "server-0", Why: "connection refused"}, {Server: "server-x", Why: "it is down"},
	}}}
	printOut(&out, serving)
	printSuspects(&out, all, serving)
	if strings.Contains(out.String(), "server-0 of pool ns/pool is suspect") {
		t.Error("a server that does not serve is suspect:\n", out.String())
	}
	for _, want := range []string{"Server server-0 of pool ns/pool does not serve: connection refused\n",
		"Server server-x of pool ns/pool does not serve: it is down\n",
		"Server server-1 of pool ns/pool is " + reason + "\n", "\n1 more servers are suspect: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q", out.String(), want)
		}
	}
}
