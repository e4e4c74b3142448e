package delivery

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
)

// Names exchanges digests of the endpoints that pickers name. *peers.Names implements it.
type Names interface {
	Publish(digests map[objectid.Target]string)
	Retract(pools ...objectid.Target)
	Behind(pool objectid.Target, digest string) (peers []string)
	MarkLate(peers ...string)
	Changed() <-chan struct{}
}

type naming struct {
	digest string
	fewer  bool
}

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
	named := addrs(next)
	h := fnv.New64a()
	for _, a := range named {
		fmt.Fprintln(h, a)
	}
	return naming{
		digest: fmt.Sprintf("%016x", h.Sum64()),
		fewer:  slices.ContainsFunc(addrs(before), func(a string) bool { return !slices.Contains(named, a) }),
	}
}
