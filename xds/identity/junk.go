package identity

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

const (
	// junkBurst is how many unknown tokens of an address may be in review, or have been denied
	// lately. Clients behind one address share it; a token that is accepted gives its place back.
	junkBurst = 16
	// junkInterval is how long a denied token takes away a place.
	junkInterval = 4 * time.Second
	// junkAddresses is the number of addresses that are followed.
	junkAddresses = 8192
)

// junk limits, for each address, the tokens that the API server reviews and denies.
type junk struct {
	now func() time.Time

	mu      sync.Mutex
	buckets *lru.Cache // address -> *bucket
}

// bucket is the places that an address has left.
type bucket struct {
	places  float64
	updated time.Time
}

func newJunk(now func() time.Time) *junk { return &junk{now: now, buckets: lru.New(junkAddresses)} }

// take takes a place of an address; false: it has none left.
func (j *junk) take(a netip.Addr) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.bucket(a)
	if b.places < 1 {
		return false
	}
	b.places--
	return true
}

// give returns a place.
func (j *junk) give(a netip.Addr) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.bucket(a)
	b.places = min(junkBurst, b.places+1)
}

// bucket returns the places of an address at this time. Called with mu held.
func (j *junk) bucket(a netip.Addr) *bucket {
	now := j.now()
	v, ok := j.buckets.Get(a)
	if !ok {
		b := &bucket{places: junkBurst, updated: now}
		j.buckets.Add(a, b)
		return b
	}
	b := v.(*bucket)
	if passed := now.Sub(b.updated); passed > 0 {
		b.places = min(junkBurst, b.places+float64(passed)/float64(junkInterval))
	}
	b.updated = now
	return b
}
