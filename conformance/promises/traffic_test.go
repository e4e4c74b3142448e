//go:build lab && linux

package promises

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// chat is a Service and an InferencePool of the same simulated servers, and an HTTPRoute of Gateway
// gw to both.
const chat = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
      - name: server
        image: ghcr.io/penstock-project/penstock:0.1.0
        args: [sim, --port=8000, --name=$(POD_NAME), --time-to-first-token=20ms, --inter-token-latency=1s]
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: chat}
spec:
  selector: {app: chat}
  ports: [{port: 80, targetPort: 8000}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec: {targetRef: {name: chat}, picker: {failureMode: FailClose}} # a lost pick is a lost request
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /v1}}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]
  - backendRefs: [{name: chat, port: 80}]
`

// prompt requests an answer of some words, which these slow servers send at one a second.
const prompt = `{"model": "sim-model", "max_tokens": %d, "stream": %t, "messages": [{"role": "user", "content": "one two three four five six seven eight nine ten"}]}`

// fetch makes a request and reads the whole response, whose status must be 200. fresh means a new
// connection.
func fetch(ctx context.Context, method, url, body string, fresh bool) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Close = fresh
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("after %d bytes: %w", len(answer), err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("got %s: %s, want 200", resp.Status, bytes.TrimSpace(answer))
	}
	return nil
}

type traffic struct {
	stop         context.CancelFunc
	running      sync.WaitGroup
	sent, failed atomic.Int64
	first        atomic.Pointer[string]
}

// load sends requests until end, on new and on persistent connections: to the Service (/health), to
// the pool (/v1/models, which the picker answers, and embeddings, which need a pick), and streamed
// answers one after another. If paths are given, load only sends requests to these paths.
func (p place) load(address string, paths ...string) *traffic {
	p.Helper()
	words := len(paths) == 0
	if words {
		paths = []string{"/health", "/v1/models"}
	}
	for _, path := range paths {
		p.answers("http://" + address + path)
	}
	ctx, stop := context.WithCancel(p.Context())
	t := &traffic{stop: stop}
	p.Cleanup(func() { stop(); t.running.Wait() })
	each := func(pause time.Duration, ask func(context.Context) error) {
		t.running.Go(func() {
			for ctx.Err() == nil {
				t.sent.Add(1)
				if err := ask(context.WithoutCancel(ctx)); err != nil {
					text := fmt.Sprintf("%s: %v", time.Now().Format(time.TimeOnly), err)
					t.first.CompareAndSwap(nil, &text)
					t.failed.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	for _, fresh := range []bool{true, false} {
		for _, path := range paths {
			each(20*time.Millisecond, func(ctx context.Context) error {
				return fetch(ctx, http.MethodGet, "http://"+address+path, "", fresh)
			})
		}
		if !words {
			continue
		}
		each(20*time.Millisecond, func(ctx context.Context) error {
			return fetch(ctx, http.MethodPost, "http://"+address+"/v1/embeddings",
				`{"model": "sim-model", "input": "one two three"}`, fresh)
		})
		each(0, func(ctx context.Context) error {
			return fetch(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions", fmt.Sprintf(prompt, 6, true),
				fresh)
		})
	}
	return t
}

func (p place) end(t *traffic) {
	p.Helper()
	t.stop()
	t.running.Wait()
	if n := t.failed.Load(); n > 0 {
		p.Errorf("%d of %d requests failed, first: %s, want 0", n, t.sent.Load(), *t.first.Load())
	}
	if t.sent.Load() == 0 {
		p.Error(errors.New("no request was sent"))
	}
}
