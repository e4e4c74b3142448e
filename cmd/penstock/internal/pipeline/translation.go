package pipeline

import (
	"sync"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/xds/resource"
)

// Translation is a translator that is safe for concurrent use.
type Translation struct {
	mu    sync.Mutex
	t     *translator.Translator
	watch watchdog
}

// NewTranslation makes a Translation without objects.
func NewTranslation(cfg translator.Config) *Translation {
	t := translator.New(cfg)
	return &Translation{t: t, watch: watchdog{rows: t.Rows}}
}

// Update translates a change.
func (t *Translation) Update(view *store.View, changes []store.Change, arrived ...graph.Key) translator.Output {
	defer t.watch.begin()()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.t.Update(view, changes, arrived...)
}

// WaitForDemands makes rows of later translations wait for objects that no row has read yet.
func (t *Translation) WaitForDemands() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.t.WaitForDemands()
}

// Stuck reports whether a change has computed no row for StuckAfter in translation or delivery.
func (t *Translation) Stuck() bool { return t.watch.stuck.Load() }

// Read calls f with the translator. f must not keep it.
func (t *Translation) Read(f func(*translator.Translator)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.t)
}

// Gateways lists the Gateways of this controller.
func (t *Translation) Gateways() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.t.Gateways()
}

// Listeners returns a gateway's listeners and their route configurations.
func (t *Translation) Listeners(gateway string) []resource.Ref {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.t.Listeners(gateway)
}

// PoolClusters returns the clusters of a pool.
func (t *Translation) PoolClusters(pool objectid.Target) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, c := range t.t.PoolClusters(pool) {
		out = append(out, c.String())
	}
	return out
}
