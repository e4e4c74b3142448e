package authz

import (
	"net/netip"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/authz/jwt"
)

// A client's address may make attemptBurst failed attempts at once, and one more each attemptEvery.
// Failed keys and failed tokens have separate limits. Keys have one, because a client may guess
// them. Tokens have one, because verifying a signature costs CPU time. WellFormed keys have none,
// because no client can guess their 256 random bits. Many clients may share an address. So a key or
// token that was valid from the address within goodTime has no limit, either.
const (
	attemptBurst = 30
	attemptEvery = 2 * time.Second
	goodTime     = time.Hour
	maxAttempts  = 1 << 15
)

type attempts struct {
	mu     sync.Mutex
	failed generations[failing, failures]
	good   generations[goodKey, time.Time]
}

type failing struct {
	from  netip.Prefix
	token bool
}

type failures struct {
	used float64
	at   time.Time
}

func (f failures) left(now time.Time) float64 {
	return max(0, f.used-now.Sub(f.at).Seconds()/attemptEvery.Seconds())
}

type goodKey struct {
	from netip.Prefix
	hash Hash
}

func networkOf(address string) netip.Prefix {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits)
	return network
}

func (a *attempts) limited(from netip.Prefix, credential string, now time.Time) bool {
	if !from.IsValid() || credential == "" || WellFormed(credential) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, known := a.failed.get(failing{from, jwt.Formed(credential)})
	if !known || f.left(now)+1 <= attemptBurst {
		return false
	}
	since, good := a.good.get(goodKey{from, HashOf(credential)})
	return !good || now.Sub(since) > goodTime
}

func (a *attempts) note(from netip.Prefix, credential string, ok bool, now time.Time) {
	if !from.IsValid() || credential == "" || ok && WellFormed(credential) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		a.good.put(goodKey{from, HashOf(credential)}, now)
		return
	}
	at := failing{from, jwt.Formed(credential)}
	before, _ := a.failed.get(at)
	a.failed.put(at, failures{min(attemptBurst, before.left(now)+1), now})
}

// generations is a map with at most 2*maxAttempts entries. When recent has maxAttempts entries, it
// replaces former, and a new recent begins.
type generations[K comparable, V any] struct{ recent, former map[K]V }

func (g *generations[K, V]) get(k K) (v V, ok bool) {
	if v, ok = g.recent[k]; !ok {
		v, ok = g.former[k]
	}
	return v, ok
}

func (g *generations[K, V]) put(k K, v V) {
	if _, has := g.recent[k]; !has && len(g.recent) >= maxAttempts {
		g.former, g.recent = g.recent, nil
	}
	if g.recent == nil {
		g.recent = map[K]V{}
	}
	g.recent[k] = v
}
