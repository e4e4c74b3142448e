package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

const (
	pickModels      = 10
	pickConnections = 6 // enough to saturate one Envoy worker
	pickProcessors  = 2 // GOMAXPROCS of each picker
)

type pickers struct {
	clients picks.Clients
	servers map[string]*program
	stop    []func()
}

func startPickers(ctx context.Context, c config, kinds ...string) (*pickers, error) {
	p := &pickers{servers: map[string]*program{}}
	if err := p.start(ctx, c, kinds); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pickers) start(ctx context.Context, c config, kinds []string) error {
	models, err := picks.StartModels(pickModels)
	if err != nil {
		return err
	}
	p.stop = append(p.stop, models.Close)
	g := picks.Gateway{Servers: map[string]netip.AddrPort{}, Models: models.Addresses}
	for _, kind := range kinds {
		if g.Servers[kind], err = p.child(ctx, kind, models.Addresses); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	g.Listen = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	text, err := g.Bootstrap()
	if err != nil {
		return err
	}
	envoy, stop, err := startEnvoy(c, text)
	if err != nil {
		return err
	}
	p.stop = append(p.stop, stop)
	p.clients = picks.Clients{Address: g.Listen.String(), Connections: pickConnections}
	return eventually(ctx, func() error {
		for _, kind := range kinds {
			for mode := range g.Modes() {
				if _, err := p.clients.Saturate(ctx, requests(kind+"-"+mode, 1<<10, 0),
					100*time.Millisecond); err != nil {
					return errors.Join(err, envoy.Running())
				}
			}
		}
		return nil
	})
}

func startEnvoy(c config, bootstrap []byte) (envoy *program, stop func(), err error) {
	dir, err := os.MkdirTemp("", "penstock-bench")
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(dir, "envoy.yaml")
	if err = os.WriteFile(file, bootstrap, 0o600); err == nil {
		envoy, err = start(c.envoy, "-c", file, "--concurrency", "1", "--log-level", "warn", "--use-dynamic-base-id")
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	return envoy, func() { envoy.stop(); _ = os.RemoveAll(dir) }, nil
}

func (p *pickers) child(ctx context.Context, kind string, models []netip.AddrPort) (address netip.AddrPort, err error) {
	self, err := os.Executable()
	if err != nil {
		return address, err
	}
	env := []string{picks.Environment(kind, models), fmt.Sprint("GOMAXPROCS=", pickProcessors)}
	child, err := startWith(env, self)
	if err != nil {
		return address, err
	}
	p.servers[kind] = child
	p.stop = append(p.stop, child.stop)
	err = eventually(ctx, func() (err error) {
		first, _, ok := strings.Cut(child.output(), "\n")
		if !ok {
			return errors.Join(errors.New("no address yet"), child.Running())
		}
		address, err = netip.ParseAddrPort(first)
		return err
	})
	return address, err
}

func (p *pickers) close() {
	for _, stop := range slices.Backward(p.stop) {
		stop()
	}
}

func requests(route string, size, turn int) (list [][]byte) {
	for i := range pickConnections {
		list = append(list, picks.Request(route, picks.Chat(size, turn*pickConnections+i)))
	}
	return list
}

type saturation struct {
	clients picks.Clients
	size    int // of a request, in bytes
	turns   int
	lasts   time.Duration
	settle  time.Duration
	cpu     func(route string) (used time.Duration, err error)
	// requests replaces the function requests; nil means no replacement.
	requests func(route string, size, turn int) [][]byte
}

// costs returns each route's CPU time for a request, in microseconds.
func (s saturation) costs(ctx context.Context, routes ...string) (map[string]float64, error) {
	send := s.requests
	if send == nil {
		send = requests
	}
	used, answered, costs := map[string]time.Duration{}, map[string]int64{}, map[string]float64{}
	for turn := range s.turns + 1 {
		for _, route := range routes {
			before, err := s.cpu(route)
			if err != nil {
				return nil, err
			}
			n, err := s.clients.Saturate(ctx, send(route, s.size, turn), s.lasts)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", route, err)
			}
			time.Sleep(s.settle)
			after, err := s.cpu(route)
			if err != nil {
				return nil, err
			}
			if turn > 0 { // the first turn warms the caches
				used[route] += after - before
				answered[route] += n
			}
		}
	}
	for _, route := range routes {
		costs[route] = float64(used[route].Microseconds()) / float64(max(1, answered[route]))
	}
	return costs, nil
}

func measurePicks(ctx context.Context, c config, out report) error {
	p, err := startPickers(ctx, c, picks.Ours, picks.Echo)
	if err != nil {
		return err
	}
	defer p.close()
	for _, m := range []struct {
		name, mode string
		size       int
	}{
		{"pick_none", "headers", 1 << 10}, {"pick_1k", "prompts", 1 << 10}, {"pick_10k", "prompts", 10 << 10},
		{"pick_100k", "prompts", 100 << 10},
	} {
		ours, peer := picks.Ours+"-"+m.mode, picks.Echo+"-"+m.mode
		costs, err := saturation{
			clients: p.clients, size: m.size, turns: 6, lasts: 1500 * time.Millisecond,
			cpu: func(route string) (time.Duration, error) {
				kind, _, _ := strings.Cut(route, "-")
				return p.servers[kind].cpu()
			},
		}.costs(ctx, ours, peer)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		out(m.name, "", costs[ours]/costs[peer])
		out(m.name, "ours", costs[ours])
	}
	return nil
}
