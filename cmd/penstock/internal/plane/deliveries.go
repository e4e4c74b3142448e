package plane

import (
	"context"
	"log/slog"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/multicluster/replica"
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
	Log       *slog.Logger
}

// deliveries knows which generation of each Gateway its proxies have, those of other processes included: each process
// tells what its own have acknowledged.
type deliveries struct {
	cfg   deliveriesConfig
	topic *replica.Topic
	touch func(gateway string) // told when something has changed; set before Run
	wake  chan struct{}

	mu     sync.Mutex
	wanted map[string]int64              // gateways to wait for, with their generations
	waits  map[string]context.CancelFunc // under way
	acked  map[string]int64              // by all proxies that are connected here
	others map[string]map[string]int64   // peer -> the same
}

func newDeliveries(cfg deliveriesConfig) *deliveries {
	d := &deliveries{cfg: cfg, touch: func(string) {}, wake: make(chan struct{}, 1),
		wanted: map[string]int64{}, waits: map[string]context.CancelFunc{}, acked: map[string]int64{}, others: map[string]map[string]int64{}}
	d.topic = cfg.Replicas.channel.Topic("acked", d.hear)
	cfg.Replicas.moved = func(gateway string) { d.touch(gateway) }
	return d
}

// expect says that a gateway has a generation now, or other listeners.
func (d *deliveries) expect(gateway string, generation int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted[gateway] = generation
	poke(d.wake)
}

// forget says that a gateway is gone.
func (d *deliveries) forget(gateway string) {
	d.mu.Lock()
	defer d.mu.Unlock()
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
			for gateway, generation := range d.wanted {
				delete(d.wanted, gateway)
				if stop := d.waits[gateway]; stop != nil {
					stop()
				}
				var waiting context.Context
				waiting, d.waits[gateway] = context.WithCancel(ctx)
				group.Go(func() error { d.wait(waiting, gateway, generation); return nil })
			}
			d.mu.Unlock()
		}
	})
	return group.Wait()
}

// wait waits for one gateway's proxies. What they refuse is told elsewhere: they have all else.
func (d *deliveries) wait(ctx context.Context, gateway string, generation int64) {
	for _, ref := range d.cfg.Resources(gateway) {
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
	if d.acked[gateway] == generation {
		return
	}
	d.acked[gateway] = generation
	d.topic.Tell(replica.Fact{Name: gateway, Body: []byte(strconv.FormatInt(generation, 10))})
	d.touch(gateway)
}

// hear takes in what the proxies of another process have.
func (d *deliveries) hear(_ context.Context, n replica.News) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.All || d.others[n.Peer] == nil {
		d.others[n.Peer] = map[string]int64{}
	}
	for _, gateway := range n.Gone {
		delete(d.others[n.Peer], gateway)
	}
	for _, f := range n.Facts {
		generation, err := strconv.ParseInt(string(f.Body), 10, 64)
		if err != nil {
			return err
		}
		d.others[n.Peer][f.Name] = generation
		d.touch(f.Name)
	}
	return nil
}

// Delivered implements kube.Delivery.
func (d *deliveries) Delivered(gateway string, generation int64) (proxies int, acked bool) {
	own, others := d.cfg.Replicas.of(gateway)
	d.mu.Lock()
	defer d.mu.Unlock()
	proxies, acked = own, true
	if own > 0 && d.acked[gateway] < generation {
		acked = false
	}
	for peer, n := range others {
		proxies += n
		if n > 0 && d.others[peer][gateway] < generation {
			acked = false
		}
	}
	return proxies, acked && proxies > 0
}
