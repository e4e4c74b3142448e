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

// Batch is what one revision of the world changes for one gateway.
type Batch struct {
	// Gateway is "namespace/name"; Profile as in the package's comment, "" for the default one.
	Gateway, Profile string
	// Revision is the store's revision that it was made from; for logs and status only.
	Revision uint64
	// Upserts are new or changed resources. One that equals the current version changes nothing.
	Upserts []*resource.Resource
	// Removes are names that exist no more. One that does not exist changes nothing.
	Removes []resource.Ref
	// Trace is the change that caused it; the zero value is none.
	Trace trace.SpanContext
}

// Config is what a Cache needs.
type Config struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// LogRecords and LogBytes bound a log: the number of changes and the bytes of replaced bodies that it keeps for
	// streams which are behind. Defaults: 4,096 and 16 MiB.
	LogRecords, LogBytes int
}

// Cache is the logs of all gateways. Safe for use by many.
type Cache struct {
	config Config

	mu    sync.Mutex
	ready bool
	logs  map[scope]*log
}

type scope struct{ gateway, profile string }

// New makes an empty cache that is not ready.
func New(c Config) *Cache {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.LogRecords = cmp.Or(c.LogRecords, 4096)
	c.LogBytes = cmp.Or(c.LogBytes, 16<<20)
	return &Cache{config: c, logs: map[scope]*log{}}
}

// SetReady says that every source has been read and translated once. Until then no cursor is.
func (c *Cache) SetReady() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	for _, l := range c.logs {
		l.open(c.ready)
	}
}

// Commit appends batches to their gateways' logs and wakes the cursors that read them. Within a batch removals come
// first: a name in both lists is an upsert. A batch without changes is good for saying that the gateway exists.
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

// Current is the newest committed version of a resource of a gateway's default profile; false if there is none.
func (c *Cache) Current(gateway string, ref resource.Ref) (version string, ok bool) {
	if r := c.Resource(gateway, ref); r != nil {
		return r.Version, true
	}
	return "", false
}

// Resource is the resource itself of which Current is the version; nil if there is none.
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

// Gateway is what is known of one log, for people.
type Gateway struct {
	Name     string                `json:"gateway"`
	Profile  string                `json:"profile,omitempty"`
	Revision uint64                `json:"revision"` // the last batch's
	Sequence uint64                `json:"sequence"` // changes since the start
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

// log finds or makes a log.
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

// Open starts to read a gateway's log. It begins with nothing read: the first Pull is for what changes from then on,
// and what exists already is found by Acquire and Each. Close it.
func (c *Cache) Open(gateway, profile string) *Cursor {
	k := scope{gateway, profile}
	c.mu.Lock()
	if c.logs[k] == nil {
		k.profile = ""
	}
	c.mu.Unlock()
	return c.log(k).cursor()
}
