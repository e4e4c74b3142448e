package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
)

const (
	// hostsTTL is how long a change of a name's addresses stays published: longer than a lost
	// connection takes to come back, and shorter than the time between two lookups, after which it
	// may be wrong.
	hostsTTL = 5 * time.Second
	// maxHostAddresses is how many addresses a name may have. A lookup yields no more
	// (discovery/hostname).
	maxHostAddresses = 256
)

// HostLearner stores addresses of a host name that is used. *hostname.Resolver implements it.
type HostLearner interface {
	Learn(name string, addresses []string) error
}

// Hosts publishes changed addresses of host names. Processes look names up at different moments;
// without it, the picker of one would name addresses that Envoys of another lack, for up to the
// time between two lookups.
type Hosts struct{ topic *channel.Topic }

// NewHosts makes it. learner is called once the channel runs.
func NewHosts(c *channel.Channel, learner func() HostLearner) *Hosts {
	h := &Hosts{topic: c.Topic("hosts")}
	h.topic.Subscribe(func(_ context.Context, u channel.Update) error {
		var errs []error
		for _, it := range u.Items {
			addresses, err := decodeHost(it.Value)
			if err == nil {
				err = learner().Learn(it.Key, addresses)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("host name %.253q: %w", it.Key, err))
			}
		}
		return errors.Join(errs...)
	})
	return h
}

// decodeHost returns the addresses in the form in which a lookup yields them.
func decodeHost(value []byte) ([]string, error) {
	var list []netip.Addr
	if err := json.Unmarshal(value, &list); err != nil {
		return nil, err
	}
	if len(list) == 0 || len(list) > maxHostAddresses {
		return nil, fmt.Errorf("%d addresses; a name has 1 to %d", len(list), maxHostAddresses)
	}
	out := make([]string, len(list))
	for i, a := range list {
		if !a.IsValid() || a.Zone() != "" {
			return nil, errors.New("an address that is none")
		}
		out[i] = a.String()
	}
	return out, nil
}

// Changed publishes the addresses of a name that this process has looked up. See
// hostname.Resolver.OnChange.
func (h *Hosts) Changed(name string, addresses []string) {
	value, err := json.Marshal(addresses)
	if err != nil { // of plain values
		return
	}
	h.topic.Publish(channel.Item{Key: name, Value: value, TTL: hostsTTL})
}
