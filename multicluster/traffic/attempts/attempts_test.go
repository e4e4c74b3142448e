package attempts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/accesslog"
)

// newCounter makes a Counter for the imports of namespace ns and Gateway ns/gw, and returns its
// clock.
func newCounter(exists func(objectid.Target) bool) (*Counter, *time.Time) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return New(Config{
		Allowed: func(gateway string, pool objectid.Target) bool {
			return gateway == "ns/gw" && slices.Contains([]string{"ns/chat@west", "ns/chat@east", "ns/both@"},
				pool.String())
		},
		Exists: exists, Now: func() time.Time { return now },
	}), &now
}

func always(objectid.Target) bool { return true }

func TestAttempts_CountWhatBecameOfRequestsByCluster(t *testing.T) {
	c, _ := newCounter(always)
	served := accesslog.Attempt{Cluster: "last/parent/ns/chat/west", Status: 200, Bytes: 100, FirstByte: time.Second}
	for _, change := range []func(*accesslog.Attempt){
		func(*accesslog.Attempt) {},
		func(a *accesslog.Attempt) {
			a.Member, a.Cluster, a.Status = objectid.MustParseTarget("ns/chat@west"), "", 503
		},
		func(a *accesslog.Attempt) { a.Leased, a.Status = true, 404 },
		func(a *accesslog.Attempt) { a.Cluster, a.Route = "peer/ns/both/west", "hop.ns.import.both" },
		func(a *accesslog.Attempt) { a.Status = 503 },
		func(a *accesslog.Attempt) { a.Status = 0 },
		func(a *accesslog.Attempt) { a.Status, a.Canceled = 0, true },
		func(a *accesslog.Attempt) { a.Declined, a.Status, a.Route = true, 429, "hop.ns.import.chat" },
		func(a *accesslog.Attempt) { a.Cluster, a.Route = "", "hop.ns.import.chat@east" },
		// The hop to the member reports this request.
		func(a *accesslog.Attempt) { a.Cluster, a.Route = "members/ns/chat", "ns/route" },
		func(a *accesslog.Attempt) { a.Cluster, a.Route = "last/pool/ns/chat", "hop.ns.pool.chat" },
		func(a *accesslog.Attempt) { a.Cluster = "" },
	} {
		a := served
		change(&a)
		c.Count(a)
	}
	want := map[string]Traffic{
		"west": {Served: 3, Failed: 3, Declined: 1, Spilled: 2, Bytes: 300, FirstByte: 3 * time.Second},
		"east": {Served: 1, Bytes: 100, FirstByte: time.Second},
	}
	if d := cmp.Diff(want, c.Traffic()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "penstock_import_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if v := m.GetCounter().GetValue(); v > 0 {
				series[name] = v
			}
		}
	}
	if d := cmp.Diff(map[string]float64{
		"ended_requests_total west ns/chat served": 2, "ended_requests_total west ns/chat failed": 3,
		"ended_requests_total west ns/chat declined": 1,
		"ended_requests_total west ns/both served":   1, "ended_requests_total east ns/chat served": 1,
		"spilled_requests_total west ns/chat": 1, "spilled_requests_total west ns/both": 1,
		"response_bytes_total west ns/chat": 200, "response_bytes_total west ns/both": 100,
		"response_bytes_total east ns/chat":     100,
		"first_byte_seconds_total west ns/chat": 2, "first_byte_seconds_total west ns/both": 1,
		"first_byte_seconds_total east ns/chat": 1,
	}, series); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A report of a Gateway counts only if the Gateway's own Envoys can have sent the request.
func TestAttempts_OfAGatewayCountForItsOwnClustersAlone(t *testing.T) {
	c, _ := newCounter(always)
	for _, a := range []accesslog.Attempt{
		{Gateway: "ns/gw", Cluster: "last/parent/ns/chat/west", Status: 200},
		// The request went to this cluster itself, in an import with several clusters.
		{Gateway: "ns/gw", Route: "hop.ns.import.both@here", Cluster: "last/pool/ns/both", Status: 200},
		{Gateway: "ns/gw", Cluster: "peer/ns/chat/other", Status: 200},
		{Gateway: "ns/other", Cluster: "last/parent/ns/chat/west", Status: 200},
	} {
		c.Count(a)
	}
	if d := cmp.Diff(map[string]Traffic{"west": {Served: 1}, "here": {Served: 1}}, c.Traffic()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAttempts_OfAClusterThatHasLeftAreForgotten(t *testing.T) {
	gone := false
	c, now := newCounter(func(id objectid.Target) bool { return !gone || id.Member != "west" })
	for _, m := range []string{"west", "east"} {
		c.Count(accesslog.Attempt{Cluster: "import/ns/chat/" + m, Status: 200})
	}
	gone = true
	*now = now.Add(forgetAfter)
	if n := len(c.Traffic()); n != 2 {
		t.Errorf("%d clusters, want 2: some may have requests in flight", n)
	}
	*now = now.Add(time.Second)
	if d := cmp.Diff(map[string]Traffic{"east": {Served: 1}}, c.Traffic()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAttempts_OfARequestAreKeptNewestFirst(t *testing.T) {
	c, now := newCounter(always)
	began := *now
	c.Count(accesslog.Attempt{Cluster: "import/ns/chat/east", Request: "one", Began: began, Status: 429,
		Declined: true})
	c.Count(accesslog.Attempt{Cluster: "last/parent/ns/chat/west", Request: "two", Status: 200})
	// The picker's own records already have this request.
	c.Count(accesslog.Attempt{Cluster: "last/parent/ns/chat/west", Request: "one", Leased: true, Status: 200})
	c.Count(accesslog.Attempt{
		Cluster: "last/parent/ns/chat/west", Request: "one", There: "other", Began: began.Add(time.Second), Status: 200,
		FirstByte: time.Millisecond, Took: time.Second,
		At: netip.MustParseAddrPort("192.0.2.1:80"), Reached: true, Route: "hop.ns.import.chat",
	})
	want := []*picker.Record{
		{
			Time: began.Add(time.Second), Pool: "ns/chat@west", Request: "one", Result: "sent",
			Sent: &picker.SentTo{There: "other", Spilled: true},
			Outcome: &picker.Outcome{Ended: true, Served: "192.0.2.1:80", Status: 200, Begun: time.Millisecond,
				Took: time.Second},
		},
		{Time: began, Pool: "ns/chat@east", Request: "one", Result: "sent", Sent: &picker.SentTo{Declined: true},
			Outcome: &picker.Outcome{Ended: true, Status: 429}},
	}
	if d := cmp.Diff(want, c.Records(picker.Picks{Request: "one"})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := c.Records(picker.Picks{Last: 10}); len(got) != 0 {
		t.Errorf("among the last picks: %v, want none", got)
	}
}

func TestAttempts_AreBounded(t *testing.T) {
	c, _ := newCounter(always)
	for i := range maxMembers + 1 {
		c.Count(accesslog.Attempt{Cluster: fmt.Sprintf("import/ns/chat/c%d", i), Request: fmt.Sprintf("id %d", i),
			Status: 200})
	}
	if len(c.members) != maxMembers || len(c.kept) != maxKept {
		t.Errorf("%d clusters and %d requests, want %d and %d", len(c.members), len(c.kept), maxMembers, maxKept)
	}
	if got := c.Records(picker.Picks{Request: fmt.Sprintf("id %d", maxMembers-1)}); len(got) != 1 {
		t.Error("the newest request is not kept")
	}
	if got := c.Records(picker.Picks{Request: fmt.Sprintf("id %d", maxMembers-maxKept-1)}); len(got) != 0 {
		t.Error("a request that is too old is kept")
	}
	long := strings.Repeat("x", 1000)
	c.Count(accesslog.Attempt{Cluster: "import/ns/chat/c1", Request: long, There: long})
	if got := c.Records(picker.Picks{Request: long}); len(got) != 1 || len(got[0].Request) != maxID ||
		len(got[0].Sent.There) != maxID {
		t.Errorf("of a long ID: got %v, want one with both IDs cut to %d bytes", got, maxID)
	}
}
