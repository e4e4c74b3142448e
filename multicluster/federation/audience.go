package federation

import (
	"slices"
	"sync"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/export"
)

// audience has its own lock, because the channel calls receives while it holds Channel.mu.
type audience struct {
	mu    sync.RWMutex
	pools map[objectid.Pool][]string // members that receive a pool; nil: all members
}

func (a *audience) receives(member, key string) bool {
	at, err := parseKey(key)
	return err == nil && (at.kind == stateKind || a.has(member, at.pool))
}

func (a *audience) has(member string, pool objectid.Pool) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	to, ok := a.pools[pool]
	return ok && (to == nil || slices.Contains(to, member))
}

func (a *audience) set(list []export.Export) {
	pools := make(map[objectid.Pool][]string, len(list))
	for _, e := range list {
		pools[e.Pool] = e.To
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pools = pools
}
