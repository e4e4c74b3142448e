package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

const (
	pickModels      = 10 // model servers of the pool
	pickConnections = 6  // of clients: enough for one worker of Envoy to be always busy
	pickProcessors  = 2  // that each server of picks may use
	pickTurns       = 6
	pickTurn        = 1500 * time.Millisecond
)

// pickers are the servers of picks behind one Envoy.
type pickers struct {
	clients picks.Clients
	log     string // a line for each request
	servers map[string]*process
	envoy   *process
	stop    []func()
}

// startPickers starts the servers of some kinds, an Envoy with one worker, and model servers.
func startPickers(ctx context.Context, c config, kinds ...string) (*pickers, error) {
	p := &pickers{servers: map[string]*process{}}
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
	dir, err := os.MkdirTemp("", "penstock-bench")
	if err != nil {
		return err
	}
	p.stop = append(p.stop, func() { _ = os.RemoveAll(dir) })
	for _, address := range []*netip.AddrPort{&g.Listen, &g.Admin} {
		port, err := freePort()
		if err != nil {
			return err
		}
		*address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	}
	p.log = filepath.Join(dir, "calls")
	g.Log = p.log
	text, err := g.Bootstrap()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if p.envoy, err = start(c.envoy, "-c", file, "--concurrency", "1", "--log-level", "warn",
		"--use-dynamic-base-id"); err != nil {
		return err
	}
	p.stop = append(p.stop, p.envoy.stop)
	p.clients = picks.Clients{Address: g.Listen.String(), Connections: pickConnections}
	return eventually(ctx, func() error {
		for _, kind := range kinds {
			for mode := range g.Modes() {
				if _, err := p.clients.Saturate(ctx, [][]byte{picks.Request(kind+"-"+mode, picks.Chat(1<<10, 0))},
					100*time.Millisecond); err != nil {
					return errors.Join(err, p.envoy.running())
				}
			}
		}
		return nil
	})
}

// child starts a server of picks in a process of its own.
func (p *pickers) child(ctx context.Context, kind string, models []netip.AddrPort) (netip.AddrPort, error) {
	self, err := os.Executable()
	if err != nil {
		return netip.AddrPort{}, err
	}
	child := &process{cmd: exec.Command(self), done: make(chan struct{})}
	child.cmd.Env = append(os.Environ(), picks.Environment(kind, models), fmt.Sprint("GOMAXPROCS=", pickProcessors))
	child.cmd.Stdout, child.cmd.Stderr = child, child
	child.cmd.SysProcAttr = dieWithParent()
	in, err := child.cmd.StdinPipe()
	if err != nil {
		return netip.AddrPort{}, err
	}
	if err := child.cmd.Start(); err != nil {
		return netip.AddrPort{}, err
	}
	go func() {
		defer close(child.done)
		_ = child.cmd.Wait() // the output has the reason
	}()
	p.servers[kind] = child
	p.stop = append(p.stop, func() { _ = in.Close(); child.stop() })
	var address netip.AddrPort
	err = eventually(ctx, func() (err error) {
		first, _, ok := strings.Cut(child.output(), "\n")
		if !ok {
			return errors.Join(errors.New("no address yet"), child.running())
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

// cost is the CPU of picks.
type cost struct {
	cpu      time.Duration
	answered int64
	lasted   time.Duration
}

func (c cost) each() float64 { return float64(c.cpu.Microseconds()) / float64(max(1, c.answered)) }

// compare saturates the Envoy with requests for one server of picks, then for another, in turns,
// and returns the CPU of each. The prompts of the connections differ at their ends.
func (p *pickers) compare(ctx context.Context, mode string, size int, kinds ...string) (map[string]cost, error) {
	costs := map[string]cost{}
	for turn := range pickTurns + 1 {
		for _, kind := range kinds {
			var requests [][]byte
			for i := range pickConnections {
				requests = append(requests, picks.Request(kind+"-"+mode, picks.Chat(size, turn*pickConnections+i)))
			}
			before, err := p.servers[kind].cpu()
			if err != nil {
				return nil, err
			}
			answered, err := p.clients.Saturate(ctx, requests, pickTurn)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			after, err := p.servers[kind].cpu()
			if err != nil {
				return nil, err
			}
			if turn == 0 {
				continue // it warms both
			}
			c := costs[kind]
			costs[kind] = cost{c.cpu + after - before, c.answered + answered, c.lasted + pickTurn}
		}
	}
	return costs, nil
}

// measurePicks measures the CPU of picks by headers, and of picks that read prompts of several
// sizes.
func measurePicks(ctx context.Context, c config, out report) error {
	p, err := startPickers(ctx, c, picks.Ours, picks.Echo, picks.JSON)
	if err != nil {
		return err
	}
	defer p.close()
	for _, m := range []struct {
		name, mode, peer string
		size             int
	}{
		{"pick_none", "headers", picks.Echo, 1 << 10}, {"pick_1k", "prompts", picks.Echo, 1 << 10},
		{"pick_10k", "prompts", picks.Echo, 10 << 10},
		{"pick_100k", "prompts", picks.Echo, 100 << 10}, {"pick_400k", "prompts", picks.Echo, 400 << 10},
		{"pick_vs_json", "prompts", picks.JSON, 100 << 10},
	} {
		costs, err := p.compare(ctx, m.mode, m.size, picks.Ours, m.peer)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		ours, peer := costs[picks.Ours], costs[m.peer]
		out(m.name, "", ours.each()/peer.each())
		out(m.name, "ours", ours.each())
		out(m.name, "peer", peer.each())
		out(m.name, "rate", float64(ours.answered)/ours.lasted.Seconds())
	}
	return nil
}

// measurePickTime measures the time of Envoy's calls at half of the rate at which it is saturated.
func measurePickTime(ctx context.Context, c config, out report) error {
	p, err := startPickers(ctx, c, picks.Ours, picks.Echo)
	if err != nil {
		return err
	}
	defer p.close()
	worst := 0.0
	for _, mode := range []string{"headers", "prompts"} {
		costs, err := p.compare(ctx, mode, 1<<10, picks.Ours)
		if err != nil {
			return err
		}
		rate := float64(costs[picks.Ours].answered) / costs[picks.Ours].lasted.Seconds() / 2
		if err := os.Truncate(p.log, 0); err != nil {
			return err
		}
		for turn := range 2 * pickTurns {
			kind := []string{picks.Ours, picks.Echo}[turn%2]
			var requests [][]byte
			for i := range pickConnections {
				requests = append(requests, picks.Request(kind+"-"+mode, picks.Chat(1<<10, turn*pickConnections+i)))
			}
			if _, err := p.clients.Pace(ctx, requests, pickTurn, rate); err != nil {
				return err
			}
		}
		times, err := p.calls(ctx, int(float64(pickTurns)*pickTurn.Seconds()*rate/2))
		if err != nil {
			return err
		}
		ours, echo := percentile99(times[picks.Ours+"-"+mode]), percentile99(times[picks.Echo+"-"+mode])
		worst = max(worst, ours/echo)
		out("pick_p99", mode+"_ours", ours)
		out("pick_p99", mode+"_echo", echo)
	}
	out("pick_p99", "", worst)
	return nil
}

// calls waits until Envoy's log has at least some lines of each route, and returns the microseconds
// of its calls.
func (p *pickers) calls(ctx context.Context, least int) (times map[string][]float64, err error) {
	err = eventually(ctx, func() error {
		times = map[string][]float64{}
		text, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		// what was truncated, if Envoy writes on behind it
		lines := bufio.NewScanner(bytes.NewReader(bytes.TrimLeft(text, "\x00")))
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			sum := 0.0
			for _, f := range fields[min(1, len(fields)):] {
				if us, err := strconv.ParseFloat(f, 64); err == nil {
					sum += us
				}
			}
			if sum > 0 {
				times[fields[0]] = append(times[fields[0]], sum)
			}
		}
		for _, t := range times {
			if len(t) < least {
				return fmt.Errorf("%d calls are logged, want %d", len(t), least)
			}
		}
		if len(times) < 2 {
			return fmt.Errorf("calls of %d routes are logged", len(times))
		}
		return lines.Err()
	})
	return times, err
}

func percentile99(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)*99/100]
}
