package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// drainTimeout is how long a penstock process may take to drain its Envoy when the demo ends.
const drainTimeout = 15 * time.Second

// cluster is one penstock process: control plane, picker and Envoy.
type cluster struct {
	name  string // "here" or "east"
	state string // its --state
	cmd   func(ctx context.Context) *exec.Cmd
	ready chan struct{} // closed when its gateway serves

	mu     sync.Mutex
	url    string    // of its gateway; set once, before ready is closed
	lines  []string  // the last lines of its output
	follow io.Writer // receives further output; may be nil
}

func (c *cluster) serves() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// keptLines is how many lines of a process's output a failure shows.
const keptLines = 20

// Run runs the process until ctx ends, and then waits for its end. A process that ends before ctx
// is an error.
func (c *cluster) Run(ctx context.Context) error {
	// The kernel ends the child with the thread that started it (orphan_linux.go).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := c.cmd(ctx)
	cmd.SysProcAttr = processAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = drainTimeout
	out := &lineWriter{line: c.printed}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start penstock for cluster %s: %w", c.name, err)
	}
	_ = cmd.Wait() // ProcessState has the result
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("penstock in cluster %s ended (%s); its output:\n%s", c.name, cmd.ProcessState, c.output())
}

func (c *cluster) printed(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	c.lines = c.lines[max(0, len(c.lines)-keptLines):]
	if _, url, ok := strings.Cut(line, " serves at "); ok && c.url == "" {
		c.url = url
		close(c.ready)
	}
	if c.follow != nil {
		fmt.Fprintf(c.follow, "%s: %s\n", c.name, line)
	}
}

// followTo copies further output of the process to w.
func (c *cluster) followTo(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow = w
}

func (c *cluster) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "    " + strings.Join(c.lines, "\n    ")
}

// finding returns the first error that the process reported about its configuration, or "".
func (c *cluster) finding() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.HasPrefix(line, "error: ") {
			return line
		}
	}
	return ""
}

// served waits until the gateway serves, and returns its URL.
func (c *cluster) served(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-c.ready:
		return c.url, nil
	case <-ctx.Done():
		return "",
			fmt.Errorf("the gateway of cluster %s does not serve after %s; output of penstock:\n%s", c.name, timeout,
				c.output())
	}
}

type lineWriter struct {
	rest string
	line func(string)
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest += string(p)
	for {
		line, rest, found := strings.Cut(w.rest, "\n")
		if !found {
			return len(p), nil
		}
		w.rest = rest
		w.line(line)
	}
}

// command returns a call of the penstock binary.
func (c *Config) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Penstock, args...)
	cmd.Env = append(os.Environ(), c.Env...)
	return cmd
}
