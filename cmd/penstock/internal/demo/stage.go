package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

// timeout bounds the wait for changes that normally take a fraction of a second.
const timeout = 20 * time.Second

// Latencies of the simulated servers. A short answer is fast; a long one leaves time to observe the
// requests in flight.
const (
	firstToken = 5 * time.Millisecond
	perToken   = 60 * time.Millisecond
)

var servers = []struct{ name, model string }{
	{"llama-1", "llama"}, {"llama-2", "llama"}, {"qwen-1", "qwen"}, {"qwen-2", "qwen"},
	{"east-llama-1", "llama"}, {"east-llama-2", "llama"}, {"gemma-1", "gemma"}, {"gemma-2", "gemma"},
}

// stage runs two clusters and their model servers.
type stage struct {
	cfg        Config
	dir        string // for all files
	ports      map[string]int
	sims       []*sim.Server
	here, east *cluster
	programs   programs
	http       *http.Client
}

// newStage opens the model servers' sockets, chooses ports, and writes the YAML that is applied
// before the start.
func newStage(cfg Config) (*stage, error) {
	dir, err := os.MkdirTemp(shortTemp(), "penstock-demo-")
	if err != nil {
		return nil, err
	}
	s := &stage{cfg: cfg, dir: dir, ports: map[string]int{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.here = s.cluster("here", "--access-log", filepath.Join(dir, "here.access.log"))
	s.east = s.cluster("east", "--picker", fmt.Sprintf("127.0.0.1:%d", s.ports["east-picker"]))
	return s, nil
}

// shortTemp returns the folder for temporary files, or /tmp if its path is long (macOS): paths of
// Unix sockets have at most about 100 bytes.
func shortTemp() string {
	if dir := os.TempDir(); len(dir) < 36 {
		return dir
	}
	return "/tmp"
}

func (s *stage) prepare() error {
	if err := s.programs.startStore(); err != nil {
		return err
	}
	for _, server := range servers {
		cfg := sim.Config{
			Name: server.name, Model: server.model, TimeToFirstToken: firstToken, InterTokenLatency: perToken,
			Listen: []string{"127.0.0.1:0"}, Grace: time.Second, Log: slog.New(slog.DiscardHandler),
		}
		if server.model == "gemma" {
			cfg.PrefixCaching, cfg.PrefillRate, cfg.KVCacheTokens, cfg.LoRAs = true, prefillRate, cacheTokens, adapters
		}
		if server.model == "qwen" {
			cfg.Tokens = s.programs.tokens
		}
		model, err := sim.New(cfg)
		if err != nil {
			return err
		}
		addresses, err := model.Listen()
		if err != nil {
			return err
		}
		s.sims = append(s.sims, model)
		s.ports[server.name] = int(portOf(addresses[0]))
	}
	if err := s.programs.startProcessors(s.ports); err != nil {
		return err
	}
	if err := s.choosePorts("here", "east", "east-picker"); err != nil {
		return err
	}
	later := map[string]bool{}
	for _, step := range allSteps() {
		later[step.file] = step.prefix != ""
	}
	return fs.WalkDir(config, "config", func(name string, entry fs.DirEntry, err error) error {
		name = strings.TrimPrefix(name, "config/")
		if err != nil || entry.IsDir() || later[name] {
			return err
		}
		_, err = write(s.dir, name, s.ports)
		return err
	})
}

// choosePorts finds a free port for each name. It holds all at the same time, so that they differ;
// the gateways and the picker bind them a moment later.
func (s *stage) choosePorts(names ...string) error {
	for _, name := range names {
		l, err := freeport.Listen()
		if err != nil {
			return err
		}
		defer l.Close()
		s.ports[name] = int(portOf(l.Addr().String()))
	}
	return nil
}

func portOf(address string) uint16 {
	_, text, _ := net.SplitHostPort(address)
	var port uint16
	_, _ = fmt.Sscan(text, &port) // address is a listener's, so the port is valid
	return port
}

func (s *stage) cluster(name string, args ...string) *cluster {
	state := filepath.Join(s.dir, "state", name)
	args = append([]string{"up", "-f", filepath.Join(s.dir, name), "--state", state, "--concurrency", "2"}, args...)
	return &cluster{name: name, state: state, ready: make(chan struct{}),
		cmd: func(ctx context.Context) *exec.Cmd { return s.cfg.command(ctx, args...) }}
}

func (s *stage) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range s.sims {
		group.Go(func() error { return server.Run(ctx) })
	}
	s.programs.run(ctx, group.Go)
	group.Go(func() error { return s.here.Run(ctx) })
	group.Go(func() error { return s.east.Run(ctx) })
	return group.Wait()
}

func (s *stage) close() error {
	s.http.CloseIdleConnections()
	s.programs.close()
	return os.RemoveAll(s.dir)
}

// apply writes a step's file into the folder that penstock watches, and waits until its route
// answers. It returns the text and how long that took.
func (s *stage) apply(ctx context.Context, name, prefix string) (text string, took time.Duration, err error) {
	began := time.Now()
	if text, err = write(s.dir, name, s.ports); err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status := 0
	err = waitUntil(ctx, func() (bool, error) {
		status, _, err = s.get(ctx, s.here.url+prefix+"/health")
		return err != nil || status != http.StatusNotFound, err
	})
	took = time.Since(began)
	if finding := s.here.finding(); finding != "" {
		return text, took, fmt.Errorf("expected no errors in the YAML, got %s", finding)
	}
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("expected that a new route answers 200 from its first request on, got %d", status)
	}
	return text, took, err
}

// waitUntil calls done until it returns true or an error, or ctx ends.
func waitUntil(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("condition not met: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// explain runs penstock explain and shows the part about the backends: their pickers, and the state
// of each endpoint.
func (s *stage) explain(ctx context.Context, p *page, prefix string, more ...string) error {
	args := append([]string{"-X", "POST"}, more...)
	shown := strings.Join(args, " ")
	p.command(fmt.Sprintf("%s explain $GW%s \\\n       %s --state $STATE", s.cfg.Typed, prefix+completions, shown))
	args = append(args, "--state", s.here.state)
	out, err := s.cfg.command(ctx, append([]string{"explain", s.here.url + prefix + completions}, args...)...).Output()
	if err != nil {
		return fmt.Errorf("penstock explain: %w", err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if word, _, _ := strings.Cut(line, " "); word == "" || word == "backend" || word == "route" {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	p.output(lines)
	return nil
}

// waitIdle waits until the picker here has no request to a pool in flight.
func (s *stage) waitIdle(ctx context.Context, target, pool string) error {
	return s.waitState(ctx, target, pool, func(verdicts []schedule.Verdict) bool {
		return !slices.ContainsFunc(verdicts, func(v schedule.Verdict) bool { return v.State.InFlight > 0 })
	})
}

// waitState waits until the picker here has the endpoints of a pool in some state.
func (s *stage) waitState(ctx context.Context, target, pool string, reached func([]schedule.Verdict) bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return waitUntil(ctx, func() (bool, error) {
		var e app.Explained
		if err := s.cfg.Ask(ctx, s.here.state, "/explain?method=POST&url="+url.QueryEscape(target), &e); err != nil {
			return false, err
		}
		var now picker.Explanation
		if err := json.Unmarshal(e.Picks[pool], &now); err != nil {
			return false, fmt.Errorf("penstock's explanation of pool %s: %w", pool, err)
		}
		return reached(now.Verdicts), nil
	})
}

// gateways returns how many gateways a model server's last completion request passed: each adds an
// address to X-Forwarded-For.
func (s *stage) gateways(ctx context.Context, at string) (int, error) {
	_, body, err := s.get(ctx, "http://"+at+"/debug/last")
	if err != nil {
		return 0, err
	}
	var last struct{ Headers http.Header }
	if err := json.Unmarshal(body, &last); err != nil {
		return 0, fmt.Errorf("model server %s: %w", at, err)
	}
	return len(strings.Split(strings.Join(last.Headers.Values("X-Forwarded-For"), ","), ",")), nil
}

// serverAt returns an address with the name of its model server.
func (s *stage) serverAt(address string) string {
	for _, server := range servers {
		if int(portOf(address)) == s.ports[server.name] {
			return fmt.Sprintf("%s (%s)", server.name, address)
		}
	}
	return address
}

func (s *stage) file(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }
