package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

type gateway struct {
	*plane
	files string
	port  int32
	url   string // ends with a slash
	close func()
}

const gatewayObject = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
`

// startGateway starts penstock up, and does not wait until it serves. Each object begins with
// "---".
func startGateway(c config, objects string, args ...string) (*gateway, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	files, state, remove, err := folder(func(dir string) error {
		text := fmt.Sprintf(gatewayObject, port) + objects
		return os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text), 0o600)
	})
	if err != nil {
		return nil, err
	}
	p, err := startPlane(c, "up", files, state, append([]string{"--concurrency", "1"}, args...)...)
	if err != nil {
		remove()
		return nil, err
	}
	return &gateway{plane: p, files: files, port: port, url: fmt.Sprintf("http://127.0.0.1:%d/", port),
		close: func() { p.stop(); remove() }}, nil
}

func (g *gateway) serves(ctx context.Context, check func() error) error {
	if err := eventually(ctx, func() error { return errors.Join(check(), g.Running()) }); err != nil {
		return fmt.Errorf("%w; its output:\n%s", err, g.output())
	}
	return nil
}

func poolObjects(name string, ports []int) string {
	var list []string
	for _, port := range ports {
		list = append(list, fmt.Sprintf("{address: 127.0.0.1, ports: [%d]}", port))
	}
	return fmt.Sprintf(`---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: %[1]s}
spec: {selector: {matchLabels: {app: %[1]s}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec: {servers: [%[2]s]}
`, name, strings.Join(list, ", "))
}

func policyObject(pool, spec string) string {
	return fmt.Sprintf(`---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: %[1]s}
spec: {targetRef: {name: %[1]s}, %[2]s}
`, pool, spec)
}

func routeObject(pool, match string) string {
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [%[2]s]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: %[1]s}]
`, pool, match)
}

func byPath(pool string) string { return fmt.Sprintf("{path: {value: /%s}}", pool) }

func startServers(c config, n int, args ...string) (servers []*program, ports []int, stop func(), err error) {
	stop = func() {
		for _, s := range servers {
			s.stop()
		}
	}
	for i := range n {
		port, err := freePort()
		if err != nil {
			stop()
			return nil, nil, nil, err
		}
		s, err := start(c.penstock, append([]string{"sim", "--listen", fmt.Sprint("127.0.0.1:", port), "--name",
			fmt.Sprint("server-", i), "--grace", "1ms"}, args...)...)
		if err != nil {
			stop()
			return nil, nil, nil, err
		}
		servers, ports = append(servers, s), append(ports, int(port))
	}
	return servers, ports, stop, nil
}

func freePort() (int32, error) {
	port, err := freeport.Find()
	return int32(port), err
}

func exchange(client *http.Client, req *http.Request) (header http.Header, body []byte, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	body, err = io.ReadAll(resp.Body)
	if resp.StatusCode >= http.StatusBadRequest {
		err = errors.Join(err, fmt.Errorf("%s: %s", resp.Status, body))
	}
	return resp.Header, body, errors.Join(err, resp.Body.Close())
}

func get(ctx context.Context, client *http.Client, url string) (header http.Header, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	return exchange(client, req)
}

func post(ctx context.Context, client *http.Client, url, body string) ([]byte, error) {
	req, err := jsonRequest(ctx, url, body)
	if err != nil {
		return nil, err
	}
	_, answer, err := exchange(client, req)
	return answer, err
}

func jsonRequest(ctx context.Context, url, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

const (
	chatPath = "v1/chat/completions"
	sameChat = `{"model":"sim-model","messages":[{"role":"user","content":"The same question each time."}]}`
)

type streamed struct {
	first time.Duration
	by    string // name of the simulated server
	err   error
}

// stream sends a streamed chat completion with the JSON members in fields, and calls begun at the
// first event.
func stream(ctx context.Context, url, fields string, begun func()) (s streamed) {
	req, err := jsonRequest(ctx, url+chatPath, `{"model": "sim-model", "stream": true, `+fields+`}`)
	if err != nil {
		return streamed{err: err}
	}
	sent := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return streamed{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	s.by = resp.Header.Get("x-served-by")
	if resp.StatusCode != http.StatusOK {
		s.err = errors.New(resp.Status)
		return s
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if s.first == 0 {
			s.first = time.Since(sent)
			if begun != nil {
				begun()
			}
		}
		if lines.Text() == "data: [DONE]" {
			_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is reused
			return s
		}
	}
	s.err = errors.Join(errors.New("cut"), lines.Err())
	return s
}
