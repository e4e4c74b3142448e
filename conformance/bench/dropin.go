package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"
	"time"
)

const (
	dropinClients = 8
	dropinRounds  = 2 // in each of which both pickers are replaced, one after the other
	dropinDrain   = "2s"
)

//go:embed dropin.yaml.tmpl
var dropinEnvoy string

//go:embed llm-d-plugins.yaml
var dropinPlugins []byte

// dropin are two penstock picker with the arguments and the file of llm-d's EPP, behind an Envoy
// with nothing of Penstock.
type dropin struct {
	Port    int
	Pickers []dropinPicker
	dir     string
	c       config
}

type dropinPicker struct {
	Port, Health, Metrics int
	process               *process
}

// measureDropin replaces the pickers one after the other while clients send, as a rollout does.
func measureDropin(ctx context.Context, c config, out report) error {
	var models []netip.AddrPort // picks.Models read no chunked bodies, which this mode of ext_proc makes
	for range pickModels {
		model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "ok")
		}))
		defer model.Close()
		models = append(models, netip.MustParseAddrPort(model.Listener.Addr().String()))
	}
	d := &dropin{c: c, Pickers: make([]dropinPicker, 2)}
	var err error
	if d.dir, err = os.MkdirTemp("", "penstock-bench"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(d.dir) }()
	defer d.stop()
	objects :=
		"apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: pool, namespace: " +
			"default}\nspec:\n  selector: {matchLabels: {app: pool}}\n  targetPorts: [{number: 8000}]\n" +
			"  endpointPickerRef: {name: epp, port: {number: 9002}}\n---\napiVersion: penstock.dev/v1alpha1\nkind: " +
			"ModelServers\nmetadata: {name: pool, namespace: default, labels: {app: pool}}\nspec:\n  servers:\n"
	for _, a := range models {
		objects += fmt.Sprintf("  - {address: %s, ports: [%d]}\n", a.Addr(), a.Port())
	}
	for name, text := range map[string][]byte{"objects/pool.yaml": []byte(objects), "plugins.yaml": dropinPlugins} {
		path := filepath.Join(d.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
			return err
		}
	}
	ports := []*int{&d.Port}
	for i := range d.Pickers {
		ports = append(ports, &d.Pickers[i].Port, &d.Pickers[i].Health, &d.Pickers[i].Metrics)
	}
	for _, p := range ports {
		port, err := freePort()
		if err != nil {
			return err
		}
		*p = int(port)
	}
	for i := range d.Pickers {
		if err := d.start(ctx, i); err != nil {
			return err
		}
	}
	envoy, err := d.envoy()
	if err != nil {
		return err
	}
	defer envoy.stop()
	if err := eventually(ctx, func() error { return errors.Join(d.request(ctx, 0), envoy.running()) }); err != nil {
		return err
	}
	failed, sent, err := d.roll(ctx)
	if err != nil {
		return err
	}
	out("dropin_failed", "", float64(failed))
	out("dropin_failed", "of", float64(sent))
	return nil
}

// roll sends until both pickers have been replaced.
func (d *dropin) roll(ctx context.Context) (failed, sent int64, err error) {
	sending, end := context.WithCancel(ctx)
	var clients sync.WaitGroup
	var bad, all atomic.Int64
	for client := range dropinClients {
		clients.Go(func() {
			for n := client; sending.Err() == nil; n += dropinClients {
				err := d.request(ctx, n)
				all.Add(1)
				if err != nil {
					if bad.Add(1) < 5 {
						fmt.Fprintln(os.Stderr, "bench: dropin:", err)
					}
				}
			}
		})
	}
	defer func() {
		end()
		clients.Wait()
		failed, sent = bad.Load(), all.Load()
	}()
	for range dropinRounds {
		for i := range d.Pickers {
			d.Pickers[i].process.stop()
			if err := d.start(ctx, i); err != nil {
				return 0, 0, err
			}
			time.Sleep(time.Second) // a rollout waits for readiness, and Envoy for a health check
		}
	}
	return 0, 0, nil
}

// start starts a picker and waits until it is ready. Its flags are those of llm-d's chart, but for
// addresses and objects.
func (d *dropin) start(ctx context.Context, i int) (err error) {
	p := &d.Pickers[i]
	p.process, err = start(d.c.penstock, "--pool-name", "pool", "--pool-namespace", "default", "--pool-group",
		"inference.networking.k8s.io", "--zap-encoder", "json",
		"--config-file", filepath.Join(d.dir, "plugins.yaml"), "--ha-enable-leader-election", "--tracing=false",
		"--metrics-endpoint-auth=false", "--drain-timeout", dropinDrain,
		"--grpc-port", fmt.Sprint(p.Port), "--grpc-health-port", fmt.Sprint(p.Health), "--metrics-port",
		fmt.Sprint(p.Metrics),
		"--bind-address", "127.0.0.1", "-f", filepath.Join(d.dir, "objects"), "--state",
		filepath.Join(d.dir, fmt.Sprint("state-", i)))
	if err != nil {
		return err
	}
	return eventually(ctx, func() error {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", p.Metrics))
		if err != nil {
			return errors.Join(err, p.process.running())
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", resp.Status)
		}
		return nil
	})
}

func (d *dropin) stop() {
	for _, p := range d.Pickers {
		if p.process != nil {
			p.process.stop()
		}
	}
}

func (d *dropin) envoy() (*process, error) {
	tmpl, err := template.New("envoy").Parse(dropinEnvoy)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := tmpl.Execute(&text, d); err != nil {
		return nil, err
	}
	file := filepath.Join(d.dir, "envoy.yaml")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return start(d.c.envoy, "-c", file, "--concurrency", "1", "--log-level", "warn", "--use-dynamic-base-id")
}

// request sends a chat completion.
func (d *dropin) request(ctx context.Context, n int) error {
	body := fmt.Sprintf(`{"model": "m", "messages": [{"role": "user", "content": "question %d"}]}`, n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("http://127.0.0.1:%d/v1/chat/completions", d.Port), strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("content-type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}
