package main

import (
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
	dir     string
	pages   []string // of metrics
	server  *holding.Server
	running []*process
}

const phantomsGateway = `---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %[1]s}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %[2]d, protocol: HTTP}]
`

const phantomsRoute = `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: held}
spec:
  parentRefs: [{name: victim}, {name: survivor}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: held}]}]
`

// phantomsHeld is how many requests each Envoy has in flight.
const phantomsHeld = 100

var ownConnection = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func measurePhantoms(ctx context.Context, c config, out report) error {
	dir, err := os.MkdirTemp("", "ph") // the path of a Unix socket must be short
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p := &phantoms{dir: dir, server: holding.Start(false)}
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer func() {
		cancel()
		clients.Wait()
		for _, r := range p.running {
			r.stop()
		}
		p.server.Close()
	}()
	victim, urls, err := p.start(ctx, c)
	if err != nil {
		return err
	}
	for _, url := range urls {
		for range phantomsHeld {
			clients.Go(func() { _, _, _ = get(ctx, ownConnection, url) }) // ends with ctx
		}
	}
	if err := p.holds(ctx, 2*phantomsHeld); err != nil {
		return err
	}
	if err := victim.cmd.Process.Kill(); err != nil {
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

// start runs the processes. It returns the Envoy to be killed, and the URLs of both.
func (p *phantoms) start(ctx context.Context, c config) (victim *process, urls []string, err error) {
	var ports [8]int32
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, nil, err
		}
	}
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	state := func(i int) string { return filepath.Join(p.dir, fmt.Sprint("state", i)) }
	ads := []string{"unix:" + filepath.Join(state(0), "xds.sock"), "unix:" + filepath.Join(state(1), "xds.sock")}
	server, err := strconv.Atoi(strings.TrimPrefix(p.server.Address(), "127.0.0.1:"))
	if err != nil {
		return nil, nil, err
	}
	objects := phantomsRoute + poolObjects("held", []int{server}) +
		policyObject("held", "picker: {full: {inFlight: 1000}}") +
		fmt.Sprintf(phantomsGateway, "victim", ports[6]) + fmt.Sprintf(phantomsGateway, "survivor", ports[7])
	files := filepath.Join(p.dir, "files")
	if err := errors.Join(os.Mkdir(files, 0o700),
		os.WriteFile(filepath.Join(files, "all.yaml"), []byte(objects), 0o600)); err != nil {
		return nil, nil, err
	}
	for i := range 2 {
		plane, err := start(c.penstock, "serve", "-f", files, "--state", state(i), "--picker", address(2+i), "--http",
			address(4+i), "--peers", strings.Join(ads, ","), "--picker-address", address(2)+","+address(3))
		if err != nil {
			return nil, nil, err
		}
		p.pages = append(p.pages, "http://"+address(4+i)+"/metrics")
		if err := p.answers(ctx, plane, "http://"+address(4+i)+"/readyz"); err != nil {
			return nil, nil, err
		}
	}
	for i, name := range []string{"victim", "survivor"} {
		envoy, err := p.envoy(ctx, c, name, ads)
		if err != nil {
			return nil, nil, err
		}
		url := "http://" + address(6+i) + "/"
		if err := p.answers(ctx, envoy, url+"v1/models"); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if urls = append(urls, url); i == 0 {
			victim = envoy
		}
	}
	return victim, urls, nil
}

func (p *phantoms) answers(ctx context.Context, r *process, url string) error {
	p.running = append(p.running, r)
	return eventually(ctx, func() error {
		_, _, err := get(ctx, ownConnection, url)
		return errors.Join(err, r.running())
	})
}

func (p *phantoms) envoy(ctx context.Context, c config, gateway string, xds []string) (*process, error) {
	text, err := exec.CommandContext(ctx, c.penstock, "bootstrap", "--gateway", "default/"+gateway, "--admin",
		"unix:"+filepath.Join(p.dir, gateway+".sock"), "--concurrency", "2", "--xds", xds[0], "--xds", xds[1]).Output()
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

// holds waits until the pool has some requests in flight, by the server and by the pickers.
func (p *phantoms) holds(ctx context.Context, want int) error {
	return eventually(ctx, func() error {
		counted, err := p.counted(ctx)
		if held := p.server.Held(); err == nil && (held != want || counted != want) {
			err = fmt.Errorf("the server holds %d, the pickers count %d, want %d", held, counted, want)
		}
		return err
	})
}

// counted returns how many requests in flight the pickers of all processes count.
func (p *phantoms) counted(ctx context.Context) (sum int, err error) {
	for _, url := range p.pages {
		_, page, err := get(ctx, http.DefaultClient, url)
		if err != nil {
			return 0, err
		}
		n, err := metric(page, `penstock_picker_in_flight_requests{pool="default/held"}`)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", url, err)
		}
		sum += int(n)
	}
	return sum, nil
}
