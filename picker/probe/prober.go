package probe

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/extproc"
)

// Dialect states how a picker answers request bodies.
type Dialect int

const (
	Unknown Dialect = iota
	// FullDuplex means that the picker sends bodies back, as the protocol requires.
	FullDuplex
	// Acknowledges means that the picker does not send bodies back.
	Acknowledges
)

// Answer is the result of probing a picker.
type Answer struct {
	Dialect Dialect
	// Health means that the picker's port has a gRPC health service for ServiceName. This service
	// may report NOT_SERVING, as replicas do that are not the elected leader.
	Health bool
	// Down is why no address of the picker serves: each is unreachable, does not answer, or reports
	// that it does not serve. Down is "" if an address serves.
	Down string
	// Lost means that the picker ended less than Config.LostFor ago: a connection was lost, and all
	// addresses reject connections.
	Lost bool
	// Frozen means that the picker froze less than Config.LostFor ago: an address accepts requests
	// but has not answered for two or three seconds, and no other address serves.
	Frozen bool
	// Mute is why an address's health port over TLS does not report, or "".
	Mute string
}

// Picker locates an external picker.
type Picker struct {
	Addresses []dial.Address
	TLS       dial.TLS
	// HealthOnly limits the probes to the picker's health (SetHealth).
	HealthOnly bool
	// Dialect is the picker's known dialect. If Unknown, a probe finds the dialect.
	Dialect Dialect
}

// Config configures a Prober.
type Config struct {
	// OnAnswer receives each change of a picker's Answer. It may block. Its error ends Run.
	OnAnswer func(name string, a Answer) error
	// Retry is the first pause after a probe without an answer; default 1 s. Later pauses grow to
	// up to 20 times Retry.
	Retry time.Duration
	// Timeout limits each probe; default 2 s, Envoy's own timeout.
	Timeout time.Duration
	// LostFor is how long a picker counts as lost or frozen; default 5 s. By then, Envoy's own
	// health check has found the failure (translator/envoy).
	LostFor time.Duration
	// HealthInterval is the pause between queries of health ports; default 5 s.
	HealthInterval time.Duration
	Log            *slog.Logger
}

// Prober probes pickers. Its methods are safe for concurrent use.
type Prober struct {
	cfg Config

	changed chan struct{}

	mu       sync.Mutex
	wanted   map[string]Picker
	health   map[string]Health
	pending  map[string]bool // wanted pickers with an address that has not answered
	progress chan struct{}   // closed and replaced when pending shrinks
}

// New returns a Prober without pickers.
func New(cfg Config) (*Prober, error) {
	if cfg.OnAnswer == nil {
		return nil, errors.New("probe: Config needs OnAnswer")
	}
	if cfg.Retry <= 0 {
		cfg.Retry = time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.LostFor <= 0 {
		cfg.LostFor = 5 * time.Second
	}
	if cfg.HealthInterval <= 0 {
		cfg.HealthInterval = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Prober{cfg: cfg, wanted: map[string]Picker{}, health: map[string]Health{}, pending: map[string]bool{},
		changed: make(chan struct{}, 1), progress: make(chan struct{})}, nil
}

// Set adds or replaces a picker.
func (p *Prober) Set(name string, at Picker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, known := p.wanted[name]
	p.wanted[name] = at
	if len(at.Addresses) > 0 && !at.HealthOnly && !(known && reflect.DeepEqual(old, at)) {
		p.pending[name] = true
	}
	p.notify()
}

// Remove removes a picker. OnAnswer then receives the zero Answer, if the last one was not zero.
func (p *Prober) Remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wanted, name)
	p.done(name)
	p.notify()
}

// WaitAnswered waits until all addresses of all pickers have answered.
func (p *Prober) WaitAnswered(ctx context.Context) error {
	for {
		p.mu.Lock()
		done, progress := len(p.pending) == 0, p.progress
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Prober) checkAnswered(name string, t *target) {
	for addr := range t.stop {
		if t.answers[addr].Dialect == Unknown {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if reflect.DeepEqual(p.wanted[name], t.at) {
		p.done(name)
	}
}

func (p *Prober) done(name string) {
	delete(p.pending, name)
	close(p.progress)
	p.progress = make(chan struct{})
}

func (p *Prober) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

type address struct {
	name string
	addr dial.Address
}

type result struct {
	address
	Answer
	health *state
	sign   *sign
}

type target struct {
	at       Picker
	stop     map[dial.Address]context.CancelFunc
	answers  map[dial.Address]Answer // last Answer of each address that was not down
	down     map[dial.Address]string
	lost     map[dial.Address]bool // addresses in down that count as lost
	health   map[dial.Address]state
	signs    map[dial.Address]sign
	reported Answer
}

// Run probes pickers until its context ends.
func (p *Prober) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	results := make(chan result)
	group.Go(func() error {
		targets := map[string]*target{}
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-p.changed:
				if err := p.update(ctx, group, targets, results); err != nil {
					return err
				}
			case r := <-results:
				t := targets[r.name]
				if t == nil || t.stop[r.addr] == nil {
					continue // Set or Remove has removed the address
				}
				switch {
				case r.health != nil:
					t.health[r.addr] = *r.health
				case r.sign != nil:
					t.signs[r.addr] = *r.sign
				case r.Down != "":
					t.down[r.addr], t.lost[r.addr] = r.Down, r.Lost
				default:
					delete(t.down, r.addr)
					delete(t.lost, r.addr)
					t.answers[r.addr] = r.Answer
				}
				if err := p.report(r.name, t); err != nil {
					return err
				}
				p.checkAnswered(r.name, t)
			}
		}
	})
	return group.Wait()
}

func (p *Prober) update(ctx context.Context, group *errgroup.Group, targets map[string]*target,
	results chan<- result) error {
	p.mu.Lock()
	wanted := maps.Clone(p.wanted)
	p.mu.Unlock()
	for name, t := range targets {
		now, still := wanted[name]
		if still && reflect.DeepEqual(now, t.at) {
			continue
		}
		reconnect := !reflect.DeepEqual(now.TLS, t.at.TLS) || now.HealthOnly != t.at.HealthOnly
		t.at = now
		for addr, stop := range t.stop {
			if reconnect || !slices.Contains(now.Addresses, addr) {
				stop()
				delete(t.stop, addr)
				delete(t.answers, addr)
				delete(t.down, addr)
				delete(t.lost, addr)
				delete(t.health, addr)
				delete(t.signs, addr)
			}
		}
		if !still {
			delete(targets, name)
			if t.reported != (Answer{}) {
				if err := p.cfg.OnAnswer(name, Answer{}); err != nil {
					return err
				}
			}
		}
	}
	for name, at := range wanted {
		t := targets[name]
		if t == nil {
			t = &target{at: at, stop: map[dial.Address]context.CancelFunc{}, answers: map[dial.Address]Answer{},
				down: map[dial.Address]string{}, lost: map[dial.Address]bool{}, health: map[dial.Address]state{},
				signs: map[dial.Address]sign{}}
			targets[name] = t
		}
		for _, addr := range at.Addresses {
			if t.stop[addr] != nil {
				continue
			}
			connCtx, stop := context.WithCancel(ctx)
			t.stop[addr] = stop
			group.Go(func() error {
				p.connect(connCtx, address{name, addr}, at, results)
				return nil
			})
		}
		if err := p.report(name, t); err != nil {
			return err
		}
		p.checkAnswered(name, t)
	}
	return nil
}

// report merges the results of a picker's addresses, and calls OnAnswer with a changed Answer. If
// the dialects of addresses differ, as during a rollout, the result is Acknowledges: Envoy then
// applies the picks of all addresses, but no changed bodies. Until an address answers, the last
// dialect remains.
func (p *Prober) report(name string, t *target) error {
	merged := t.reported
	if len(t.answers) > 0 {
		merged = Answer{Health: true}
		for _, a := range t.answers {
			merged.Dialect = max(merged.Dialect, a.Dialect)
			merged.Health = merged.Health && a.Health
		}
		if merged.Dialect == Unknown {
			merged.Dialect = t.reported.Dialect
		}
	}
	merged.Down, merged.Lost, merged.Frozen, merged.Mute = t.failing(), t.gone(), t.frozen(), t.mute()
	if merged == t.reported {
		return nil
	}
	t.reported = merged
	p.cfg.Log.Debug("external picker answered its probe", "picker", name, "acknowledges",
		merged.Dialect == Acknowledges, "health", merged.Health, "down", merged.Down, "lost", merged.Lost, "frozen",
		merged.Frozen, "mute", merged.Mute)
	return p.cfg.OnAnswer(name, merged)
}

func (t *target) failing() (why string) {
	for addr := range t.stop {
		reason := cmp.Or(t.down[addr], t.health[addr].sick, t.signs[addr].reason())
		if reason == "" {
			return ""
		}
		if why == "" || reason < why {
			why = reason
		}
	}
	return why
}

func (t *target) gone() (some bool) {
	for addr := range t.stop {
		if !t.lost[addr] && t.down[addr] != extproc.ReasonClosedPort {
			return false
		}
		some = some || t.lost[addr]
	}
	return some
}

func (t *target) mute() (why string) {
	for addr := range t.stop {
		if reason := t.health[addr].mute; reason != "" && (why == "" || reason < why) {
			why = reason
		}
	}
	return why
}
