package delivery

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/penstock-project/penstock/picker"
)

// namesTimeout is how long a process waits for its peers' pickers to drop endpoints: they read the same objects within
// milliseconds.
const namesTimeout = 300 * time.Millisecond

// Names exchanges what pickers name. *peers.Names implements it.
type Names interface {
	Publish(digests map[string]string)
	Retract(pools ...string)
	Behind(pool, digest string) (peers []string)
	MarkLate(peers ...string)
	Changed() <-chan struct{}
}

// naming is what a picker names of a pool.
type naming struct {
	digest string
	fewer  bool // than before
}

// names describes what the picker names of a pool, compared to what it named before.
func names(next, before picker.Pool) naming {
	addrs := func(p picker.Pool) (out []string) {
		for _, e := range p.Endpoints {
			if !e.Draining {
				out = append(out, e.Addr.String())
			}
		}
		out = append(out, p.Spill...)
		slices.Sort(out)
		return out
	}
	is := addrs(next)
	h := fnv.New64a()
	for _, a := range is {
		fmt.Fprintln(h, a)
	}
	return naming{
		digest: fmt.Sprintf("%016x", h.Sum64()),
		fewer:  slices.ContainsFunc(addrs(before), func(a string) bool { return !slices.Contains(is, a) }),
	}
}

// awaitPeers publishes what the picker of this process names. It returns when no peer's picker names more of the pools that
// have become smaller, or after namesTimeout.
func awaitPeers(ctx context.Context, n Names, pools map[string]naming) {
	digests := map[string]string{}
	for name, is := range pools {
		digests[name] = is.digest
	}
	n.Publish(digests)
	timeout := time.NewTimer(namesTimeout)
	defer timeout.Stop()
	for {
		var behind []string
		for name, is := range pools {
			if is.fewer {
				behind = append(behind, n.Behind(name, is.digest)...)
			}
		}
		if len(behind) == 0 {
			return
		}
		select {
		case <-n.Changed():
		case <-ctx.Done():
			return
		case <-timeout.C:
			n.MarkLate(behind...)
			return
		}
	}
}
