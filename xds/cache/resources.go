package cache

import (
	"slices"

	"github.com/penstock-project/penstock/xds/resource"
)

// Resources lists a gateway's current resources, sorted by type and name. It is for debug pages,
// because it locks the log for one pass over all names.
func (c *Cache) Resources(gateway string) ([]*resource.Resource, bool) {
	c.mu.Lock()
	l := c.logs[scope{gateway: gateway}]
	c.mu.Unlock()
	if l == nil {
		return nil, false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.born {
		return nil, false
	}
	var out []*resource.Resource
	for _, s := range l.byID {
		if s == nil {
			continue
		}
		if e := s.Current(); e != nil {
			out = append(out, e.Resource)
		}
	}
	slices.SortFunc(out, func(a, b *resource.Resource) int { return a.Ref.Compare(b.Ref) })
	return out, true
}
