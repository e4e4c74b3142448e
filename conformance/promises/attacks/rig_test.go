package attacks

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
)

var (
	binaries struct{ penstock, envoy string }
	memory   int64 // the chart's default limit, in bytes
)

const openFiles = 4096

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		if path := os.Getenv(hostileMember); path != "" {
			return beHostile(path)
		}
		if os.Getenv(hog) != "" {
			return allocate()
		}
		ctx := context.Background()
		dir, err := os.MkdirTemp("", "attacks")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			binaries.envoy, err = process.Envoy(ctx)
		}
		if err == nil {
			binaries.penstock, err = process.Penstock(ctx, dir)
		}
		if err == nil {
			memory, err = chartMemory("penstock", "resources")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if *printed {
			measured.print(os.Stdout)
		}
		return code
	}())
}

// site is a penstock serve on a folder, with an Envoy for its Gateway default/gw. Route
// default/chat leads to pool default/chat with one model server.
type site struct {
	processtest.Rig
	dir string // state, logs and sockets
	ads string // a Unix socket, or port xds if the control plane has credentials
	// Ports of 127.0.0.1: the Gateway's listener, ADS, the picker, health and metrics, and Envoy's
	// admin interface.
	gateway, xds, picker, http, admin int
	server                            *httptest.Server
	penstock, envoy                   *process.Process
	stopped                           []*process.Process // stopped by the test
	confined                          map[*process.Process]*confinement
}

func (s *site) stop(p *process.Process) {
	s.Helper()
	s.within(p)
	if err := p.Stop(10 * time.Second); err != nil {
		s.Error(err)
	}
	s.stopped = append(s.stopped, p)
}

// within fails the test if a penstock exceeded its container's limits. It returns the process's
// peak memory in bytes.
func (s *site) within(p *process.Process) int64 {
	s.Helper()
	c := s.confined[p]
	if c == nil {
		return 0
	}
	peak, err := c.check(p)
	if err != nil {
		s.Error(err)
	}
	s.Logf("%s: %d MiB at the peak, of %d (%s)", p.Name, peak>>20, memory>>20, c.how())
	return peak
}

// start starts a site, and waits until it serves. files replace or add files of the site's folder.
// args are further arguments of penstock serve.
func start(t *testing.T, files map[string]string, args ...string) *site {
	t.Helper()
	s := prepare(t, files)
	s.serve(args...)
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	return s
}

func prepare(t *testing.T, files map[string]string) *site {
	t.Helper()
	dir := processtest.ShortDir(t)
	s := &site{Rig: processtest.Rig{TB: t, Files: filepath.Join(dir, "files")}, dir: dir, server: modelServer()}
	s.ads = process.ADS(filepath.Join(dir, "state"))
	t.Cleanup(s.server.Close)
	for _, port := range []*int{&s.gateway, &s.xds, &s.picker, &s.http, &s.admin} {
		*port = s.Port()
	}
	if err := os.Mkdir(s.Files, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Write("site.yaml", s.objects())
	for name, text := range files {
		s.Write(name, text)
	}
	return s
}

func (s *site) serve(args ...string) {
	s.Helper()
	s.serveWith(binaries.penstock, args...)
}

func (s *site) serveWith(binary string, args ...string) {
	s.Helper()
	s.penstock = s.runConfined(binary, args...)
	s.Eventually("penstock is ready", func() error { return s.penstock.Answers("http://" + local(s.http) + "/readyz") })
}

func (s *site) attach(args ...string) {
	s.Helper()
	envoy, err := process.StartEnvoy(binaries.penstock, binaries.envoy, s.dir, "envoy", append([]string{
		"--gateway", "default/gw", "--xds", s.ads, "--admin", local(s.admin), "--concurrency", "1", "--drain-time",
		"1s",
	}, args...)...)
	if err != nil {
		s.Fatal(err)
	}
	s.envoy = envoy
	s.ends(envoy)
}

func (s *site) runConfined(binary string, args ...string) *process.Process {
	s.Helper()
	c := confine("attacked", limits{Memory: memory, Files: openFiles})
	s.Cleanup(c.release)
	binary, args = c.command(binary, append([]string{
		"serve", "-f", s.Files, "--state", filepath.Join(s.dir, "state"), "--picker", local(s.picker),
		"--http", local(s.http), "--memory-limit", fmt.Sprint(memory),
	}, args...)...)
	p := s.run("penstock", binary, args...)
	if s.confined == nil {
		s.confined = map[*process.Process]*confinement{}
	}
	s.confined[p] = c
	return p
}

func (s *site) run(name, binary string, args ...string) *process.Process {
	s.Helper()
	p, err := process.Start(name, filepath.Join(s.dir, name+".log"), binary, nil, args...)
	if err != nil {
		s.Fatal(err)
	}
	s.ends(p)
	return p
}

func (s *site) ends(p *process.Process) {
	s.Cleanup(func() {
		if slices.Contains(s.stopped, p) {
			return
		}
		s.within(p)
		if err := p.Running(); err != nil {
			s.Error("too early: ", err)
		} else if err := p.Stop(10 * time.Second); err != nil {
			s.Error(err)
		}
		if s.Failed() {
			s.Logf("the log of %s:\n%s", p.Name, s.log(p.Name))
		}
	})
}

// log returns a process's log so far, at most its last 16 KiB.
func (s *site) log(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name+".log"))
	if err != nil {
		s.Fatal(err)
	}
	return string(text[max(0, len(text)-16<<10):])
}

func (s *site) whole(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name+".log"))
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

func (s *site) logSize(name string) int64 {
	info, err := os.Stat(filepath.Join(s.dir, name+".log"))
	if err != nil {
		s.Fatal(err)
	}
	return info.Size()
}

func (s *site) rss(p *process.Process) float64 {
	s.Helper()
	bytes, err := p.RSS()
	if err != nil {
		s.Fatal(err)
	}
	return float64(bytes) / (1 << 20)
}

// peak follows a process's resident memory. The returned function ends this, and returns the
// maximum in MiB.
func (s *site) peak(p *process.Process) func() float64 {
	peak := process.Peak(s.Context(), p.PID())
	return func() float64 { return float64(peak()) / (1 << 20) }
}

func (s *site) objects() string {
	return gatewayObject("gw", s.gateway) + poolObjects("chat", "/", []string{"gw"}, at(s.server))
}

// modelServer answers every request. Its metrics page is an idle vLLM's.
func modelServer() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w,
				"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0\n")
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
	}))
}

// ask sends a request through the Gateway on a new connection. A status other than 200 is an error.
func (s *site) ask(method, path, body string) error {
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+local(s.gateway)+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

type traffic struct {
	s      *site
	stop   context.CancelFunc
	done   sync.WaitGroup
	sent   int
	failed []string
}

func (s *site) traffic() *traffic {
	ctx, stop := context.WithCancel(s.Context())
	tr := &traffic{s: s, stop: stop}
	tr.done.Go(func() {
		for ctx.Err() == nil {
			err := s.ask(http.MethodPost, "/v1/chat/completions",
				`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
			if tr.sent++; err != nil {
				tr.failed = append(tr.failed, err.Error())
			}
		}
	})
	s.Cleanup(stop)
	return tr
}

func (tr *traffic) end() {
	tr.s.Helper()
	tr.stop()
	tr.done.Wait()
	if len(tr.failed) > 0 || tr.sent == 0 {
		tr.s.Errorf("%d of %d requests failed: %s", len(tr.failed), tr.sent,
			strings.Join(tr.failed[:min(5, len(tr.failed))], "; "))
	}
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
