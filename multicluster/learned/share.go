package learned

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// Topic is the name of the channel topic on which Keepers publish addresses.
const Topic = "learned"

// Peers are the other processes that serve the same Envoys. *channel.Topic implements it.
type Peers interface {
	Subscribe(handle func(context.Context, channel.Update) error)
	Publish(items ...channel.Item)
	// Acknowledged returns once publications are in effect at all peers, or after a timeout.
	Acknowledged(ctx context.Context) error
}

type noPeers struct{}

func (noPeers) Subscribe(func(context.Context, channel.Update) error) {}
func (noPeers) Publish(...channel.Item)                               {}
func (noPeers) Acknowledged(context.Context) error                    { return nil }

func itemKey(pool objectid.Target, addr netip.AddrPort) string {
	return pool.String() + " " + addr.String()
}

// receive adds the addresses that a peer published. It ignores retractions, because addresses
// expire by their time to live.
func (k *Keeper) receive(ctx context.Context, u channel.Update) error {
	pools := map[objectid.Target]uint64{}
	var problems []error
	k.mu.Lock()
	now := k.cfg.Now()
	for _, it := range u.Items {
		name, text, _ := strings.Cut(it.Key, " ")
		addr, err := netip.ParseAddrPort(text)
		pool, ok := objectid.ParseTarget(name)
		if err == nil && !ok {
			err = errors.New("not a pool of an import")
		}
		if err == nil && (addr.Port() == 0 || addr.Addr().Zone() != "") {
			err = errors.New("not an address that Envoy takes")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%.200q: %w", it.Key, err))
			continue
		}
		pools[pool] = 0
		k.extend(pool, addr, now.Add(min(it.TTL, k.cfg.For)))
	}
	for pool := range pools {
		rev, err := k.write(pool)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", pool, err))
			delete(pools, pool)
			continue
		}
		pools[pool] = rev
	}
	k.mu.Unlock()
	for pool, rev := range pools {
		if err := k.deliver(ctx, rev, pool); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
