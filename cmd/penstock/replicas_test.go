package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/picker"
)

func TestReplicas_PicksOfAllReplicasOnce(t *testing.T) {
	t.Parallel()
	record := func(second int, id string) *picker.Record {
		return &picker.Record{Time: time.Unix(int64(second), 0).UTC(), Request: id, Pool: "a/b", Picker: id}
	}
	got := joinPicks([]app.FoundPicks{
		{Picks: []*picker.Record{record(3, "c"), record(1, "a")}, Silent: 1, Unknown: true},
		{Picks: []*picker.Record{record(2, "b"), record(1, "a")}},
	}, 0)
	var ids []string
	for _, r := range got.Picks {
		ids = append(ids, r.Request)
	}
	if text := strings.Join(ids, " "); text != "c b a" || got.Silent != 0 || got.Unknown {
		t.Errorf("got %s, %+v, want c b a", text, got)
	}
	one := app.FoundPicks{Picks: []*picker.Record{record(3, "c"), record(1, "a")}}
	if got := joinPicks([]app.FoundPicks{one}, 1); len(got.Picks) != 1 || got.Picks[0].Request != "c" {
		t.Errorf("more than the last pick: got %+v, want c", got.Picks)
	}
}

func TestReplicas_TrafficOfAllReplicasAddsUp(t *testing.T) {
	t.Parallel()
	one := set.Status{Cluster: "east", InFlight: 1, Members: []set.MemberStatus{{Name: "west", Connected: true,
		Traffic: &set.Traffic{Served: 3, FirstByte: set.Duration(time.Second)}}}}
	two := set.Status{Cluster: "east", InFlight: 2, Members: []set.MemberStatus{{Name: "west",
		Traffic: &set.Traffic{Served: 1, Failed: 2, FirstByte: set.Duration(5 * time.Second)}}}}
	got := joinSets([]set.Status{one, two})
	west := got.Members[0]
	if got.InFlight != 3 || !west.Connected || west.Traffic.Served != 4 || west.Traffic.Failed != 2 ||
		west.Traffic.FirstByte != set.Duration(2*time.Second) {
		t.Errorf("got %+v, %+v, want 3 in flight, west connected, 4 served, 2 failed, 2 s to the first byte", got,
			west.Traffic)
	}
	if one.Members[0].Traffic.Served != 3 {
		t.Error("a replica's status has changed")
	}
}

func TestReplicas_WorstViewOfAPoolShows(t *testing.T) {
	t.Parallel()
	id, _ := objectid.ParseTarget("a/b")
	got := joinServing([][]picker.Serving{{{Pool: id, Servers: 2, Serving: 2}}, {{Pool: id, Servers: 2, Serving: 1}}})
	if len(got) != 1 || got[0].Serving != 1 {
		t.Errorf("got %+v, want one with 1 serving", got)
	}
}

func TestReplicas_SilentReplicaIsAWarning(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `[{"node": "n"}]`)
	}))
	t.Cleanup(page.Close)
	pod := func(name, at string) running {
		return running{address: name, dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", at)
		}}
	}
	good, gone := pod("ns/good", page.Listener.Addr().String()), pod("ns/gone", "127.0.0.1:1")
	root := newRoot()
	root.SetContext(t.Context())
	var warned strings.Builder
	root.SetErr(&warned)
	got, by, err := fromSome[[]any](root, []running{gone, good}, "/proxies")
	if err != nil || len(got) != 1 || len(by) != 1 || by[0].address != "ns/good" ||
		!strings.Contains(warned.String(), "ns/gone") {
		t.Errorf("got %v of %v, %v; warned of %q, want ns/good, and a warning of ns/gone", got, by, err,
			warned.String())
	}
	if _, _, err := fromSome[[]any](root, []running{gone}, "/proxies"); err == nil {
		t.Error("no replica answers, and that is no error")
	}
	if err := anyOf([]running{gone, good}).get(t.Context(), "/", new([]any)); err != nil {
		t.Errorf("the second replica answers: %v", err)
	}
}
