package supervisor

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/xds/bootstrap"
)

// ControlPlane reports what each gateway's Envoy serves. *app.App implements it.
type ControlPlane interface {
	// Serving returns when a gateway's Envoy has acknowledged what revision rev has for it, with its addresses as URLs.
	Serving(ctx context.Context, gateway string) (urls []string, rev uint64, err error)
	// After returns once a revision later than rev is translated.
	After(ctx context.Context, rev uint64) error
}

// Config is what a Supervisor needs.
type Config struct {
	Envoy        string // the binary
	Dir          string // for bootstraps and admin sockets
	ADS          string // address of the control plane
	DrainTime    time.Duration
	Grace        time.Duration
	Concurrency  int
	ControlPlane ControlPlane
	// Announce is told when a gateway begins to serve, or serves at other addresses.
	Announce func(gateway string, urls []string)
	Log      *slog.Logger
}

// Supervisor keeps the Envoys of all Gateways.
type Supervisor struct {
	cfg  Config
	wake chan struct{}

	mu   sync.Mutex
	want []string
}

// New makes a Supervisor without Gateways.
func New(cfg Config) *Supervisor { return &Supervisor{cfg: cfg, wake: make(chan struct{}, 1)} }

// Set says which Gateways there are.
func (s *Supervisor) Set(gateways []string) {
	s.mu.Lock()
	s.want = slices.Clone(gateways)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run keeps an Envoy for each Gateway until ctx ends; then all are drained and ended. It fails if one cannot be started.
func (s *Supervisor) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	running := map[string]context.CancelFunc{}
	ended := map[string]chan struct{}{}
	for {
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-s.wake:
		}
		s.mu.Lock()
		want := s.want
		s.mu.Unlock()
		for gw, stop := range running {
			if !slices.Contains(want, gw) {
				stop()
				delete(running, gw)
			}
		}
		for _, gw := range want {
			if running[gw] != nil {
				continue
			}
			proxyCtx, stop := context.WithCancel(ctx)
			running[gw] = stop
			before, done := ended[gw], make(chan struct{})
			ended[gw] = done
			group.Go(func() error {
				defer close(done)
				defer stop()
				if before != nil {
					<-before
				}
				return s.run(proxyCtx, gw)
			})
		}
	}
}

// run is one gateway's Envoy.
func (s *Supervisor) run(ctx context.Context, gateway string) error {
	cfg := bootstrap.Config{Gateway: gateway, ADS: []string{s.cfg.ADS}, DrainTime: s.cfg.DrainTime, Concurrency: s.cfg.Concurrency}
	boot, err := bootstrap.YAML(cfg)
	if err != nil {
		return err
	}
	p, err := NewEnvoy(EnvoyConfig{
		Envoy: s.cfg.Envoy, Gateway: gateway, Bootstrap: boot, Dir: filepath.Join(s.cfg.Dir, folder(gateway)),
		Args: cfg.Args(), Grace: s.cfg.Grace, Log: s.cfg.Log,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.Run(ctx) })
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

// announce tells of each new set of addresses once it is served.
func (s *Supervisor) announce(ctx context.Context, gateway string) {
	told := ""
	for ctx.Err() == nil {
		urls, rev, err := s.cfg.ControlPlane.Serving(ctx, gateway)
		if err != nil {
			return // the context has ended
		}
		if now := strings.Join(urls, " "); now != told {
			if len(urls) == 0 && !s.wanted(gateway) {
				return // it goes
			}
			for _, u := range urls {
				open(ctx, u, openPatience)
			}
			s.cfg.Announce(gateway, urls)
			told = now
		}
		if s.cfg.ControlPlane.After(ctx, rev) != nil {
			return
		}
	}
}

// openPatience is how long an address may take to open that Envoy has acknowledged. One that does not (somebody else has
// the port) is announced all the same: why it does not serve is told as a finding.
const openPatience = 5 * time.Second

// open waits until an address takes connections, and says whether it does: Envoy acknowledges a listener before its workers
// listen, and most of all while it starts.
func open(ctx context.Context, address string, patience time.Duration) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
		if err == nil {
			_ = conn.Close()
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// folder is a short name for a gateway's folder: a socket's path may not be long.
func folder(gateway string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(gateway))
	return fmt.Sprintf("gw-%08x", h.Sum32())
}
