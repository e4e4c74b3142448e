package peers

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestPicker_PeerThatNamesOtherEndpointsIsBehind(t *testing.T) {
	other := startPublisher(t)
	topic := other.Topic("names")
	c := channel.New(channel.Config{Peers: []string{other.address}})
	n := NewNames(c)
	subscribed(t, c)
	behind := func(when, digest string, want ...string) {
		t.Helper()
		poll.Until(t, when,
			func() bool { return slices.Equal(n.Behind(objectid.MustParseTarget("ns/a"), digest), want) })
	}
	behind("a peer that publishes nothing", "1")
	topic.Publish(channel.Item{Key: "ns/a", Value: []byte("1")})
	behind("the peer names the same", "1")
	behind("the peer names others", "2", other.address)
	<-n.Changed()
	n.MarkLate(other.address)
	behind("the peer is late", "2")
	topic.Publish(channel.Item{Key: "ns/b", Value: []byte("1")})
	behind("the peer has published again", "2", other.address)
	topic.Retract("ns/a")
	behind("the peer names nothing of the pool", "2")
}
