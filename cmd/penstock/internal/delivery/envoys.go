package delivery

import (
	"context"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

const (
	// workersDelay is how long Envoy's workers may take to apply endpoints after the main thread's
	// ACK.
	workersDelay = 20 * time.Millisecond
	// peersDelay is how much later Envoys of other processes may receive the same endpoints. Their
	// ACKs are not known here.
	peersDelay = 500 * time.Millisecond
)

// Streams are the streams of Envoys to this process. *server.Server implements it.
type Streams interface {
	Connected(gateway string) int
	WaitAcked(ctx context.Context, gateway string, ref resource.Ref, version string) error
}

// Elsewhere counts the Envoys of peers. *peers.Proxies implements it.
type Elsewhere interface {
	Elsewhere() int
	Reachable(ctx context.Context) (waited bool, err error)
}

// EnvoysConfig configures an Envoys.
type EnvoysConfig struct {
	Streams   Streams
	Elsewhere Elsewhere
	Cache     *cache.Cache
	Linger    *Linger
	Holds     *Holds
	Progress  *Progress
	Store     *store.Store
	Clusters  func(pool objectid.Target) []string
	NoPeers   func() bool
}

// Envoys waits until the proxies have endpoints. It implements learned.Delivery.
type Envoys struct{ cfg EnvoysConfig }

// NewEnvoys makes an Envoys.
func NewEnvoys(cfg EnvoysConfig) *Envoys { return &Envoys{cfg} }

// EndpointsKnown returns when every Envoy with one of the clusters has the newest endpoints.
func (e *Envoys) EndpointsKnown(ctx context.Context, clusters ...string) error {
	if err := e.endpointsAcked(ctx, clusters...); err != nil || e.cfg.Elsewhere.Elsewhere() == 0 {
		return err
	}
	return wait(ctx, peersDelay)
}

// endpointsAcked waits for the Envoys of this process, or for the first one.
func (e *Envoys) endpointsAcked(ctx context.Context, clusters ...string) error {
	none := e.cfg.Streams.Connected("") == 0
	for _, gw := range e.cfg.Cache.Gateways() {
		if !none && e.cfg.Streams.Connected(gw.Name) == 0 {
			continue
		}
		for _, name := range clusters {
			ref := resource.Ref{Type: resource.Endpoints, Name: name}
			version, ok := e.cfg.Cache.Current(gw.Name, ref)
			if !ok {
				continue
			}
			if err := e.cfg.Streams.WaitAcked(ctx, gw.Name, ref, version); err != nil {
				return err
			}
		}
	}
	return wait(ctx, workersDelay)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Reachable implements learned.Delivery.
func (e *Envoys) Reachable(ctx context.Context) (waited bool, err error) {
	return e.cfg.Elsewhere.Reachable(ctx)
}

// Delivered implements learned.Delivery.
func (e *Envoys) Delivered(ctx context.Context, rev uint64, pool objectid.Target) error {
	if !e.cfg.Progress.Begun() {
		return nil // the first translation, for which Envoys wait, has the endpoints
	}
	if err := e.cfg.Progress.Wait(ctx, rev); err != nil {
		return err
	}
	if err := e.cfg.Holds.wait(ctx, pool); err != nil {
		return err
	}
	clusters := append(e.cfg.Clusters(pool), e.cfg.Linger.Learn(pool, learnedAddresses(e.cfg.Store.View(), pool))...)
	if len(clusters) == 0 || e.cfg.Streams.Connected("") == 0 {
		return nil // the pool has no route any more, or no Envoy is connected here
	}
	return e.endpointsAcked(ctx, clusters...)
}

// Isolated implements learned.Delivery.
func (e *Envoys) Isolated() bool { return e.cfg.Streams.Connected("") == 0 && e.cfg.NoPeers() }
