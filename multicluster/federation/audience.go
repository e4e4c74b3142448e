package federation

import (
	"slices"
	"sync"

	"github.com/penstock-project/penstock/multicluster/export"
)

// audience is which members receive each export. The channel reads it with its own lock held, so it
// has a lock of its own.
type audience struct {
	mu sync.RWMutex
	of map[string][]string // by key; nil: all members
}

// has reports whether a member receives an item of the topic exports.
func (a *audience) has(member, key string) bool {
	if key == stateKey {
		return true
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	record, _ := parsePart(key)
	to, ok := a.of[record]
	return ok && (to == nil || slices.Contains(to, member))
}

func (a *audience) set(list []export.Export) {
	of := make(map[string][]string, len(list))
	for _, e := range list {
		of[poolKey(e.Pool)] = e.To
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of = of
}
