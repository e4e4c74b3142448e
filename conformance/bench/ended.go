package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// endedObjects are three pools of equal servers: any, same, which keeps a prompt at its server by
// strategy chwbl, and full, which has room for one request and then spills to spare.
const endedObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: same}
spec:
  targetRef: {name: same}
  picker: {strategy: chwbl}
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: full}
spec:
  targetRef: {name: full}
  picker: {full: {inFlight: 1}}
  spill: [{name: spare}]
`

const endedPool = `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /%[1]s}}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: %[1]s}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: %[1]s}
spec: {selector: {matchLabels: {pool: %[1]s}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: %[1]s, labels: {pool: %[1]s}}
spec:
  servers: [%[2]s]
`

const (
	endedLagRequests, endedLagTakes   = 400, 4 * time.Millisecond
	endedSameRequests, endedSameTakes = 100, 20 * time.Millisecond
	endedFullRequests, endedFullTakes = 40, 4 * time.Millisecond
)

// measureEnded sends one request after the other to penstock up. It measures how long each counts
// after its end, and where those after it go.
func measureEnded(ctx context.Context, c config, out report) error {
	e := &ended{}
	defer e.close()
	stop, err := e.start(ctx, c)
	if err != nil {
		return err
	}
	defer stop()
	var lags []float64
	for range endedLagRequests {
		lag, err := e.lag(ctx)
		if err != nil {
			return err
		}
		lags = append(lags, milliseconds(lag))
	}
	out("ended_lag", "", percentile99(lags))
	out("ended_lag", "median", median(lags))
	left, err := e.elsewhere(ctx, "same", endedSameRequests)
	if err != nil {
		return err
	}
	out("ended_left", "", float64(left))
	spilled, err := e.elsewhere(ctx, "full", endedFullRequests)
	if err != nil {
		return err
	}
	out("ended_spilled", "", float64(spilled))
	return nil
}

// ended is penstock up with the pools of endedObjects.
type ended struct {
	plane   *plane
	gateway string
	servers []*http.Server
	client  http.Client
}

// server starts a model server that answers after a time with its own address.
func (e *ended) server(takes time.Duration) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address = l.Addr().String()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			time.Sleep(takes)
		}
		_, _ = io.WriteString(w, address)
	})}
	e.servers = append(e.servers, s)
	go func() { _ = s.Serve(l) }()
	return address, nil
}

func (e *ended) close() {
	for _, s := range e.servers {
		_ = s.Close()
	}
}

// start runs the process, and returns when all pools serve.
func (e *ended) start(ctx context.Context, c config) (stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	e.gateway = fmt.Sprintf("http://127.0.0.1:%d/", port)
	objects := fmt.Sprintf(endedObjects, port)
	pools := []struct {
		name    string
		servers int
		takes   time.Duration
	}{{"any", 1, endedLagTakes}, {"same", 3, endedSameTakes}, {"full", 1, endedFullTakes}, {"spare", 1, endedFullTakes}}
	for _, pool := range pools {
		var list []string
		for range pool.servers {
			address, err := e.server(pool.takes)
			if err != nil {
				return nil, err
			}
			_, port, _ := net.SplitHostPort(address)
			list = append(list, fmt.Sprintf("{address: 127.0.0.1, ports: [%s]}", port))
		}
		objects += fmt.Sprintf(endedPool, pool.name, strings.Join(list, ", "))
	}
	files, state, remove, err := folder(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(objects), 0o600)
	})
	if err != nil {
		return nil, err
	}
	if e.plane, err = startPlane(c, "up", files, state, "--concurrency", "1"); err != nil {
		remove()
		return nil, err
	}
	err = eventually(ctx, func() error {
		for _, pool := range pools {
			if _, err := e.ask(ctx, pool.name); err != nil {
				return errors.Join(err, e.plane.running())
			}
		}
		return nil
	})
	return func() { e.plane.stop(); remove() }, err
}

// ask sends the one request of this measurement to a pool, and returns the address of the server
// that has answered.
func (e *ended) ask(ctx context.Context, pool string) (by string, err error) {
	const question = `{"model":"m","messages":[{"role":"user","content":"The same question each time."}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.gateway+pool, strings.NewReader(question))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("pool %s answers %s: %s", pool, resp.Status, body)
	}
	return string(body), err
}

// lag is how long a request of pool any counts as in flight after its client has the whole answer:
// until the answer of the first page of its pick that has its end.
func (e *ended) lag(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	if _, err := e.ask(ctx, "any"); err != nil {
		return 0, err
	}
	end := time.Now()
	for {
		known, err := e.outcome(ctx, begin)
		if lag := time.Since(end); err != nil || known || lag > time.Second {
			return lag, err
		}
	}
}

// outcome reports whether the picker knows how the last request, which began after a moment, has
// ended.
func (e *ended) outcome(ctx context.Context, begin time.Time) (bool, error) {
	page, err := e.plane.open(ctx, "/debug/picks?pool=default/any&last=1")
	if err != nil {
		return false, err
	}
	defer func() { _ = page.Close() }()
	var found struct {
		Picks []struct {
			Time    time.Time
			Outcome struct{ Ended bool }
		}
	}
	if err := json.NewDecoder(page).Decode(&found); err != nil {
		return false, err
	}
	return len(found.Picks) > 0 && found.Picks[0].Outcome.Ended && found.Picks[0].Time.After(begin), nil
}

// elsewhere counts how many of n requests, one after the other, another server answers than the
// first one.
func (e *ended) elsewhere(ctx context.Context, pool string, n int) (others int, err error) {
	time.Sleep(100 * time.Millisecond) // the pool is idle
	var first string
	for i := range n {
		by, err := e.ask(ctx, pool)
		if err != nil {
			return 0, err
		}
		if i == 0 {
			first = by
		} else if by != first {
			others++
		}
	}
	return others, nil
}
