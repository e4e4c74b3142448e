package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
)

// errNoFiles: a folder that nobody named is not read; it may hold anything.
var errNoFiles = errors.New("say which files: -f FOLDER")

// files is where objects are read from and state is kept: the flags that up, serve, translate, status and explain share.
type files struct {
	paths []string
	state string
}

func (s *files) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&s.paths, "file", "f", nil, "folder (read with all below it) or file with YAML or JSON; may be repeated (required)")
	cmd.Flags().StringVar(&s.state, "state", "", "folder for last good objects, status and the socket of other commands (default: one for the given files in $XDG_STATE_HOME/penstock)")
}

// exist fails if a folder or file that was named is not there, unless a state folder was named too, which tells of it.
func (s *files) exist() error {
	if s.state != "" {
		return nil
	}
	for _, p := range s.paths {
		if _, err := os.Stat(p); err != nil {
			return fmt.Errorf("-f: %w", err)
		}
	}
	return nil
}

// stateDir is where the state of these files is: the same for everyone who names them.
func (s *files) stateDir() (string, error) {
	if len(s.paths) == 0 && s.state == "" {
		return "", errNoFiles
	}
	if s.state != "" {
		return filepath.Abs(s.state)
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for state; choose one with --state: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	h := fnv.New64a()
	for _, p := range slices.Sorted(slices.Values(s.paths)) {
		abs, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			abs = real
		}
		_, _ = h.Write([]byte(abs + "\x00"))
	}
	return filepath.Join(base, "penstock", fmt.Sprintf("%016x", h.Sum64())[:8]), nil
}

// service is what up and serve share.
type service struct {
	files
	xds, picker     string
	http, admin     string
	pickerAddresses []string
	defaultPool     string
	accessLog       string
	drainTime       time.Duration
	logLevel        string
	cluster         bool // objects come from a cluster and not from files
}

func (s *service) flags(cmd *cobra.Command, xds, picker, logLevel string) {
	s.files.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.xds, "xds", xds, "address to serve ADS on")
	f.StringVar(&s.picker, "picker", picker, "address to serve endpoint picks (ext_proc) on")
	f.StringSliceVar(&s.pickerAddresses, "picker-address", nil, "IP:PORT at which Envoys reach the picker, if it is not that of --picker; may be repeated")
	f.StringVar(&s.http, "http", "", "address to serve /metrics, /healthz and /readyz on; if it is one of loopback, all that --admin serves too (default: none)")
	f.StringVar(&s.admin, "admin", "", "address to serve /status, /proxies, /explain and /debug/picks on, which tell everything to whoever reaches them: choose one of loopback, such as 127.0.0.1:9091 (default: none)")
	f.StringVar(&s.defaultPool, "default-pool", "", "NAMESPACE/NAME of the pool that gateways get which name none (default: the only pool)")
	f.StringVar(&s.accessLog, "access-log", "", "file that Envoys log each request to as JSON; /dev/stdout for their standard output")
	f.DurationVar(&s.drainTime, "drain-time", 10*time.Minute, "how long streams may go on whose listener has gone")
	f.StringVar(&s.logLevel, "log-level", logLevel, "debug, info, warn or error")
}

func (s *service) logger(cmd *cobra.Command) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q: write debug, info, warn or error", s.logLevel)
	}
	return slog.New(newRepeats(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))), nil
}

// newApp makes the app that up and serve run. set fills in the subcommand's own settings; shutdown flushes the remaining spans.
func (s *service) newApp(cmd *cobra.Command, set func(*app.Config)) (p *app.App, cfg app.Config, shutdown func(), err error) {
	log, err := s.logger(cmd)
	if err != nil {
		return nil, cfg, nil, err
	}
	t, err := newTelemetry(cmd.Context())
	if err != nil {
		return nil, cfg, nil, err
	}
	if cfg, err = s.config(cmd.Context(), log, t); err != nil {
		return nil, cfg, nil, err
	}
	set(&cfg)
	p, err = app.New(cfg)
	return p, cfg, t.end, err
}

// config opens the listeners and makes the configuration of the app. The app closes the listeners when it ends.
func (s *service) config(ctx context.Context, log *slog.Logger, t *telemetry) (cfg app.Config, err error) {
	switch {
	case s.cluster && s.state == "":
		s.state = clusterState()
	case !s.cluster && len(s.paths) == 0:
		return cfg, errNoFiles
	}
	if cfg.StateDir, err = s.stateDir(); err != nil {
		return cfg, err
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return cfg, fmt.Errorf("state folder: %w", err)
	}
	if cfg.XDS, err = listen(ctx, "--xds", s.xds); err != nil {
		return cfg, err
	}
	if cfg.Picker, err = listen(ctx, "--picker", s.picker); err != nil {
		return cfg, err
	}
	if s.http != "" {
		if cfg.HTTP, err = listen(ctx, "--http", s.http); err != nil {
			return cfg, err
		}
	}
	if s.admin != "" {
		if cfg.Admin, err = listen(ctx, "--admin", s.admin); err != nil {
			return cfg, err
		}
	}
	for _, a := range s.pickerAddresses {
		addr, err := netip.ParseAddrPort(a)
		if err != nil {
			return cfg, fmt.Errorf("--picker-address %q: write IP:PORT, because Envoy is given addresses and no names", a)
		}
		cfg.PickerAddresses = append(cfg.PickerAddresses, addr)
	}
	if len(cfg.PickerAddresses) == 0 {
		if addr, err := netip.ParseAddrPort(cfg.Picker.Addr().String()); err == nil && addr.Addr().IsUnspecified() {
			cfg.PickerAddresses = []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), addr.Port())}
		}
	}
	if s.defaultPool != "" && strings.Count(s.defaultPool, "/") != 1 {
		return cfg, fmt.Errorf("--default-pool %q: write NAMESPACE/NAME", s.defaultPool)
	}
	cfg.Paths, cfg.DefaultPool, cfg.AccessLog, cfg.DrainTime, cfg.Log = s.paths, s.defaultPool, s.accessLog, s.drainTime, log
	cfg.Tracer, cfg.Collector, cfg.Sampling = t.provider, t.collector, t.sampling
	return cfg, nil
}

func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
		_ = os.Remove(path)
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; choose another address", flag, err)
	}
	return l, nil
}
