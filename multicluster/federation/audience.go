package federation

import (
	"slices"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/multicluster/export"
)

// audience is what each member receives. The channel reads it with its own lock held, so it has a lock of its own.
type audience struct {
	mu  sync.RWMutex
	of  map[string][]string // exports, by key: the members that each is for; nil: all members
	hub string              // "": there is none
	// relays are the members between which and this cluster the hub relays, sorted; at the hub, all that it relays to.
	relays []string
	// represented are the members that this hub publishes for.
	represented map[string]bool
}

// represent replaces the members that this hub publishes for, and those that it relays to.
func (a *audience) represent(names map[string]bool, relays []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.represented, a.relays = names, relays
}

// representsAny reports whether this hub publishes for a member at all.
func (a *audience) representsAny() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.represented) > 0
}

// represents reports whether this hub publishes for a member.
func (a *audience) represents(member string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.represented[member]
}

// has reports whether a member receives an item of the topic exports. A hub receives what is for members that it relays to, and for which ones.
func (a *audience) has(member, key string) bool {
	if key == stateKey {
		return true
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	record, _ := parsePart(key)
	record, whom := strings.CutSuffix(record, audienceSuffix)
	to, ok := a.of[record]
	if member == a.hub && member != "" {
		return ok && len(a.among(to)) > 0
	}
	return ok && !whom && (to == nil || slices.Contains(to, member))
}

// addressed reports whether a member receives an item whose key begins with the member that it is for.
func (a *audience) addressed(member, key string) bool {
	to, _, ok := strings.Cut(key, "/")
	a.mu.RLock()
	defer a.mu.RUnlock()
	return ok && (to == member || member == a.hub && slices.Contains(a.relays, to))
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

// through replaces the hub, and the members that it relays.
func (a *audience) through(hub string, relays []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hub, a.relays = hub, relays
}

// hasHub reports whether a hub relays what this cluster publishes.
func (a *audience) hasHub() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.hub != ""
}

// relayed are those of some members, nil: all, that the hub relays to.
func (a *audience) relayed(to []string) []string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.among(to)
}

// among is relayed with mu held.
func (a *audience) among(to []string) (out []string) {
	for _, m := range a.relays {
		if to == nil || slices.Contains(to, m) {
			out = append(out, m)
		}
	}
	return out
}
