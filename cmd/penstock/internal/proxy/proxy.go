package proxy

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

// Config is what one supervised Envoy needs.
type Config struct {
	Envoy     string // the binary, as Find returns it
	Gateway   string // "namespace/name" of the Gateway it serves; only logs use it
	Bootstrap []byte // YAML or JSON. Its admin section, if any, is replaced: see Proxy.Admin
	Dir       string // a folder of this Proxy alone, made if need be, for the bootstrap and the admin socket; keep it short

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

// Proxy supervises one Envoy. Use New.
type Proxy struct {
	cfg    Config
	log    *slog.Logger
	admin  *adminClient
	config string // path of the bootstrap file
}

// New checks cfg and writes the bootstrap into cfg.Dir, readable by this user alone. It starts nothing.
func New(cfg Config) (*Proxy, error) {
	if cfg.Envoy == "" || cfg.Dir == "" || len(cfg.Bootstrap) == 0 {
		return nil, errors.New("proxy: Config needs Envoy, Dir and Bootstrap")
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
		return nil, fmt.Errorf("proxy: %w", err)
	}
	socket := filepath.Join(dir, "admin.sock")
	if len(socket) > longestSocket {
		return nil, fmt.Errorf("proxy: the path of Envoy's admin socket, %s, is longer than %d bytes: choose a shorter folder", socket, longestSocket)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	// Envoy tells the format by the ending; JSON is YAML too.
	config := filepath.Join(dir, "bootstrap.yaml")
	if err := os.WriteFile(config, cfg.Bootstrap, 0o600); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return &Proxy{cfg: cfg, log: cfg.Log.With("gateway", cfg.Gateway), admin: newAdminClient(socket), config: config}, nil
}

// Run starts Envoy and keeps it running until ctx ends. Then it drains: Envoy asks its clients to go, Run waits for their
// requests, at most Config.Grace, and ends the process. An Envoy that dies is started again. Run returns nil when ctx
// ended, or what made it impossible to start a process at all.
func (p *Proxy) Run(ctx context.Context) error {
	// The kernel's promise to kill the child with its parent is tied to the thread that started it (orphan_linux.go).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	delay := firstDelay
	for ctx.Err() == nil {
		began := time.Now()
		child, err := p.start()
		if err != nil {
			return fmt.Errorf("start Envoy for gateway %s: %w", p.cfg.Gateway, err)
		}
		p.log.Debug("Envoy started", "pid", child.pid)
		select {
		case <-ctx.Done():
			p.stop(child)
			return nil
		case <-child.ended:
		}
		child.killGroup() // $ENVOY may be a script that died before its Envoy
		if time.Since(began) > lastDelay {
			delay = firstDelay
		}
		p.log.Error("Envoy died and will be restarted", "reason", child.reason, "in", delay)
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
func (p *Proxy) stop(child *child) {
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.Grace)
	defer cancel()
	if err := p.drain(ctx, child); err != nil {
		p.log.Warn("Envoy ends without having drained", "reason", err)
	}
	child.log.ending.Store(true)
	// The polite way first: Envoy warns about a SIGTERM, and that would be the last thing a user reads.
	if _, err := p.Admin(ctx, http.MethodPost, "/quitquitquit"); err != nil {
		child.terminate()
	}
	select {
	case <-child.ended:
	case <-time.After(termGrace):
		p.log.Warn("Envoy did not end and is killed")
	}
	child.killGroup()
	<-child.ended
}
