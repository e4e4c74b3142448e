package app

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
)

// Any picker may be asked by any Envoy. So an endpoint that leaves must have been forgotten by all of them before Envoy hears
// of it, not only by the one in this process: all read the same files, but not at the same moment. Each process tells for
// each pool what its picker names.

// namedPatience is how long a process waits for others to forget what it has forgotten: they read the same files within
// milliseconds. One that takes longer is not waited for until it says something again.
const namedPatience = 300 * time.Millisecond

// naming is what a picker names of a pool.
type naming struct {
	digest string
	fewer  bool // than before
}

// names describes what the picker names of a pool, compared to what it did before.
func names(next picker.Pool, before picker.Pool) naming {
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

// forgotten tells what the picker of this process names, and returns when those of the others do not name more of the pools
// that have become smaller, or are late.
func (r *replicas) forgotten(ctx context.Context, pools map[string]naming) {
	var facts []channel.Fact
	for name, is := range pools {
		facts = append(facts, channel.Fact{Name: name, Body: []byte(is.digest)})
	}
	if len(facts) == 0 {
		return
	}
	r.names.Tell(facts...)
	timeout := time.NewTimer(namedPatience)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		var behind []string
		for peer, theirs := range r.named {
			for name, is := range pools {
				if digest, known := theirs[name]; is.fewer && known && digest != is.digest && !r.late[peer] {
					behind = append(behind, peer)
				}
			}
		}
		changed := r.changed
		r.mu.Unlock()
		if len(behind) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-timeout.C:
			r.mu.Lock()
			for _, peer := range behind {
				r.late[peer] = true
			}
			r.mu.Unlock()
			return
		}
	}
}

// hearNames takes in what the picker of another process names.
func (r *replicas) hearNames(_ context.Context, n channel.News) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.All || r.named[n.Peer] == nil {
		r.named[n.Peer] = map[string]string{}
	}
	for _, name := range n.Gone {
		delete(r.named[n.Peer], name)
	}
	for _, f := range n.Facts {
		r.named[n.Peer][f.Name] = string(f.Body)
	}
	delete(r.late, n.Peer)
	r.move()
	return nil
}

// unnamed takes back what was told of pools that are gone.
func (r *replicas) unnamed(pools []string) {
	if len(pools) > 0 {
		r.names.Withdraw(pools...)
	}
}
