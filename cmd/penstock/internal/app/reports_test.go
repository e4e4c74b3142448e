package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/resource"
)

func TestWhatAProxyRefusesAtAnotherProcessOutlivesThatProcessForAWhile(t *testing.T) {
	board := status.NewBoard(nil)
	r := newRefusals(board, channel.New(channel.Config{Log: slog.New(slog.DiscardHandler)}))
	route := report.Ref{Kind: "HTTPRoute", Namespace: "default", Name: "a"}
	said, err := json.Marshal([]report.Report{{Owner: route, Conditions: []report.Condition{{Type: "Programmed", Status: report.False, Reason: "Invalid", Message: "Envoy's words"}}}})
	if err != nil {
		t.Fatal(err)
	}
	hear := func(n channel.News) {
		t.Helper()
		n.Peer = "10.0.0.2:18001"
		if err := r.hear(context.Background(), n); err != nil {
			t.Fatal(err)
		}
	}
	known := func() bool { _, ok := board.Get(route); return ok }
	hear(channel.News{All: true, Facts: []channel.Fact{{Name: "default/gw node", Body: said}}})
	if !known() {
		t.Fatal("what the proxy refuses there is not known here")
	}
	hear(channel.News{All: true}) // the process is gone
	if !known() {
		t.Error("it is forgotten although nobody has mended it")
	}
	r.Refused("default/gw", "node", nil) // the proxy has come here, and refuses nothing
	if known() {
		t.Error("it is still said after the proxy has taken everything")
	}
}

// ackEverything is proxies that have everything at once.
type ackEverything struct{}

func (ackEverything) WaitAcked(context.Context, string, resource.Ref, string) error { return nil }

func TestAGatewayIsDeliveredWhenTheProxiesOfAllProcessesHaveIt(t *testing.T) {
	replicas := newReplicas(channel.Config{Log: slog.New(slog.DiscardHandler)})
	listener := "as it was"
	d := newDeliveries(deliveriesConfig{
		Proxies: ackEverything{}, Replicas: replicas, Resources: func(string) []resource.Ref { return []resource.Ref{{Type: resource.Listener, Name: "l"}} },
		Version: func(string, resource.Ref) (string, bool) { return listener, true }, Log: slog.New(slog.DiscardHandler),
	})
	check := func(when string, proxies int, acked bool) {
		t.Helper()
		if n, ok := d.Delivered("default/gw", 2); n != proxies || ok != acked {
			t.Errorf("%s: %d proxies, acked %v; want %d, %v", when, n, ok, proxies, acked)
		}
	}
	check("nobody is connected", 0, false)
	replicas.count("default/gw", 1)
	check("one is, and has nothing yet", 1, false)
	deliver := func() {
		ctx, stop := context.WithCancel(t.Context())
		d.waits["default/gw"] = stop
		d.wait(ctx, "default/gw", d.newest["default/gw"])
	}
	d.expect("default/gw", 2)
	deliver()
	check("it has everything", 1, true)
	peer := channel.News{Peer: "10.0.0.2:18001", All: true}
	peer.Facts = []channel.Fact{{Name: "default/gw", Body: []byte("3")}}
	if err := replicas.hear(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	check("another process has three", 4, false)
	acked := func() {
		peer.Facts[0].Body = []byte("2 " + d.listeners("default/gw")) // another process has the same
		if err := d.hear(t.Context(), peer); err != nil {
			t.Fatal(err)
		}
	}
	acked()
	check("they have it too", 4, true)
	listener = "with one more, of a ListenerSet"
	d.expect("default/gw", 2)
	check("nobody has the new listener", 4, false)
	deliver()
	check("the others do not have it", 4, false)
	acked()
	check("all have it", 4, true)
}
