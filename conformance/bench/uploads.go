package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/attacks"
)

// uploadsRequests is how many requests of another route are measured with, and as many without
// stalled uploads.
const uploadsRequests = 3000

// uploaded is a penstock up with a route that holds bodies for their model's name, and a route of
// another pool.
type uploaded struct {
	address string
	client  http.Client
	times   []time.Duration
	failed  int
}

// measureUploads sends requests, in turns, through an Envoy that has stalled uploads and through
// one that has none.
func measureUploads(ctx context.Context, c config, out report) error {
	if err := os.Setenv("ENVOY", c.envoy); err != nil {
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(uploadsServer))
	defer server.Close()
	attacked, calm := &uploaded{}, &uploaded{}
	for _, u := range []*uploaded{attacked, calm} {
		stop, err := u.start(ctx, c, strings.TrimPrefix(server.URL, "http://127.0.0.1:"))
		if err != nil {
			return err
		}
		defer stop()
	}
	for range uploadsRequests / 10 { // warms both
		attacked.request(ctx)
		calm.request(ctx)
	}
	calm.times = nil
	stalled := make(chan error, 1)
	var uploads *attacks.Uploads
	go func() {
		var err error
		uploads, err = attacks.Stall(ctx, attacked.address, "/by-model", 200, 32<<20)
		stalled <- err
	}()
	for sending := true; sending; {
		attacked.request(ctx)
		select {
		case err := <-stalled:
			if err != nil {
				return err
			}
			sending = false
		default:
		}
	}
	defer uploads.Close()
	out("attack_uploads", "sending", milliseconds(attacked.p99()))
	attacked.times = nil
	for range uploadsRequests {
		attacked.request(ctx)
		calm.request(ctx)
	}
	out("attack_uploads", "", float64(attacked.p99())/float64(calm.p99()))
	out("attack_uploads", "with", milliseconds(attacked.p99()))
	out("attack_uploads", "without", milliseconds(calm.p99()))
	out("attack_uploads", "failed", float64(attacked.failed))
	out("attack_uploads", "held", float64(200-uploads.Answered()))
	return nil
}

const uploadsObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: by-model}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /by-model}, headers: [{name: X-Gateway-Model-Name, value: m}]}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: large}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /other}}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: other}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: large}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: 8000}]}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: other}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: model, labels: {app: model}}
spec:
  servers: [{address: 127.0.0.1, ports: [%s]}]
`

// start runs the process, and returns when both routes serve.
func (u *uploaded) start(ctx context.Context, c config, server string) (stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	u.address = fmt.Sprintf("127.0.0.1:%d", port)
	files, state, remove, err := folder(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "all.yaml"), fmt.Appendf(nil, uploadsObjects, port, server), 0o600)
	})
	if err != nil {
		return nil, err
	}
	p, err := startPlane(c, "up", files, state, "--concurrency", "2")
	if err != nil {
		remove()
		return nil, err
	}
	err = eventually(ctx, func() error {
		return errors.Join(u.post(ctx, "/other"), u.post(ctx, "/by-model"), p.running())
	})
	return func() { p.stop(); remove() }, err
}

// request measures one request of the other route.
func (u *uploaded) request(ctx context.Context) {
	begin := time.Now()
	if err := u.post(ctx, "/other"); err != nil {
		u.failed++
		return
	}
	u.times = append(u.times, time.Since(begin))
}

func (u *uploaded) post(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+u.address+path,
		strings.NewReader(`{"model":"m"}`))
	if err != nil {
		return err
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode == http.StatusOK {
		return err
	}
	return errors.New(resp.Status)
}

// p99 is infinite in effect if no request succeeded.
func (u *uploaded) p99() time.Duration {
	if len(u.times) == 0 {
		return time.Hour
	}
	slices.Sort(u.times)
	return u.times[len(u.times)*99/100]
}

// uploadsServer is the model server.
func uploadsServer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		_, _ = fmt.Fprint(w, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n")
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
}
