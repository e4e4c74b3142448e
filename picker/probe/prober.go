package probe

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Dialect is how a picker answers.
type Dialect int

// The dialects. Unknown is that of a picker that has not answered yet.
const (
	Unknown Dialect = iota
	// FullDuplex is the protocol's: bodies come back, perhaps changed.
	FullDuplex
	// Acknowledges says that bodies are read and not sent back.
	Acknowledges
)

// Answer is what a picker has shown.
type Answer struct {
	Dialect Dialect
	// Health: the gRPC health service of its port knows ServiceName, which is SERVING or not. Of several pickers that elect a leader, the
	// others are not.
	Health bool
}

// Picker is where one is.
type Picker struct {
	Addresses []netip.AddrPort
	TLS       bool   // without verification: what is sent is no secret
	SNI       string // in TLS; may be empty
}

// Config is what a Prober needs.
type Config struct {
	// Tell is called with the name of a picker each time that something else is known of it than before; it may block. An error
	// ends Run.
	OnAnswer func(name string, a Answer) error
	// Retry is how long after a question that was not answered the next one is asked; it grows up to twenty times as long. 1 s
	// by default.
	Retry time.Duration
	// Timeout is of one question; 2 s by default, which is also what Envoy waits.
	Timeout time.Duration
	Log     *slog.Logger // slog.Default if nil
}

// Prober asks pickers. Safe for use by many.
type Prober struct {
	cfg Config

	changed chan struct{} // wanted is another; holds one

	mu     sync.Mutex
	wanted map[string]Picker
	silent map[string]bool // those of them that have addresses of which one has not answered
	moved  chan struct{}   // closed and replaced when silent changes
}

// New makes a Prober that asks nobody.
func New(cfg Config) (*Prober, error) {
	if cfg.OnAnswer == nil {
		return nil, errors.New("dialects of pickers: nobody to tell them to")
	}
	if cfg.Retry <= 0 {
		cfg.Retry = time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Prober{cfg: cfg, wanted: map[string]Picker{}, silent: map[string]bool{}, changed: make(chan struct{}, 1), moved: make(chan struct{})}, nil
}

// Follow has a picker asked, now and after each loss of a connection to it. It replaces what was said of the name before.
func (p *Prober) Set(name string, at Picker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, known := p.wanted[name]
	p.wanted[name] = at
	if len(at.Addresses) > 0 && !(known && reflect.DeepEqual(old, at)) {
		p.silent[name] = true
	}
	p.poke()
}

// Settled returns when all that is followed has answered and was told, or with its context's error.
func (p *Prober) WaitAnswered(ctx context.Context) error {
	for {
		p.mu.Lock()
		done, moved := len(p.silent) == 0, p.moved
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle notes that a picker has answered at all of its addresses.
func (p *Prober) settle(name string, f *followed) {
	for addr := range f.ends {
		if f.found[addr].Dialect == Unknown {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if reflect.DeepEqual(p.wanted[name], f.at) {
		p.answered(name)
	}
}

// answered takes a picker off those that are waited for. mu is held.
func (p *Prober) answered(name string) {
	delete(p.silent, name)
	close(p.moved)
	p.moved = make(chan struct{})
}

// Forget ends that; what was found is told to be nothing.
func (p *Prober) Remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wanted, name)
	p.answered(name)
	p.poke()
}

func (p *Prober) poke() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// place is one address of one picker.
type place struct {
	name string
	addr netip.AddrPort
}

type found struct {
	place
	Answer
}

// followed is one picker in Run.
type followed struct {
	at    Picker
	ends  map[netip.AddrPort]context.CancelFunc // of each address's conversation
	found map[netip.AddrPort]Answer
	told  Answer
}

// Run asks until its context ends.
func (p *Prober) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	news := make(chan found)
	group.Go(func() error {
		pickers := map[string]*followed{}
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-p.changed:
				if err := p.arrange(ctx, group, pickers, news); err != nil {
					return err
				}
			case n := <-news:
				f := pickers[n.name]
				if f == nil || f.ends[n.addr] == nil {
					continue // it was forgotten meanwhile
				}
				f.found[n.addr] = n.Answer
				if err := p.tell(n.name, f); err != nil {
					return err
				}
				p.settle(n.name, f)
			}
		}
	})
	return group.Wait()
}

// arrange begins and ends conversations, so that they are with those who are wanted.
func (p *Prober) arrange(ctx context.Context, group *errgroup.Group, pickers map[string]*followed, news chan<- found) error {
	p.mu.Lock()
	wanted := maps.Clone(p.wanted)
	p.mu.Unlock()
	for name, f := range pickers {
		now, still := wanted[name]
		if still && reflect.DeepEqual(now, f.at) {
			continue
		}
		moved := now.TLS != f.at.TLS || now.SNI != f.at.SNI
		f.at = now
		for addr, end := range f.ends {
			if moved || !slices.Contains(now.Addresses, addr) {
				end()
				delete(f.ends, addr)
				delete(f.found, addr)
			}
		}
		if !still {
			delete(pickers, name)
			if f.told != (Answer{}) {
				if err := p.cfg.OnAnswer(name, Answer{}); err != nil {
					return err
				}
			}
		}
	}
	for name, at := range wanted {
		f := pickers[name]
		if f == nil {
			f = &followed{at: at, ends: map[netip.AddrPort]context.CancelFunc{}, found: map[netip.AddrPort]Answer{}}
			pickers[name] = f
		}
		for _, addr := range at.Addresses {
			if f.ends[addr] != nil {
				continue
			}
			talk, end := context.WithCancel(ctx)
			f.ends[addr] = end
			group.Go(func() error {
				p.converse(talk, place{name, addr}, at, news)
				return nil
			})
		}
		if err := p.tell(name, f); err != nil {
			return err
		}
		p.settle(name, f)
	}
	return nil
}

// tell tells what the answers of a picker's addresses say together, if it is news. While they differ, as in a rollout, it is
// Acknowledges: asked in that way, a picker that sends bodies back is still followed, only its changes to them are not; and health is served
// where all serve it. Where none of them has answered, what was told stays.
func (p *Prober) tell(name string, f *followed) error {
	if len(f.found) == 0 {
		return nil
	}
	is := Answer{Health: true}
	for _, a := range f.found {
		is.Dialect = max(is.Dialect, a.Dialect)
		is.Health = is.Health && a.Health
	}
	if is.Dialect == Unknown {
		is.Dialect = f.told.Dialect
	}
	if is == f.told {
		return nil
	}
	f.told = is
	p.cfg.Log.Debug("a picker has shown how it answers", "picker", name, "acknowledges", is.Dialect == Acknowledges, "health", is.Health)
	return p.cfg.OnAnswer(name, is)
}
