package identity

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

const (
	// An unknown token takes one of its address's junkBurst places for its review. An accepted
	// token returns the place at once, a denied token after junkInterval.
	junkBurst     = 16
	junkInterval  = 4 * time.Second
	junkAddresses = 8192
)

type junk struct {
	now func() time.Time

	mu      sync.Mutex
	buckets *lru.Cache
}

type bucket struct {
	places  float64
	updated time.Time
}

func newJunk(now func() time.Time) *junk { return &junk{now: now, buckets: lru.New(junkAddresses)} }

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

func (j *junk) give(a netip.Addr) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.bucket(a)
	b.places = min(junkBurst, b.places+1)
}

// The caller holds j.mu.
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
