package demo

import (
	"context"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/xds/supervisor"
)

// drainTimeout is how long a penstock process may take to drain its Envoy when the demo ends.
const drainTimeout = 15 * time.Second

// cluster is one penstock process: control plane, picker and Envoy.
type cluster struct {
	name string
	cmd  func(ctx context.Context) *exec.Cmd
	stop func() // ends the process, and waits until it has ended

	mu     sync.Mutex
	text   string    // its output
	follow io.Writer // receives further lines of it; may be nil
}

// keptLines is how many lines of a process's output a failure shows.
const keptLines = 20

// Run runs the process until ctx ends, and then waits for its end. A process that ends before ctx
// is an error.
func (c *cluster) Run(ctx context.Context) error {
	runtime.LockOSThread() // see ProcessAttributes
	defer runtime.UnlockOSThread()
	cmd := c.cmd(ctx)
	cmd.SysProcAttr = supervisor.ProcessAttributes(syscall.SIGTERM)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = drainTimeout
	cmd.Stdout, cmd.Stderr = c, c
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start penstock for cluster %s: %w", c.name, err)
	}
	_ = cmd.Wait() // ProcessState has the result
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("penstock in cluster %s ended (%s); its output:\n%s", c.name, cmd.ProcessState, c.output())
}

// Write implements io.Writer for the process's output.
func (c *cluster) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	whole := strings.LastIndexByte(c.text, '\n') + 1
	c.text += string(b)
	if end := strings.LastIndexByte(c.text, '\n') + 1; c.follow != nil {
		for line := range strings.Lines(c.text[whole:max(whole, end)]) {
			fmt.Fprintf(c.follow, "%s: %s", c.name, line)
		}
	}
	return len(b), nil
}

func (c *cluster) followTo(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow = w
}

func (c *cluster) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text
}

// output returns the last lines.
func (c *cluster) output() string {
	lines := strings.Split(strings.TrimSuffix(c.all(), "\n"), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-keptLines):], "\n    ")
}

func (c *cluster) find(text string) string {
	_, after, _ := strings.Cut(c.all(), text)
	if line, _, whole := strings.Cut(after, "\n"); whole {
		return line
	}
	return ""
}

func (c *cluster) finding() string { return c.find("\nerror: ") }

// url returns the URL of the gateway, or "" before it serves.
func (c *cluster) url() string { return c.find(" serves at ") }

func (c *cluster) served(ctx context.Context) {
	expect(wait(ctx, func() bool { return c.url() != "" }) == nil,
		"the gateway of cluster %s to serve within %s; output of penstock:\n%s", c.name, timeout, c.output())
}

func (d *show) launch(name string) {
	args := []string{"up", "-f", d.file(name), "--concurrency", "2", "--access-log", d.file(name + ".access.log")}
	for port, flag := range map[string]string{name + "-picker": "--picker", name + "-members": "--members-listen"} {
		if d.ports[port] > 0 {
			args = append(args, flag, d.address(port))
		}
	}
	d.run(name, args...)
}

func (d *show) run(name string, args ...string) {
	ctx, stop := context.WithCancel(d.ctx)
	ended := make(chan struct{})
	args = append(args, "--state", d.state(name))
	c := &cluster{name: name, stop: func() { stop(); <-ended },
		cmd: func(ctx context.Context) *exec.Cmd { return d.penstock(ctx, args...) }}
	d.clusters[name] = c
	d.group.Go(func() error {
		defer close(ended)
		return c.Run(ctx)
	})
}

func (d *show) penstock(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.cfg.Penstock, args...)
	cmd.Env = append(os.Environ(), d.cfg.Env...)
	return cmd
}

// config holds the YAML of the clusters of both demos. ${NAME} stands for a port: a cluster's name
// for its gateway's, NAME-picker for its picker's, and any other name for a model server's.
//
//go:embed config set steps.yaml
var config embed.FS

func render(folder, file string, ports map[string]int) (string, error) {
	text, err := config.ReadFile(path.Join(folder, file))
	if err != nil {
		return "", err
	}
	var missing error
	out := os.Expand(string(text), func(name string) string {
		port, ok := ports[name]
		if !ok {
			missing = fmt.Errorf("%s: no port is named ${%s}", file, name)
		}
		return fmt.Sprint(port)
	})
	return out, missing
}

// excerpt returns the important lines of YAML: lines that end in a comment, their parent lines, and
// the kinds and names of their objects.
func excerpt(text string) (out []string) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		var kept []string // the last line first
		above := -1       // the depth of the last one; its parent has less
		for _, line := range slices.Backward(strings.Split(document, "\n")) {
			head := above >= 0 && (strings.HasPrefix(line, "kind: ") || strings.HasPrefix(line, "metadata: "))
			if d := depth(line); d >= 0 && (d < above || head || strings.Contains(line, " # ")) {
				kept, above = append(kept, line), d
			}
		}
		if len(out) > 0 && len(kept) > 0 {
			out = append(out, "---")
		}
		slices.Reverse(kept)
		out = append(out, kept...)
	}
	return out
}

// depth returns the nesting depth of a line of YAML; -1 for a comment or an empty line. A list item
// is below a key of the same indentation.
func depth(line string) int {
	text := strings.TrimLeft(line, " ")
	switch {
	case text == "" || text[0] == '#':
		return -1
	case strings.HasPrefix(text, "- "):
		return 2*(len(line)-len(text)) + 1
	}
	return 2 * (len(line) - len(text))
}
