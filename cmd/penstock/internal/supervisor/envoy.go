package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const (
	// firstDelay and lastDelay bound the pause before a restart: it doubles with each start that did not last, so that
	// an Envoy that cannot run costs next to nothing, and one that crashed once is back at once.
	firstDelay = 100 * time.Millisecond
	lastDelay  = 10 * time.Second

	// termGrace is what Envoy gets between being told to end and SIGKILL. It needs milliseconds.
	termGrace = 5 * time.Second

	// longestSocket is what a Unix socket's path may measure on every system we run on (macOS: 104 with the final zero).
	longestSocket = 103
)

// EnvoyConfig is what one supervised Envoy needs.
type EnvoyConfig struct {
	Envoy     string // the binary, as Find returns it
	Gateway   string // "namespace/name" of the Gateway it serves; only logs use it
	Bootstrap []byte // YAML or JSON. Its admin section, if any, is replaced: see Envoy.Admin
	Dir       string // a folder of this Envoy alone, made if need be, for the bootstrap and the admin socket; keep it short

	// Args belong to the bootstrap but have no field in it: drain times, concurrency, and --disable-hot-restart, without
	// which two Envoys on one machine collide. bootstrap.Config.Args gives them.
	Args []string

	// Grace is how long Run waits for requests to end once its context has ended. 0 means 10 seconds.
	Grace time.Duration

	LogLevel string // from which level on Envoy's own log is forwarded, in Envoy's words; "" means "warning"

	// AccessLog takes what Envoy writes on its standard output. nil discards it.
	AccessLog io.Writer

	// Log takes Envoy's own log, and restarts. nil means slog.Default().
	Log *slog.Logger
}

// Envoy supervises one Envoy. Use NewEnvoy.
type Envoy struct {
	cfg    EnvoyConfig
	log    *slog.Logger
	admin  *adminClient
	config string // path of the bootstrap file
}

// NewEnvoy checks cfg and writes the bootstrap into cfg.Dir, readable by this user alone. It starts nothing.
func NewEnvoy(cfg EnvoyConfig) (*Envoy, error) {
	if cfg.Envoy == "" || cfg.Dir == "" || len(cfg.Bootstrap) == 0 {
		return nil, errors.New("supervisor: EnvoyConfig needs Envoy, Dir and Bootstrap")
	}
	if cfg.Grace == 0 {
		cfg.Grace = 10 * time.Second
	}
	if cfg.LogLevel == "" {
		cfg.LogLevel = "warning"
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	socket := filepath.Join(dir, "admin.sock")
	if len(socket) > longestSocket {
		return nil, fmt.Errorf("supervisor: the path of Envoy's admin socket, %s, is longer than %d bytes: choose a shorter folder", socket, longestSocket)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	// Envoy tells the format by the ending; JSON is YAML too.
	config := filepath.Join(dir, "bootstrap.yaml")
	if err := os.WriteFile(config, cfg.Bootstrap, 0o600); err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	return &Envoy{cfg: cfg, log: cfg.Log.With("gateway", cfg.Gateway), admin: newAdminClient(socket), config: config}, nil
}

// Run starts Envoy and keeps it running until ctx ends. Then it drains: Envoy asks its clients to go, Run waits for their
// requests, at most EnvoyConfig.Grace, and ends the process. An Envoy that dies is started again. Run returns nil when ctx
// ended, or what made it impossible to start a process at all.
func (e *Envoy) Run(ctx context.Context) error {
	// The kernel's promise to kill the child with its parent is tied to the thread that started it (orphan_linux.go).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	delay := firstDelay
	for ctx.Err() == nil {
		began := time.Now()
		child, err := e.start()
		if err != nil {
			return fmt.Errorf("start Envoy for gateway %s: %w", e.cfg.Gateway, err)
		}
		e.log.Debug("Envoy started", "pid", child.pid)
		select {
		case <-ctx.Done():
			e.stop(child)
			return nil
		case <-child.ended:
		}
		child.killGroup() // $ENVOY may be a script that died before its Envoy
		if time.Since(began) > lastDelay {
			delay = firstDelay
		}
		e.log.Error("Envoy died and will be restarted", "reason", child.reason, "in", delay)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
		delay = min(2*delay, lastDelay)
	}
	return nil
}

// stop drains child and ends it. It returns when the process is gone.
func (e *Envoy) stop(child *child) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Grace)
	defer cancel()
	if err := e.drain(ctx, child); err != nil {
		e.log.Warn("Envoy ends without having drained", "reason", err)
	}
	child.log.ending.Store(true)
	// The polite way first: Envoy warns about a SIGTERM, and that would be the last thing a user reads.
	if _, err := e.Admin(ctx, http.MethodPost, "/quitquitquit"); err != nil {
		child.terminate()
	}
	select {
	case <-child.ended:
	case <-time.After(termGrace):
		e.log.Warn("Envoy did not end and is killed")
	}
	child.killGroup()
	<-child.ended
}
