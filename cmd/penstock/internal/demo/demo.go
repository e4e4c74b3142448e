package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/picker/modelserver"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

// ErrFailed is the error of a demo in which a step failed. The output has the reason.
var ErrFailed = errors.New("the demo failed")

const timeout = 20 * time.Second

// Config configures a demo.
type Config struct {
	ClusterSet bool      // shows cluster sets in place of pools
	Engines    bool      // shows model servers that penstock starts, in place of pools
	Penstock   string    // path of the binary that is run
	Env        []string  // added to the environment of Penstock
	Typed      string    // the binary's name in printed commands
	Envoy      string    // Envoy's version in the output
	Keep       bool      // leaves everything running after the last step, until the context ends
	Out        io.Writer // receives the output
	Colour     bool      // adds ANSI colours
	// Ask reads JSON from the penstock that serves a state folder.
	Ask func(ctx context.Context, state, path string, into any) error
}

type script struct {
	folder  string
	sites   []string
	ports   []string
	later   []string
	flags   []string       // more flags of penstock up
	end     syscall.Signal // ends penstock up; 0: SIGTERM
	prepare func(d *show)
	begin   func(d *show)       // prints what runs, once all gateways serve
	after   func(d *show) error // removes what the processes of all sites have left; may be nil
	// A step returns values for the text of its result. It fails by check, must, expect or failf.
	steps []func(d *show) []any
}

type texts struct {
	Title, About, Serves, Again, Keep, Edit string
	Try                                     []string // commands
	Steps                                   []step
}

type step struct {
	Title, Intro, Why, Result string
	File, Prefix              string // the step's YAML and the path of its route; may be ""
}

func (s script) texts() (texts, error) {
	text, err := config.ReadFile("steps.yaml")
	if err != nil {
		return texts{}, err
	}
	var all map[string]texts
	err = yaml.UnmarshalStrict(text, &all)
	return all[s.folder], err
}

type show struct {
	page
	script
	cfg      Config
	dir      string
	texts    texts
	step     step
	ports    map[string]int
	http     *http.Client
	ctx      context.Context
	group    *errgroup.Group
	clusters map[string]*cluster
	opened   []*stream
	url      string
}

// Run runs a demo. It returns ErrFailed if a step failed, and the context's error if the context
// ended before the last step. When Run returns, all processes have ended.
func Run(ctx context.Context, cfg Config) (err error) {
	s := poolsScript()
	switch {
	case cfg.ClusterSet:
		s = setScript()
	case cfg.Engines:
		s = enginesScript()
	}
	temp := os.TempDir()
	if len(temp) >= 36 { // paths of Unix sockets have at most 103 bytes on macOS
		temp = "/tmp"
	}
	dir, err := os.MkdirTemp(temp, "penstock-demo-")
	if err != nil {
		return err
	}
	d := &show{page: page{w: cfg.Out, colour: cfg.Colour}, script: s, cfg: cfg, dir: dir, ports: map[string]int{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}, clusters: map[string]*cluster{}}
	defer func() {
		d.http.CloseIdleConnections()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if d.texts, err = s.texts(); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	d.group, d.ctx = errgroup.WithContext(ctx)
	d.group.Go(func() error {
		defer end()
		failed := d.play()
		if cfg.Keep && (failed == nil || errors.Is(failed, ErrFailed)) && d.url != "" {
			d.keepRunning()
		}
		return failed
	})
	err = d.group.Wait()
	if s.after != nil {
		err = errors.Join(err, s.after(d))
	}
	return err
}

type failure struct{ error }

func try(run func()) (err error) {
	defer func() {
		v := recover()
		if f, failed := v.(failure); failed {
			err = f.error
		} else if v != nil {
			panic(v)
		}
	}()
	run()
	return nil
}

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func expect(ok bool, format string, args ...any) {
	if !ok {
		failf("expected "+format, args...)
	}
}

func (d *show) play() error {
	began := time.Now()
	d.line("%s", d.paint(bold, d.texts.Title))
	d.text("%s", d.fill(d.texts.About))
	err := try(func() {
		d.start()
		for _, name := range d.sites {
			d.clusters[name].served(d.ctx)
		}
		d.url = d.clusters[d.sites[0]].url()
		d.line("")
		d.begin(d)
		d.ok(fmt.Sprintf("%s, after %.1f s", d.texts.Serves, time.Since(began).Seconds()))
	})
	for i := 0; i < len(d.steps) && err == nil; i++ {
		d.step = d.texts.Steps[i]
		d.heading(fmt.Sprintf("%d  %s", i+1, d.step.Title))
		d.text("%s", d.step.Intro)
		err = try(func() { d.perform(d.steps[i]) })
		for _, s := range d.opened {
			_ = s.Close()
		}
		d.opened = nil
	}
	switch {
	case err != nil && d.ctx.Err() != nil:
		return context.Cause(d.ctx)
	case err != nil:
		d.failed(err)
		for _, name := range d.sites {
			if c := d.clusters[name]; c != nil {
				d.line("   output of penstock in cluster %s:\n%s", name, c.output())
			}
		}
		return ErrFailed
	}
	d.heading(fmt.Sprintf("All %d steps went as promised, in %.0f s.", len(d.steps), time.Since(began).Seconds()))
	if !d.cfg.Keep {
		d.text("To try it yourself: %s", d.fill(d.texts.Again))
	}
	return nil
}

func (d *show) fill(text string) string {
	return strings.NewReplacer("@typed", d.cfg.Typed, "@envoy", d.cfg.Envoy, "@url", d.url, "@state",
		d.state(d.sites[0])).Replace(text)
}

func (d *show) start() {
	for _, name := range append(slices.Clone(d.sites), d.script.ports...) {
		l := must(freeport.Listen())
		defer l.Close() // deferred, so that the ports differ
		d.ports[name] = portOf(l.Addr().String())
	}
	d.prepare(d)
	later := slices.Clone(d.later)
	for _, step := range d.texts.Steps {
		if step.Prefix != "" {
			later = append(later, step.File)
		}
	}
	for _, path := range must(fs.Glob(config, d.folder+"/*/*")) {
		if name := strings.TrimPrefix(path, d.folder+"/"); !slices.Contains(later, name) {
			d.write(name, must(render(d.folder, name, d.ports)))
		}
	}
	for _, name := range d.sites {
		d.launch(name)
	}
}

func (d *show) perform(run func(*show) []any) {
	if d.step.File != "" {
		text, note := must(render(d.folder, d.step.File, d.ports)), "applied before the start"
		if d.step.Prefix != "" {
			took := d.apply(text)
			note = fmt.Sprintf("saved, and in effect %d ms later", max(1, took.Milliseconds()))
		}
		d.yaml(d.step.File, note, excerpt(text))
	}
	d.ok(fmt.Sprintf(d.step.Result, run(d)...))
}

func (d *show) why(values ...any) { d.because(fmt.Sprintf(d.step.Why, values...)) }

func (d *show) apply(text string) time.Duration {
	began := time.Now()
	d.write(d.step.File, text)
	status := 0
	err := wait(d.ctx, func() bool {
		status, _ = d.get(d.url + d.step.Prefix + "/health")
		return status != http.StatusNotFound
	})
	took := time.Since(began)
	finding := d.clusters[d.sites[0]].finding()
	expect(finding == "", "no errors in the YAML, got error: %s", finding)
	check(err)
	expect(status == http.StatusOK || status == http.StatusUnauthorized,
		"that a new route answers 200 or 401 from its first request on, got %d", status)
	return took
}

func wait(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for !done() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("condition not met: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (d *show) keepRunning() {
	d.heading(d.texts.Keep)
	for _, command := range d.texts.Try {
		d.command(d.fill(command))
	}
	if d.texts.Edit != "" {
		d.line("")
		d.text("%s", d.texts.Edit)
	}
	for _, step := range d.texts.Steps {
		if step.File != "" {
			d.line("     %s", d.file(step.File))
		}
	}
	d.line("   Ctrl-C ends it and removes these files.\n")
	for _, name := range d.sites {
		c := d.clusters[name]
		c.mu.Lock()
		c.follow = d.w
		c.mu.Unlock()
	}
	<-d.ctx.Done()
}

func (d *show) model(name string, c modelserver.Config) {
	c.Name, c.Listen, c.Grace, c.Log = name, []string{"127.0.0.1:0"}, time.Second, slog.New(slog.DiscardHandler)
	server := must(modelserver.New(c))
	d.ports[name] = portOf(must(server.Listen())[0])
	d.group.Go(func() error { return server.Run(d.ctx) })
}

func portOf(address string) int            { return int(netip.MustParseAddrPort(address).Port()) }
func (d *show) address(name string) string { return fmt.Sprintf("127.0.0.1:%d", d.ports[name]) }
func (d *show) file(name string) string    { return filepath.Join(d.dir, filepath.FromSlash(name)) }
func (d *show) state(name string) string   { return filepath.Join(d.dir, "s", name) }
func (d *show) write(name, text string)    { check(statefile.Replace(d.file(name), []byte(text))) }
