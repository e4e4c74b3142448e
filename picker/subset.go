package picker

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	// maxSubsets bounds the cached selectors. Each request evaluates further selectors again.
	maxSubsets = 64
	// A selector of more than maxSelector bytes matches no endpoint.
	maxSelector = 16 << 10
)

// subsets caches which endpoints match label selectors, for one list of endpoints.
type subsets struct {
	known sync.Map
	count atomic.Int32
}

// selected returns a filter for the endpoints that match a selector and pass within; nil passes
// all. An invalid selector matches no endpoint.
func (pool *pool) selected(selector string, within func(*endpoint.Endpoint) bool) func(*endpoint.Endpoint) bool {
	var match map[netip.AddrPort]bool
	if found, ok := pool.subsets.known.Load(selector); ok {
		match = found.(map[netip.AddrPort]bool)
	} else if match = pool.match(selector); pool.subsets.count.Load() < maxSubsets {
		pool.subsets.count.Add(1)
		pool.subsets.known.Store(selector, match)
	}
	return func(e *endpoint.Endpoint) bool { return match[e.Addr] && (within == nil || within(e)) }
}

func (pool *pool) match(text string) map[netip.AddrPort]bool {
	match, selected := map[netip.AddrPort]bool{}, selects(text)
	for i := range pool.snapshot.Endpoints {
		if e := &pool.snapshot.Endpoints[i]; selected(e.Labels) {
			match[e.Addr] = true
		}
	}
	return match
}

func selects(text string) func(map[string]string) bool {
	selector, err := labels.Parse(text[:min(len(text), maxSelector)])
	if err != nil || len(text) > maxSelector {
		selector = labels.Nothing()
	}
	return func(l map[string]string) bool { return selector.Matches(labels.Set(l)) }
}
