package demo

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/external"
	"github.com/penstock-project/penstock/picker/external/preprocess"
	"github.com/penstock-project/penstock/picker/external/router"
	"github.com/penstock-project/penstock/xds/supervisor"
)

type cluster struct {
	name string
	cmd  func(ctx context.Context) *exec.Cmd
	end  syscall.Signal // 0: SIGTERM
	stop func()

	mu     sync.Mutex
	text   string
	follow io.Writer
}

// Run runs the process until ctx ends. If the process ends before ctx, Run returns an error.
func (c *cluster) Run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := c.cmd(ctx)
	end := cmp.Or(c.end, syscall.SIGTERM)
	cmd.SysProcAttr = supervisor.ProcessAttributes(end)
	cmd.Cancel = func() error { return cmd.Process.Signal(end) }
	cmd.WaitDelay = 15 * time.Second // time to drain its Envoy
	cmd.Stdout, cmd.Stderr = c, c
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start penstock for cluster %s: %w", c.name, err)
	}
	_ = cmd.Wait() // the result is in ProcessState
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("penstock in cluster %s ended (%s); its output:\n%s", c.name, cmd.ProcessState, c.output())
}

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

func (c *cluster) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text
}

func (c *cluster) output() string {
	lines := strings.Split(strings.TrimSuffix(c.all(), "\n"), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-20):], "\n    ")
}

func (c *cluster) find(text string) string {
	_, after, _ := strings.Cut(c.all(), text)
	if line, _, whole := strings.Cut(after, "\n"); whole {
		return line
	}
	return ""
}

func (c *cluster) finding() string { return c.find("\nerror: ") }

func (c *cluster) url() string { return c.find(" serves at ") }

func (c *cluster) served(ctx context.Context) {
	expect(wait(ctx, func() bool { return c.url() != "" }) == nil,
		"the gateway of cluster %s to serve within %s; output of penstock:\n%s", c.name, timeout, c.output())
}

func (d *show) launch(name string) {
	args := []string{"up", "-f", d.file(name), "--concurrency", "2", "--access-log", d.file(name + ".access.log")}
	args = append(args, d.flags...)
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
	c := &cluster{name: name, end: d.end, stop: func() { stop(); <-ended },
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

// config has the YAML of all demos. ${NAME} stands for a port: of a cluster's gateway, of its
// picker (${NAME-picker}), or of a model server.
//
//go:embed config engines set steps.yaml
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
// kinds and names of their objects.
func excerpt(text string) (out []string) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		var kept []string
		above := -1
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

func (d *show) external(name string, cfg external.ServerConfig, paths func(*external.Server)) string {
	cfg.Listen, cfg.Grace, cfg.Log = "127.0.0.1:0", time.Second, slog.New(slog.DiscardHandler)
	server := external.NewServer(cfg)
	paths(server)
	d.ports[name] = portOf(must(server.Open()))
	d.group.Go(func() error { return server.Run(d.ctx) })
	return "http://" + d.address(name)
}

func (d *show) processors(tokens string) {
	var workers []string
	for _, name := range names("qwen") {
		workers = append(workers, d.address(name))
	}
	quiet := slog.New(slog.DiscardHandler)
	routes := must(router.New(router.Config{Workers: workers, Log: quiet}, prometheus.NewRegistry()))
	routerURL := d.external("router", router.ServerConfig(), routes.Paths)
	for name, store := range map[string]string{"stores-tokens": tokens, "sends-tokens": ""} {
		p := must(preprocess.New(preprocess.Config{
			Tokenize: bytesAsTokens, Router: routerURL, Tokens: store, Log: quiet,
		}, prometheus.NewRegistry()))
		d.external(name, preprocess.ServerConfig(), p.Paths)
	}
}

func bytesAsTokens(text string) ([]uint32, error) {
	out := make([]uint32, len(text))
	for i := range text {
		out[i] = uint32(text[i])
	}
	return out, nil
}
