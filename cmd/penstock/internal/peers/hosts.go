package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
)

const (
	// hostsTTL is longer than a reconnection, and shorter than the time between lookups, because
	// the next lookup outdates the addresses.
	hostsTTL         = 5 * time.Second
	maxHostAddresses = 256
)

// HostLearner stores addresses of a host name in use. *hostname.Resolver implements it.
type HostLearner interface {
	Learn(name string, addresses []string) error
}

// Hosts publishes changed addresses of host names. Otherwise a picker could name addresses that
// Envoys of another process lack.
type Hosts struct{ topic *channel.Topic }

// NewHosts makes a Hosts. learner is called once the channel runs.
func NewHosts(c *channel.Channel, learner func() HostLearner) *Hosts {
	h := &Hosts{topic: c.Topic("hosts")}
	h.topic.Subscribe(eachItem(func(it channel.Item) error {
		addresses, err := decodeHost(it.Value)
		if err == nil {
			err = learner().Learn(it.Key, addresses)
		}
		if err != nil {
			return fmt.Errorf("host name %.253q: %w", it.Key, err)
		}
		return nil
	}))
	return h
}

func decodeHost(value []byte) ([]string, error) {
	list, err := fromJSON[[]netip.Addr](value)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || len(list) > maxHostAddresses {
		return nil, fmt.Errorf("%d addresses; a name has 1 to %d", len(list), maxHostAddresses)
	}
	out := make([]string, len(list))
	for i, a := range list {
		if !a.IsValid() || a.Zone() != "" {
			return nil, errors.New("an invalid address")
		}
		out[i] = a.String()
	}
	return out, nil
}

// Changed publishes addresses of a name that this process looked up.
func (h *Hosts) Changed(name string, addresses []string) {
	h.topic.Publish(channel.Item{Key: name, Value: toJSON(addresses), TTL: hostsTTL})
}
