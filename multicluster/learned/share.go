package learned

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// Topic is the name of what Keepers tell one another.
const Topic = "learned"

// nobody is the Peers of a process that is the only one.
type nobody struct{}

func (nobody) Tell(...channel.Fact)        {}
func (nobody) Withdraw(...string)          {}
func (nobody) Heard(context.Context) error { return nil }

// factName is "POOL ADDRESS".
func factName(pool string, addr netip.AddrPort) string { return pool + " " + addr.String() }

// Hear takes in what another process has learned, and returns when the Envoys of this one have it too. That it is taken back
// means nothing: it ends here by its own time.
func (k *Keeper) Hear(ctx context.Context, n channel.News) error {
	pools := map[string]uint64{} // with the revision that has what is new
	var problems []error
	k.mu.Lock()
	now := k.cfg.Now()
	for _, f := range n.Facts {
		pool, text, _ := strings.Cut(f.Name, " ")
		addr, err := netip.ParseAddrPort(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%q: %w", f.Name, err))
			continue
		}
		pools[pool] = 0
		k.extend(pool, addr, now.Add(min(f.TTL, k.cfg.For)))
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
