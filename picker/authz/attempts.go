package authz

import (
	"net/netip"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/authz/jwt"
)

// An address may make attemptBurst failed attempts at once, and one more each attemptEvery. Only
// keys that are not WellFormed (imported keys) are limited, because a well-formed key has 256
// random bits, and a token has a signature. A key that was valid in a request from the address
// passes for goodTime, because many clients may share an address.
const (
	attemptBurst = 30
	attemptEvery = 2 * time.Second
	goodTime     = time.Hour
	maxAttempts  = 1 << 16
)

type attempts struct {
	mu     sync.Mutex
	failed map[netip.Prefix]failures
	good   map[goodKey]time.Time
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
	if !from.IsValid() || credential == "" || WellFormed(credential) || jwt.Formed(credential) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, known := a.failed[from]
	if !known || f.left(now) < attemptBurst {
		return false
	}
	since, good := a.good[goodKey{from, HashOf(credential)}]
	return !good || now.Sub(since) > goodTime
}

func (a *attempts) note(from netip.Prefix, credential string, ok bool, now time.Time) {
	if !from.IsValid() || credential == "" || ok && WellFormed(credential) || jwt.Formed(credential) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		if a.good == nil {
			a.good = map[goodKey]time.Time{}
		}
		makeRoom(a.good, func(since time.Time) bool { return now.Sub(since) > goodTime })
		a.good[goodKey{from, HashOf(credential)}] = now
		return
	}
	if a.failed == nil {
		a.failed = map[netip.Prefix]failures{}
	}
	makeRoom(a.failed, func(f failures) bool { return f.left(now) == 0 })
	a.failed[from] = failures{min(attemptBurst, a.failed[from].left(now)+1), now}
}

func makeRoom[K comparable, V any](m map[K]V, outdated func(V) bool) {
	if len(m) < maxAttempts {
		return
	}
	for k, v := range m {
		if outdated(v) {
			delete(m, k)
		}
	}
	for k := range m {
		if len(m) < maxAttempts {
			return
		}
		delete(m, k)
	}
}
