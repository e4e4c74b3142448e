package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/holding"
)

// phantoms are two penstock serve over one pool, whose model server holds every request, and two
// Envoys with requests in flight at it.
type phantoms struct {
	dir    string
	pages  []string // of metrics
	server *holding.Server
}

// phantomsGateway is an Envoy's Gateway.
const phantomsGateway = `---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %[1]s}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %[2]d, protocol: HTTP}]
`

const phantomsPool = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: held}
spec:
  parentRefs: [{name: victim}, {name: survivor}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: held}]}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: held}
spec: {selector: {matchLabels: {app: held}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: held}
spec:
  targetRef: {name: held}
  picker: {full: {inFlight: 1000}}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: held, labels: {app: held}}
spec:
  servers: [{address: 127.0.0.1, ports: [%s]}]
`

// phantomsHeld is how many requests each Envoy has in flight.
const phantomsHeld = 100

// measurePhantoms kills one of two Envoys with requests in flight, and counts 5 s later.
func measurePhantoms(ctx context.Context, c config, out report) error {
	dir, err := os.MkdirTemp("", "ph") // the path of a Unix socket must be short
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p := &phantoms{dir: dir, server: holding.Start(false)}
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	var running []*process
	defer func() {
		cancel()
		clients.Wait()
		for _, r := range running {
			r.stop()
		}
		p.server.Close()
	}()
	envoys, err := p.start(ctx, c, strings.TrimPrefix(p.server.Address(), "127.0.0.1:"), &running)
	if err != nil {
		return err
	}
	for _, e := range envoys {
		for range phantomsHeld {
			clients.Go(func() { _ = get(ctx, e.url) }) // ends with ctx
		}
	}
	if err := p.counts(ctx, 2*phantomsHeld); err != nil {
		return err
	}
	if err := envoys[0].cmd.Process.Kill(); err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	counted, err := p.counted(ctx)
	if err != nil {
		return err
	}
	out("lease_phantoms", "", float64(max(0, counted-phantomsHeld)))
	out("lease_phantoms", "missing", float64(max(0, phantomsHeld-counted)))
	return nil
}

type phantomsEnvoy struct {
	*process
	url string
}

// start runs the processes; the first Envoy is the one to be killed.
func (p *phantoms) start(ctx context.Context, c config, server string, running *[]*process) (envoys []phantomsEnvoy,
	err error) {
	var ports [8]int32
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	ads := func(i int) string { return "unix:" + filepath.Join(p.dir, fmt.Sprint("state", i), "xds.sock") }
	files := filepath.Join(p.dir, "files")
	objects := fmt.Sprintf(phantomsPool, server) + fmt.Sprintf(phantomsGateway, "victim", ports[6]) +
		fmt.Sprintf(phantomsGateway, "survivor", ports[7])
	if err := errors.Join(os.Mkdir(files, 0o700),
		os.WriteFile(filepath.Join(files, "all.yaml"), []byte(objects), 0o600)); err != nil {
		return nil, err
	}
	for i := range 2 {
		plane, err := start(c.penstock, "serve", "-f", files, "--state", filepath.Join(p.dir, fmt.Sprint("state", i)),
			"--picker", address(2+i), "--http", address(4+i), "--peers", ads(0)+","+ads(1), "--picker-address",
			address(2)+","+address(3))
		if err != nil {
			return nil, err
		}
		*running = append(*running, plane)
		p.pages = append(p.pages, "http://"+address(4+i)+"/metrics")
		if err := eventually(ctx,
			func() error { return errors.Join(get(ctx, "http://"+address(4+i)+"/readyz"), plane.running()) }); err !=
			nil {
			return nil, err
		}
	}
	for i, name := range []string{"victim", "survivor"} {
		e, err := p.envoy(ctx, c, name, ads(0), ads(1))
		if err != nil {
			return nil, err
		}
		*running = append(*running, e)
		envoys = append(envoys, phantomsEnvoy{e, "http://" + address(6+i) + "/"})
		if err := eventually(ctx,
			func() error { return errors.Join(get(ctx, envoys[i].url+"v1/models"), e.running()) }); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return envoys, nil
}

// envoy starts an Envoy of a Gateway.
func (p *phantoms) envoy(ctx context.Context, c config, gateway string, xds ...string) (*process, error) {
	args := []string{"bootstrap", "--gateway", "default/" + gateway, "--admin",
		"unix:" + filepath.Join(p.dir, gateway+".sock"), "--concurrency", "2"}
	for _, address := range xds {
		args = append(args, "--xds", address)
	}
	text, err := exec.CommandContext(ctx, c.penstock, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("penstock bootstrap: %w", err)
	}
	path := filepath.Join(p.dir, gateway+".yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	more := strings.Fields(strings.TrimPrefix(line, "# envoy arguments:"))
	return start(c.envoy, append([]string{"-c", path, "--log-level", "warning"}, more...)...)
}

// counts waits until the pool has some requests in flight, by the server and by the pickers.
func (p *phantoms) counts(ctx context.Context, want int) error {
	return eventually(ctx, func() error {
		counted, err := p.counted(ctx)
		if held := p.server.Held(); err == nil && (held != want || counted != want) {
			err = fmt.Errorf("the server holds %d, the pickers count %d, want %d", held, counted, want)
		}
		return err
	})
}

// counted is how many requests the pickers of all processes count.
func (p *phantoms) counted(ctx context.Context) (n int, err error) {
	for _, page := range p.pages {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		found := false
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(),
				`penstock_picker_in_flight_requests{pool="default/held"} `); ok {
				found = true
				v, err := strconv.Atoi(text)
				if err != nil {
					return 0, errors.Join(err, resp.Body.Close())
				}
				n += v
			}
		}
		if err := resp.Body.Close(); err != nil {
			return 0, err
		}
		if !found {
			return 0, errors.New(page + " has no requests in flight")
		}
	}
	return n, nil
}

// get sends a request on a connection of its own.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode == http.StatusOK {
		return err
	}
	return errors.New(resp.Status)
}
