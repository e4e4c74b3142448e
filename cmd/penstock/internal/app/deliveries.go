package app

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/resource"
)

// ackWaiter is what deliveries ask of the proxies. *server.Server is one.
type ackWaiter interface {
	WaitAcked(ctx context.Context, gateway string, ref resource.Ref, version string) error
}

// deliveriesConfig is what deliveries need.
type deliveriesConfig struct {
	Proxies   ackWaiter
	Replicas  *replicas
	Resources func(gateway string) []resource.Ref // what the proxies of a gateway must have
	// Version is the one of a resource that is current.
	Version func(gateway string, ref resource.Ref) (version string, ok bool)
	Log     *slog.Logger
}

// delivery is what proxies are to have, or have: a Gateway's generation, and its listeners as they are then. These also come from
// ListenerSets, which leave the generation alone; their digest is the same in every process.
type delivery struct {
	generation int64
	listeners  string
}

// deliveries knows which generation and listeners of each Gateway its proxies have, those of other processes included: each
// process tells what its own have acknowledged.
type deliveries struct {
	cfg   deliveriesConfig
	topic *channel.Topic
	touch func(gateway string) // told when something has changed; set before Run
	wake  chan struct{}

	mu     sync.Mutex
	newest map[string]delivery            // of each gateway
	wanted map[string]struct{}            // gateways to wait for
	waits  map[string]context.CancelFunc  // under way
	acked  map[string]delivery            // by all proxies that are connected here
	others map[string]map[string]delivery // peer -> the same
}

func newDeliveries(cfg deliveriesConfig) *deliveries {
	d := &deliveries{cfg: cfg, touch: func(string) {}, wake: make(chan struct{}, 1),
		newest: map[string]delivery{}, wanted: map[string]struct{}{}, waits: map[string]context.CancelFunc{},
		acked: map[string]delivery{}, others: map[string]map[string]delivery{}}
	d.topic = cfg.Replicas.channel.Topic("acked", d.hear)
	cfg.Replicas.moved = func(gateway string) { d.touch(gateway) }
	return d
}

// expect says that a gateway has a generation now, or other listeners.
func (d *deliveries) expect(gateway string, generation int64) {
	listeners := d.listeners(gateway)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.newest[gateway] = delivery{generation, listeners}
	d.wanted[gateway] = struct{}{}
	poke(d.wake)
}

// listeners is the digest of a gateway's listeners.
func (d *deliveries) listeners(gateway string) string {
	h := fnv.New64a()
	for _, ref := range d.cfg.Resources(gateway) {
		if ref.Type == resource.Listener {
			version, _ := d.cfg.Version(gateway, ref)
			_, _ = fmt.Fprintf(h, "%s %s\n", ref.Name, version) // never fails
		}
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// forget says that a gateway is gone.
func (d *deliveries) forget(gateway string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.newest, gateway)
	delete(d.wanted, gateway)
	delete(d.acked, gateway)
	if stop := d.waits[gateway]; stop != nil {
		stop()
		delete(d.waits, gateway)
	}
	d.topic.Withdraw(gateway)
}

// Run waits for the proxies until ctx ends.
func (d *deliveries) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-d.wake:
			}
			d.mu.Lock()
			for gateway := range d.wanted {
				delete(d.wanted, gateway)
				if stop := d.waits[gateway]; stop != nil {
					stop()
				}
				var waiting context.Context
				waiting, d.waits[gateway] = context.WithCancel(ctx)
				newest := d.newest[gateway]
				group.Go(func() error { d.wait(waiting, gateway, newest); return nil })
			}
			d.mu.Unlock()
		}
	})
	return group.Wait()
}

// wait waits for one gateway's proxies. What they refuse is told elsewhere: they have all else.
func (d *deliveries) wait(ctx context.Context, gateway string, newest delivery) {
	must := d.cfg.Resources(gateway)
	for _, ref := range must {
		if err := d.cfg.Proxies.WaitAcked(ctx, gateway, ref, ""); err != nil && ctx.Err() != nil {
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	d.waits[gateway]()
	delete(d.waits, gateway)
	if d.acked[gateway] == newest {
		return
	}
	d.acked[gateway] = newest
	if len(must) > 0 { // else there is nothing that a proxy could have
		d.cfg.Log.Info("gateway programmed by the proxies connected here", "gateway", gateway, "generation", newest.generation)
	}
	d.topic.Tell(channel.Fact{Name: gateway, Body: fmt.Appendf(nil, "%d %s", newest.generation, newest.listeners)})
	d.touch(gateway)
}

// hear takes in what the proxies of another process have.
func (d *deliveries) hear(_ context.Context, n channel.News) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.All || d.others[n.Peer] == nil {
		d.others[n.Peer] = map[string]delivery{}
	}
	for _, gateway := range n.Gone {
		delete(d.others[n.Peer], gateway)
	}
	for _, f := range n.Facts {
		generation, listeners, _ := strings.Cut(string(f.Body), " ")
		number, err := strconv.ParseInt(generation, 10, 64)
		if err != nil {
			return fmt.Errorf("gateway %s: %w", f.Name, err)
		}
		d.others[n.Peer][f.Name] = delivery{number, listeners}
		d.touch(f.Name)
	}
	return nil
}

// Delivered implements kubestatus.Delivery.
func (d *deliveries) Delivered(gateway string, generation int64) (proxies int, acked bool) {
	own, others := d.cfg.Replicas.of(gateway)
	d.mu.Lock()
	defer d.mu.Unlock()
	has := func(got delivery) bool {
		return got.generation >= generation && got.listeners == d.newest[gateway].listeners
	}
	proxies, acked = own, own == 0 || has(d.acked[gateway])
	for peer, n := range others {
		proxies += n
		acked = acked && (n == 0 || has(d.others[peer][gateway]))
	}
	return proxies, acked && proxies > 0
}
