package peers

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// hostRecorder records a process's learned addresses. Read it after the last delivery.
type hostRecorder map[string][]string

func (h hostRecorder) Learn(name string, addresses []string) error {
	h[name] = addresses
	return nil
}

func TestHosts_ChangedAddressesReachPeers(t *testing.T) {
	other := startPublisher(t)
	theirs := NewHosts(other.Channel, nil)
	c, got := channel.New(channel.Config{Peers: []string{other.address}}), hostRecorder{}
	NewHosts(c, func() HostLearner { return got })
	subscribed(t, c)
	poll.Until(t, "the process subscribes", func() bool { return other.Topic("hosts").Subscribed() })
	theirs.Changed("gpu.example", []string{"192.0.2.1", "2001:db8::1"})
	other.Topic("hosts").Publish(channel.Item{Key: "bad.example", Value: []byte(`["none"]`)})
	if err := other.Topic("hosts").Acknowledged(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !slices.Equal(got["gpu.example"], []string{"192.0.2.1", "2001:db8::1"}) {
		t.Errorf("learned %v, want the two addresses of gpu.example, and nothing of a value without addresses", got)
	}
}
