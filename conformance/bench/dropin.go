package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"text/template"
	"time"
)

const (
	dropinClients = 8
	dropinRounds  = 2 // in each, both pickers are replaced, one after the other
)

//go:embed dropin.yaml.tmpl
var dropinEnvoy string

//go:embed llm-d-plugins.yaml
var dropinPlugins []byte

// dropin are two penstock picker with the arguments and the file of llm-d's EPP, behind an Envoy
// with nothing of Penstock.
type dropin struct {
	Port    int32
	Pickers []dropinPicker
	dir     string
	c       config
}

type dropinPicker struct {
	Port, Health, Metrics int32
	process               *process
}

func measureDropin(ctx context.Context, c config, out report) error {
	var ports []int // picks.Models do not read chunked bodies, which this mode of ext_proc sends
	for range pickModels {
		model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "ok")
		}))
		defer model.Close()
		ports = append(ports, model.Listener.Addr().(*net.TCPAddr).Port)
	}
	d := &dropin{c: c, Pickers: make([]dropinPicker, 2)}
	var err error
	if d.dir, err = os.MkdirTemp("", "penstock-bench"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(d.dir) }()
	defer d.stop()
	for name, text := range map[string]string{
		"objects/pool.yaml": poolObjects("pool", ports), "plugins.yaml": string(dropinPlugins),
	} {
		path := filepath.Join(d.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	free := []*int32{&d.Port}
	for i := range d.Pickers {
		free = append(free, &d.Pickers[i].Port, &d.Pickers[i].Health, &d.Pickers[i].Metrics)
	}
	for _, port := range free {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	for i := range d.Pickers {
		if err := d.start(ctx, i); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := template.Must(template.New("envoy").Parse(dropinEnvoy)).Execute(&text, d); err != nil {
		return err
	}
	envoy, stop, err := startEnvoy(c, text.Bytes())
	if err != nil {
		return err
	}
	defer stop()
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

// start starts a picker and waits until it is ready. It has the flags of llm-d's chart, except for
// addresses and objects.
func (d *dropin) start(ctx context.Context, i int) (err error) {
	p := &d.Pickers[i]
	p.process, err = start(d.c.penstock, "--pool-name", "pool", "--pool-namespace", "default", "--pool-group",
		"inference.networking.k8s.io", "--zap-encoder", "json",
		"--config-file", filepath.Join(d.dir, "plugins.yaml"), "--ha-enable-leader-election", "--tracing=false",
		"--metrics-endpoint-auth=false", "--drain-timeout", "2s",
		"--grpc-port", fmt.Sprint(p.Port), "--grpc-health-port", fmt.Sprint(p.Health), "--metrics-port",
		fmt.Sprint(p.Metrics),
		"--bind-address", "127.0.0.1", "-f", filepath.Join(d.dir, "objects"), "--state",
		filepath.Join(d.dir, fmt.Sprint("state-", i)))
	if err != nil {
		return err
	}
	return eventually(ctx, func() error {
		_, _, err := get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/readyz", p.Metrics))
		return errors.Join(err, p.process.running())
	})
}

func (d *dropin) stop() {
	for _, p := range d.Pickers {
		if p.process != nil {
			p.process.stop()
		}
	}
}

func (d *dropin) request(ctx context.Context, n int) error {
	_, err := post(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/%s", d.Port, chatPath),
		fmt.Sprintf(`{"model": "m", "messages": [{"role": "user", "content": "question %d"}]}`, n))
	return err
}
