package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/xds/resource"
)

// Batch is one revision's changes to one gateway's resources.
type Batch struct {
	// Gateway is "namespace/name". Profile is "" for the default profile.
	Gateway, Profile string
	// Revision is the store's revision, for logs and status only.
	Revision uint64
	// Upserts may equal the current versions, and are then ignored.
	Upserts []*resource.Resource
	// Removes may name missing resources.
	Removes []resource.Ref
	// Trace is optional.
	Trace trace.SpanContext
}

// Config configures a Cache.
type Config struct {
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// LogRecords bounds the changes in one log, and LogBytes the replaced bodies in it. Defaults:
	// 4,096 and 16 MiB.
	LogRecords, LogBytes int
}

// Cache holds the logs of all gateways. It is safe for concurrent use.
type Cache struct {
	config Config

	mu    sync.Mutex
	ready bool
	logs  map[scope]*log
}

type scope struct{ gateway, profile string }

// New returns an empty cache that is not ready.
func New(c Config) *Cache {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.LogRecords = cmp.Or(c.LogRecords, 4096)
	c.LogBytes = cmp.Or(c.LogBytes, 16<<20)
	return &Cache{config: c, logs: map[scope]*log{}}
}

// SetReady records that every source has been translated once. Before SetReady, no cursor is ready.
func (c *Cache) SetReady() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	for _, l := range c.logs {
		l.open(c.ready)
	}
}

// Commit appends batches to their gateways' logs. A name in Upserts and Removes is an upsert. An
// empty batch registers the gateway.
func (c *Cache) Commit(batches ...Batch) {
	now := c.config.Now()
	for _, b := range batches {
		l := c.log(scope{b.Gateway, b.Profile})
		l.commit(b, now)
		c.mu.Lock()
		l.open(c.ready)
		c.mu.Unlock()
	}
}

// Current returns the newest version of a resource in a gateway's default profile.
func (c *Cache) Current(gateway string, ref resource.Ref) (version string, ok bool) {
	if r := c.Resource(gateway, ref); r != nil {
		return r.Version, true
	}
	return "", false
}

// Resource returns the resource of Current, or nil.
func (c *Cache) Resource(gateway string, ref resource.Ref) *resource.Resource {
	c.mu.Lock()
	l := c.logs[scope{gateway: gateway}]
	c.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.slots[ref.Type][ref.Name]; s != nil && s.Current() != nil {
		return s.Current().Resource
	}
	return nil
}

// Gateway describes the log of one gateway and profile.
type Gateway struct {
	Name     string                `json:"gateway"`
	Profile  string                `json:"profile,omitempty"`
	Revision uint64                `json:"revision"`
	Sequence uint64                `json:"sequence"` // number of changes
	Counts   map[resource.Type]int `json:"resources"`
}

// Gateways describes every log, sorted by gateway and profile.
func (c *Cache) Gateways() []Gateway {
	c.mu.Lock()
	logs := maps.Clone(c.logs)
	c.mu.Unlock()
	out := make([]Gateway, 0, len(logs))
	for k, l := range logs {
		g := Gateway{Name: k.gateway, Profile: k.profile}
		l.describe(&g)
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Gateway) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Profile, b.Profile))
	})
	return out
}

func (c *Cache) log(k scope) *log {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.logs[k]
	if l == nil {
		l = newLog(c.config)
		c.logs[k] = l
	}
	return l
}

// Open returns a cursor at the end of a gateway's log. The caller must close it.
func (c *Cache) Open(gateway, profile string) *Cursor {
	k := scope{gateway, profile}
	c.mu.Lock()
	if c.logs[k] == nil {
		k.profile = ""
	}
	c.mu.Unlock()
	return c.log(k).cursor()
}
