package supervisor

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/xds/bootstrap"
)

// ControlPlane reports what each Gateway's Envoy serves. *app.App implements it.
type ControlPlane interface {
	// Serving returns a Gateway's URLs once its Envoy has acknowledged or rejected revision rev.
	Serving(ctx context.Context, gateway string) (urls []string, rev uint64, err error)
	// After returns once a revision later than rev is translated.
	After(ctx context.Context, rev uint64) error
}

// Config configures a Supervisor.
type Config struct {
	Envoy        Binary
	Dir          string // must be short
	ADS          string // control plane's address
	DrainTime    time.Duration
	Grace        time.Duration
	Now          <-chan struct{}
	Concurrency  int // worker threads of each Envoy; 0: one per CPU
	ControlPlane ControlPlane
	// Announce is called when a Gateway begins to serve, and when its addresses change.
	Announce func(gateway string, urls []string)
	// Report is EnvoyConfig.Report. It is called with "" once the Gateway is gone.
	Report func(gateway, problem string)
	Log    *slog.Logger
	// Thread starts the Envoys. If nil, each has its own thread, and no later program can adopt it.
	Thread *Thread
	// Kept are the results of Keep in an earlier program of this process.
	Kept []Kept
}

// Supervisor keeps one Envoy for each Gateway.
type Supervisor struct {
	cfg     Config
	changed chan struct{}

	kept []Kept // Envoys to adopt; only Run uses it

	mu     sync.Mutex
	want   []string
	runs   map[string]*supervised // by Gateway
	leaves bool                   // Keep has succeeded
}

// New returns a Supervisor without Gateways.
func New(cfg Config) *Supervisor {
	s := &Supervisor{cfg: cfg, changed: make(chan struct{}, 1)}
	s.inherit()
	return s
}

// Set replaces the list of Gateways, each "namespace/name".
func (s *Supervisor) Set(gateways []string) {
	s.mu.Lock()
	s.want = slices.Clone(gateways)
	s.mu.Unlock()
	s.poke()
}

func (s *Supervisor) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run keeps an Envoy for each Gateway until ctx ends, then drains and ends all. It retries an Envoy
// that cannot be started.
func (s *Supervisor) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	running := map[string]context.CancelFunc{}
	ended := map[string]chan struct{}{}
	start := func(gateway string) {
		envoyCtx, stop := context.WithCancel(ctx)
		running[gateway] = stop
		before, done := ended[gateway], make(chan struct{})
		ended[gateway] = done
		kept := s.take(gateway)
		group.Go(func() error {
			defer close(done)
			defer stop()
			if before != nil {
				<-before
			}
			return s.runEnvoy(envoyCtx, gateway, kept)
		})
	}
	for {
		select {
		case <-ctx.Done():
			for len(s.kept) > 0 { // adopts the rest, which end at once
				start(s.kept[0].Gateway)
			}
			return group.Wait()
		case <-s.changed:
		}
		s.mu.Lock()
		want := s.want
		s.mu.Unlock()
		for gateway, stop := range running {
			if !slices.Contains(want, gateway) {
				stop()
				delete(running, gateway)
			}
		}
		for _, gateway := range want {
			if running[gateway] == nil {
				start(gateway)
			}
		}
		for len(s.kept) > 0 { // adopts Envoys without a Gateway; the next round stops them
			start(s.kept[0].Gateway)
			s.poke()
		}
	}
}

func (s *Supervisor) runEnvoy(ctx context.Context, gateway string, kept *Kept) error {
	report := func(problem string) { s.cfg.Report(gateway, problem) }
	defer report("")
	cfg := bootstrap.Config{
		Gateway: gateway, ADS: []string{s.cfg.ADS}, DrainTime: s.cfg.DrainTime, Concurrency: s.cfg.Concurrency,
		MaxConnections: connections(openFiles()),
	}
	boot, err := bootstrap.YAML(cfg)
	if err != nil {
		return err
	}
	var envoy *Envoy
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		envoy, err = NewEnvoy(EnvoyConfig{
			Envoy: s.cfg.Envoy.Path, Gateway: gateway, Bootstrap: boot, Dir: filepath.Join(s.cfg.Dir, folder(gateway)),
			Args: cfg.Args(), Grace: s.cfg.Grace, Now: s.cfg.Now, Log: s.cfg.Log, Report: report,
			keeper: s, version: s.cfg.Envoy.Version, kept: kept,
		})
		if err == nil {
			break
		}
		if errors.Is(err, errLongPath) {
			return err
		}
		report(cannotStart + ": " + err.Error())
		s.cfg.Log.Error(cannotStart, "gateway", gateway, "reason", err)
		if !pause(ctx, delay) {
			return nil
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return envoy.Run(ctx) })
	group.Go(func() error {
		s.announce(ctx, gateway)
		return nil
	})
	return group.Wait()
}

func (s *Supervisor) wanted(gateway string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.want, gateway)
}

func folder(gateway string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(gateway))
	return fmt.Sprintf("gw-%08x", h.Sum32())
}
