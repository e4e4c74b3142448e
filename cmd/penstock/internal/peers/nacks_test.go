package peers

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// publisher is another process, whose items the test publishes.
type publisher struct {
	*channel.Channel
	address string
	stop    func()
}

func startPublisher(t testing.TB) publisher {
	t.Helper()
	c := channel.New(channel.Config{})
	address, stop := serve(t, c)
	return publisher{c, address, stop}
}

func serve(t testing.TB, c *channel.Channel) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// As in xds/server: by gRPC's default, the peer's pings would end the connection after a
	// minute.
	pings := keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}
	s := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(pings))
	c.Register(s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String(), s.Stop
}

func subscribed(t testing.TB, c *channel.Channel) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestNACK_OutlivesTheProcessThatReportedIt(t *testing.T) {
	other := startPublisher(t)
	topic := other.Topic("nacks")
	board, c := status.NewBoard(nil), channel.New(channel.Config{Peers: []string{other.address}})
	n := NewNACKs(board, c)
	subscribed(t, c)
	route := report.Ref{Kind: "HTTPRoute", Namespace: "default", Name: "a"}
	raw, err := json.Marshal(
		[]report.Report{
			{
				Owner: route, Conditions: []report.Condition{
					{Type: "Programmed", Status: report.False, Reason: "Invalid", Message: "Envoy's words"},
				},
			},
		})
	if err != nil {
		t.Fatal(err)
	}
	topic.Publish(channel.Item{Key: "default/gw node", Value: raw})
	known := func() bool { _, ok := board.Get(route); return ok }
	poll.Until(t, "the NACK is on the board", known)
	other.stop()
	poll.Until(t, "the connection is lost", func() bool { return !c.Connected(other.address) })
	if !known() {
		t.Error("the NACK is gone with the process, although it is not resolved")
	}
	poll.Until(t, "the Envoy has connected here and rejects nothing: the NACK is gone", func() bool {
		n.Rejected("default/gw", "node", nil)
		return !known()
	})
}
