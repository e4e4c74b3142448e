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

// Dialect is how a picker answers bodies.
type Dialect int

// The dialects. Unknown is that of a picker that has not answered yet.
const (
	Unknown Dialect = iota
	// FullDuplex is the protocol's: bodies are sent back, perhaps changed.
	FullDuplex
	// Acknowledges means that bodies are read and acknowledged, but not sent back.
	Acknowledges
)

// Answer is the result of probing a picker.
type Answer struct {
	Dialect Dialect
	// Health means that the gRPC health service on the picker's port has a status for ServiceName.
	// Of several pickers that elect a leader, the others are NOT_SERVING.
	Health bool
	// Down is why no address serves: it cannot be connected to, it does not answer, or its health
	// port states so (SetHealth). "" if one may serve.
	Down string
	// Lost means that the picker has ended a moment ago (Config.LostFor): a connection to it was
	// lost, all addresses refused connections since, and none has accepted one.
	Lost bool
	// Frozen means that the picker has fallen silent a moment ago (Config.LostFor): it accepts what
	// it is sent and has answered nothing for two seconds, or three, at some address, and serves at
	// no other.
	Frozen bool
	// Mute is why the health port of some address does not report, if it is asked over TLS; "" if
	// all do.
	Mute string
}

// Picker locates an external picker.
type Picker struct {
	Addresses []dial.Address
	TLS       dial.TLS // for those that are not Cleartext
	// HealthOnly: the picker is asked for its health alone (SetHealth), and sent no request.
	HealthOnly bool
	// Dialect is how it answers bodies, if that is known; Unknown: it is probed.
	Dialect Dialect
}

// Config of a Prober.
type Config struct {
	// OnAnswer is called with a picker's name whenever its Answer changes; it may block. An error
	// ends Run. Required.
	OnAnswer func(name string, a Answer) error
	// Retry is the pause after a probe without an answer; it grows up to twenty times as long. 1 s
	// by default.
	Retry time.Duration
	// Timeout of one probe; 2 s by default, which is also how long Envoy waits.
	Timeout time.Duration
	// LostFor is how long a picker counts as lost, or as frozen; 5 s by default. Envoy's own health
	// check notices within 2 s (translator/envoy), and then decides alone: it finds sooner that the
	// picker is back, and may reach what this process does not.
	LostFor time.Duration
	// HealthInterval is how often the health ports of pickers are asked; 5 s by default.
	HealthInterval time.Duration
	Log            *slog.Logger // slog.Default if nil
}

// Prober probes pickers. Its methods may be called concurrently.
type Prober struct {
	cfg Config

	changed chan struct{} // notifies Run of a change of wanted; capacity 1

	mu       sync.Mutex
	wanted   map[string]Picker
	health   map[string]Health // SetHealth
	pending  map[string]bool   // wanted pickers with an address that has not answered
	progress chan struct{}     // closed and replaced when pending shrinks
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

// Set adds a picker or replaces the one with this name. Run probes it now and after each loss of a
// connection to it.
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

// Remove removes a picker. OnAnswer then receives the zero Answer if it had another one.
func (p *Prober) Remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wanted, name)
	p.done(name)
	p.notify()
}

// WaitAnswered returns nil when all addresses of all pickers have answered and OnAnswer has
// returned, or the context's error.
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

// checkAnswered removes a picker from the pending ones if all of its addresses have answered.
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

// done removes a picker from the pending ones. mu is held.
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

// address is one address of one picker.
type address struct {
	name string
	addr dial.Address
}

// result is the answer of one address, or why it cannot be connected to (Down), or what its health
// port reports.
type result struct {
	address
	Answer
	health *state // nil: the result is another one
	sign   *sign  // the same
}

// target is Run's state of one picker.
type target struct {
	at       Picker
	stop     map[dial.Address]context.CancelFunc // of each address's connection
	answers  map[dial.Address]Answer             // the last ones, without Down
	down     map[dial.Address]string             // why those that cannot be connected to cannot
	lost     map[dial.Address]bool               // whether those of down are lost
	health   map[dial.Address]state              // what their health ports report
	signs    map[dial.Address]sign               // what those that are connected to show
	reported Answer                              // to OnAnswer
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
					continue // the address was removed meanwhile
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

// update starts and stops connections, so that there is one for each address of the wanted pickers.
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

// report merges the answers of a picker's addresses and calls OnAnswer if the result changed. If
// dialects differ, as during a rollout, the result is Acknowledges: in that mode the picks of a
// picker that sends bodies back still apply, only its changes to bodies are lost. Health needs all
// addresses. While no address has answered, the last result remains. Down, Lost and Frozen need all
// addresses, too, and change nothing else.
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

// failing is why none of the addresses serves; "" if one may.
func (t *target) failing() (why string) {
	for addr := range t.stop {
		is := cmp.Or(t.down[addr], t.health[addr].sick, t.signs[addr].reason())
		if is == "" {
			return ""
		}
		if why == "" || is < why {
			why = is
		}
	}
	return why
}

// gone reports whether some address is lost, and all others are lost or refuse connections.
func (t *target) gone() (some bool) {
	for addr := range t.stop {
		if !t.lost[addr] && t.down[addr] != extproc.ReasonClosedPort {
			return false
		}
		some = some || t.lost[addr]
	}
	return some
}

// mute is why the health port of some address does not report; "" if all do.
func (t *target) mute() (why string) {
	for addr := range t.stop {
		if is := t.health[addr].mute; is != "" && (why == "" || is < why) {
			why = is
		}
	}
	return why
}
