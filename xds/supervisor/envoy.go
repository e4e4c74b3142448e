package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/penstock-project/penstock/xds/fleet/drain"
)

const (
	// The pause before a restart doubles after a process that ran for less than lastDelay.
	firstDelay = 100 * time.Millisecond
	lastDelay  = 10 * time.Second

	// reportFrom is the pause above which a restart is reported.
	reportFrom = 500 * time.Millisecond
	runsAfter  = time.Second

	quiet = 200 * time.Millisecond

	termGrace = 5 * time.Second

	// macOS's limit is 104 bytes with the final zero.
	longestSocket = 103
)

// EnvoyConfig configures an Envoy.
type EnvoyConfig struct {
	Envoy     string // path of the binary
	Gateway   string // for logs only
	Bootstrap []byte // YAML or JSON; its admin section is replaced
	// Dir is the folder for the bootstrap and the admin socket. Its path must be short
	// (longestSocket).
	Dir string

	// Args are additional arguments (bootstrap.Config.Args).
	Args []string

	// Grace is how long Run waits for requests in flight after its context ends. Default: 30 s. The
	// wait also ends when Now closes.
	Grace time.Duration

	Now <-chan struct{}

	// Report is called with the reason when no process serves, and with "" once one runs. Optional.
	Report func(problem string)

	LogLevel string // default: "warning"

	keeper  *Supervisor // nil without a Supervisor
	version string
	kept    *Kept // process to adopt; nil: none

	// Log receives Envoy's log and restarts. Default: slog.Default().
	Log *slog.Logger
}

// Envoy runs one Envoy and restarts it when it exits.
type Envoy struct {
	cfg    EnvoyConfig
	log    *slog.Logger
	admin  *adminClient
	config string
}

// NewEnvoy writes the bootstrap into cfg.Dir, readable by this user only.
func NewEnvoy(cfg EnvoyConfig) (*Envoy, error) {
	if cfg.Envoy == "" || cfg.Dir == "" || len(cfg.Bootstrap) == 0 {
		return nil, errors.New("supervisor: EnvoyConfig needs Envoy, Dir and Bootstrap")
	}
	if cfg.Grace == 0 {
		cfg.Grace = 30 * time.Second
	}
	if cfg.LogLevel == "" {
		cfg.LogLevel = "warning"
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Report == nil {
		cfg.Report = func(string) {}
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	socket := filepath.Join(dir, "admin.sock")
	if len(socket) > longestSocket {
		return nil,
			fmt.Errorf("supervisor: the path of Envoy's admin socket, %s, %w of %d bytes: choose a shorter folder",
				socket, errLongPath, longestSocket)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	config := filepath.Join(dir, "bootstrap.yaml")
	// An equal file is not written again, so that NewEnvoy works on a full disk.
	if old, err := os.ReadFile(config); err != nil || !bytes.Equal(old, cfg.Bootstrap) {
		if err := os.WriteFile(config, cfg.Bootstrap, 0o600); err != nil {
			return nil, fmt.Errorf("supervisor: %w", err)
		}
	}
	return &Envoy{cfg: cfg, log: cfg.Log.With("gateway", cfg.Gateway), admin: newAdminClient(socket), config: config},
		nil
}

var errLongPath = errors.New("is longer than the limit")

// Run starts Envoy, and restarts it whenever it ends, until ctx ends. Then Run drains and ends
// Envoy. It returns nil.
func (e *Envoy) Run(ctx context.Context) error {
	// The kernel kills Envoy when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	delay := firstDelay
	for adopted := e.adopt(); adopted != nil || ctx.Err() == nil; adopted = nil {
		began := time.Now()
		problem, reason := e.runOnce(ctx, adopted)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > lastDelay {
			delay = firstDelay
		}
		if delay > reportFrom || problem == cannotStart { // Envoy is soon back after a single crash
			e.cfg.Report(problem + ": " + reason)
		}
		e.log.Error(problem, "reason", reason, "in", delay)
		if !pause(ctx, delay) {
			return nil
		}
		delay = min(2*delay, lastDelay)
	}
	return nil
}

const (
	cannotStart = "Envoy cannot be started; it is tried again"
	died        = "Envoy died and will be restarted"
)

func (e *Envoy) runOnce(ctx context.Context, child *child) (problem, reason string) {
	if child == nil {
		var err error
		if child, err = e.cfg.keeper.begin(e); err != nil {
			return cannotStart, err.Error()
		}
		e.log.Debug("Envoy started", "pid", child.pid)
	}
	defer e.cfg.keeper.note(e.cfg.Gateway, nil)
	runs := time.AfterFunc(runsAfter, func() { e.cfg.Report("") })
	defer runs.Stop()
	select {
	case <-ctx.Done():
		e.stop(child)
		return "", ""
	case <-child.ended:
	}
	child.killGroup() // $ENVOY may be a script that has ended before its Envoy
	return died, child.reason
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (e *Envoy) stop(child *child) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-child.ended:
		case <-e.cfg.Now:
		}
		cancel()
	}()
	left, err := drain.Drain(ctx, drain.Config{
		Admin: e.admin.socket, Stop: true, Timeout: e.cfg.Grace, Settle: time.Millisecond, Quiet: quiet,
		Interval: 50 * time.Millisecond,
	})
	switch {
	case left > 0:
		e.log.Warn("Envoy did not drain before its end", "in flight", left)
	case err != nil:
		e.log.Warn("Envoy did not drain before its end", "reason", err)
	}
	child.log.ending.Store(true)
	end, cancelEnd := context.WithTimeout(context.Background(), termGrace)
	defer cancelEnd()
	if _, err := e.Admin(end, http.MethodPost, "/quitquitquit"); err != nil {
		child.terminate()
	}
	select {
	case <-child.ended:
	case <-e.cfg.Now:
	case <-end.Done():
		e.log.Warn("Envoy did not end and is killed")
	}
	child.killGroup()
	<-child.ended
}
