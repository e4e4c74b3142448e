package peers

import (
	"context"
	"log/slog"
	"testing"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// ackEverything is a set of Envoys that acknowledge everything at once.
type ackEverything struct{}

func (ackEverything) WaitAcked(context.Context, string, resource.Ref, string) error { return nil }

func TestGateway_ProgrammedOnceProxiesOfAllProcessesHaveIt(t *testing.T) {
	other := startPublisher(t)
	otherProxies, otherAcked := other.Topic("proxies"), other.Topic("acked")
	c := channel.New(channel.Config{Peers: []string{other.address}})
	proxies := NewProxies(c, nil)
	listener, policies := "first", ""
	p := NewProgrammed(ProgrammedConfig{
		Channel: c, Proxies: proxies, Acks: ackEverything{}, Changed: func(string) {},
		Log:       slog.New(slog.DiscardHandler),
		Resources: func(string) []resource.Ref { return []resource.Ref{{Type: resource.Listener, Name: "l"}} },
		Version:   func(string, resource.Ref) (string, bool) { return listener, true },
		Policies:  func(string) string { return policies },
	})
	subscribed(t, c)
	check := func(when string, count int, acked bool) {
		t.Helper()
		poll.Until(t, when, func() bool {
			n, ok := p.Delivered("default/gw", 2)
			return n == count && ok == acked
		})
	}
	check("no proxy is connected", 0, false)
	proxies.Count("default/gw", 1)
	check("one is connected, and has nothing yet", 1, false)
	deliver := func() {
		ctx, stop := context.WithCancel(t.Context())
		p.waits["default/gw"] = stop
		p.wait(ctx, "default/gw", p.newest["default/gw"])
	}
	p.Expect("default/gw", 2)
	deliver()
	check("it has everything", 1, true)
	otherProxies.Publish(channel.Item{Key: "default/gw", Value: []byte("3")})
	check("three are connected to another process", 4, false)
	acked := func() {
		otherAcked.Publish(channel.Item{Key: "default/gw", Value: []byte("2 " + p.listeners("default/gw"))})
	}
	acked()
	check("they have it too", 4, true)
	listener = "with one more, of a ListenerSet"
	p.Expect("default/gw", 2)
	check("no proxy has the new listener", 4, false)
	deliver()
	check("Envoys of the other process do not have it", 4, false)
	acked()
	check("all have it", 4, true)
	policies = "default/clients 2"
	p.Expect("default/gw", 2)
	check("no proxy has the routes of a changed policy", 4, false)
	deliver()
	acked()
	check("all have the policy", 4, true)
}
