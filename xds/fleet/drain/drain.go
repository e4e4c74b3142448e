package drain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Config configures a drain.
type Config struct {
	// Admin is the socket of Envoy's admin interface. Required.
	Admin string
	// With Stop, listeners reject connections at once, for Envoys without a load balancer.
	Stop bool
	// Timeout bounds the drain. Default: 10 min.
	Timeout time.Duration
	// Settle is how long Envoy accepts connections at least, so that all nodes and load balancers
	// remove the pod. Default: 10 s.
	Settle time.Duration
	// Quiet is how long to wait for requests on idle connections, which end only with a response.
	// Without Stop, the drain also waits until no datagram arrives for Quiet. Default: 5 s.
	Quiet time.Duration
	// Interval is the time between reads of the statistics. Default: 250 ms.
	Interval time.Duration
}

func (c Config) withDefaults() Config {
	c.Timeout, c.Settle = cmp.Or(c.Timeout, 10*time.Minute), cmp.Or(c.Settle, 10*time.Second)
	c.Quiet, c.Interval = cmp.Or(c.Quiet, 5*time.Second), cmp.Or(c.Interval, 250*time.Millisecond)
	return c
}

// Drain returns when nothing is in flight, or after Config.Timeout. left counts the requests and
// streams still in flight.
func Drain(ctx context.Context, c Config) (left int64, err error) {
	c = c.withDefaults()
	e := envoy{client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.Admin)
		},
	}}}
	defer e.client.CloseIdleConnections()
	actions := []string{"/healthcheck/fail"}
	if c.Stop {
		actions = append(actions, "/drain_listeners?inboundonly")
	}
	for _, path := range actions {
		if _, err := e.ask(ctx, http.MethodPost, path); err != nil {
			return 0, fmt.Errorf("drain: %w", err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
	defer cancel()
	begun := time.Now()
	busy := begun
	var received time.Time
	datagrams := int64(-1)
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for {
		w, err := e.work(ctx)
		now := time.Now()
		if err == nil {
			left = w.requests + w.streams
			if w.datagrams > datagrams && !c.Stop {
				received = now
			}
			datagrams = w.datagrams
		}
		switch {
		case err != nil || left > 0:
			busy = now
		case now.Sub(begun) >= c.Settle && (w.connections == 0 || now.Sub(busy) >= c.Quiet) &&
			now.Sub(received) >= c.Quiet:
			return 0, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if context.Cause(ctx) == errTimeout {
				return left, nil
			}
			return left, ctx.Err()
		}
	}
}

var errTimeout = fmt.Errorf("drain timeout")

type work struct {
	requests    int64
	connections int64
	streams     int64
	datagrams   int64 // -1: no listener for datagrams
}

type envoy struct{ client *http.Client }

func (e envoy) work(ctx context.Context) (work, error) {
	body, err := e.ask(ctx, http.MethodGet, `/stats?format=json&filter=downstream_((cx|rq)_active|sess_rx_datagrams)$`)
	if err != nil {
		return work{}, err
	}
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value int64  `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return work{}, fmt.Errorf("statistics of Envoy: %w", err)
	}
	w := work{datagrams: -1}
	all := int64(0)
	for _, s := range answer.Stats {
		parts := strings.Split(s.Name, ".")
		if len(parts) < 3 || parts[1] == "admin" || parts[1] == "ready" || strings.Contains(s.Name, ".worker_") {
			continue
		}
		switch last := parts[len(parts)-1]; {
		case parts[0] == "http" && last == "downstream_rq_active":
			w.requests += s.Value
		case parts[0] == "http" && last == "downstream_cx_active":
			w.connections += s.Value
		case parts[0] == "listener" && last == "downstream_cx_active":
			all += s.Value
		case parts[0] == "udp" && last == "downstream_sess_rx_datagrams":
			w.datagrams = max(w.datagrams, 0) + s.Value
		}
	}
	w.streams = max(0, all-w.connections)
	return w, nil
}

func (e envoy) ask(ctx context.Context, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://envoy"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("admin interface: %s: %s", path, resp.Status)
	}
	return body, err
}
