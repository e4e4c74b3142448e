package peers

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

// Acks waits for Envoys. *server.Server implements it.
type Acks interface {
	WaitAcked(ctx context.Context, gateway string, ref resource.Ref, version string) error
}

// ProgrammedConfig configures a Programmed.
type ProgrammedConfig struct {
	Channel *channel.Channel
	Proxies *Proxies
	Acks    Acks
	// Resources returns the resources that a gateway's Envoys must have.
	Resources func(gateway string) []resource.Ref
	Version   func(gateway string, ref resource.Ref) (version string, ok bool)
	// Policies describes the AccessPolicies in force at a gateway, equally in all processes; nil:
	// none.
	Policies func(gateway string) string
	// Changed is called when the result of Delivered for a gateway may have changed.
	Changed func(gateway string)
	Log     *slog.Logger
}

// state is a Gateway's generation, and a digest of its listeners and AccessPolicies in force. It is
// equal in all processes.
type state struct {
	generation int64
	listeners  string
}

func decodeState(value []byte) (state, error) {
	generation, listeners, _ := strings.Cut(string(value), " ")
	number, err := strconv.ParseInt(generation, 10, 64)
	return state{number, listeners}, err
}

// Programmed tracks which state of each Gateway the Envoys of all processes have acknowledged.
type Programmed struct {
	cfg       ProgrammedConfig
	topic     *channel.Topic
	elsewhere *channel.Mirror[state]
	wake      chan struct{}

	mu     sync.Mutex
	newest map[string]state
	wanted map[string]struct{}
	waits  map[string]context.CancelFunc
	acked  map[string]state
}

// NewProgrammed makes a Programmed.
func NewProgrammed(cfg ProgrammedConfig) *Programmed {
	p := &Programmed{cfg: cfg, topic: cfg.Channel.Topic("acked"), wake: make(chan struct{}, 1),
		newest: map[string]state{}, wanted: map[string]struct{}{}, waits: map[string]context.CancelFunc{},
		acked: map[string]state{}}
	p.elsewhere = channel.NewMirror(p.topic, channel.MirrorConfig[state]{
		Decode: decodeState,
		Changed: func(changes []channel.Change[state]) {
			for _, ch := range changes {
				cfg.Changed(ch.Key)
			}
		},
	})
	return p
}

// Expect sets a gateway's generation, and reads its listeners and policies again. Envoys have this
// state once they have acknowledged all listeners and routes.
func (p *Programmed) Expect(gateway string, generation int64) {
	listeners := p.listeners(gateway)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest[gateway] = state{generation, listeners}
	p.wanted[gateway] = struct{}{}
	poke(p.wake)
}

func (p *Programmed) listeners(gateway string) string {
	h := fnv.New64a()
	for _, ref := range p.cfg.Resources(gateway) {
		if ref.Type == resource.Listener {
			version, _ := p.cfg.Version(gateway, ref)
			_, _ = fmt.Fprintf(h, "%s %s\n", ref.Name, version) // never fails
		}
	}
	if p.cfg.Policies != nil {
		_, _ = fmt.Fprint(h, p.cfg.Policies(gateway))
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// Drop removes a deleted gateway.
func (p *Programmed) Drop(gateway string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.newest, gateway)
	delete(p.wanted, gateway)
	delete(p.acked, gateway)
	if stop := p.waits[gateway]; stop != nil {
		stop()
		delete(p.waits, gateway)
	}
	p.topic.Retract(gateway)
}

// Run waits for Envoys until ctx ends.
func (p *Programmed) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-p.wake:
			}
			p.mu.Lock()
			for gateway := range p.wanted {
				delete(p.wanted, gateway)
				if stop := p.waits[gateway]; stop != nil {
					stop()
				}
				var waiting context.Context
				waiting, p.waits[gateway] = context.WithCancel(ctx)
				newest := p.newest[gateway]
				group.Go(func() error { p.wait(waiting, gateway, newest); return nil })
			}
			p.mu.Unlock()
		}
	})
	return group.Wait()
}

// wait waits until Envoys have answered for all resources. A NACK also counts, because it is
// reported.
func (p *Programmed) wait(ctx context.Context, gateway string, newest state) {
	must := p.cfg.Resources(gateway)
	for _, ref := range must {
		if err := p.cfg.Acks.WaitAcked(ctx, gateway, ref, ""); err != nil && ctx.Err() != nil {
			return
		}
	}
	if !p.ack(ctx, gateway, newest) {
		return
	}
	if len(must) > 0 { // a gateway without resources is not logged
		p.cfg.Log.Info("gateway programmed by the proxies connected here", "gateway", gateway, "generation",
			newest.generation)
	}
	p.topic.Publish(channel.Item{Key: gateway, Value: fmt.Appendf(nil, "%d %s", newest.generation, newest.listeners)})
	p.cfg.Changed(gateway)
}

func (p *Programmed) ack(ctx context.Context, gateway string, newest state) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	p.waits[gateway]()
	delete(p.waits, gateway)
	if p.acked[gateway] == newest {
		return false
	}
	p.acked[gateway] = newest
	return true
}

// Delivered implements kubestatus.Delivery.
func (p *Programmed) Delivered(gateway string, generation int64) (proxies int, acked bool) {
	own, elsewhere := p.cfg.Proxies.Of(gateway)
	p.mu.Lock()
	defer p.mu.Unlock()
	has := func(got state) bool {
		return got.generation >= generation && got.listeners == p.newest[gateway].listeners
	}
	proxies, acked = own, own == 0 || has(p.acked[gateway])
	for peer, n := range elsewhere {
		proxies += n
		theirs, _ := p.elsewhere.Get(peer, gateway)
		acked = acked && (n == 0 || has(theirs))
	}
	return proxies, acked && proxies > 0
}
