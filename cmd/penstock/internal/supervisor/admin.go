package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"time"
)

// adminClient calls Envoy's admin interface over a Unix socket. A port would be open to every user of the machine, and the
// interface can end the process.
type adminClient struct {
	socket string
	http   *http.Client
}

func newAdminClient(socket string) *adminClient {
	dialer := &net.Dialer{}
	return &adminClient{socket: socket, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // an idle connection would count as one to drain
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}}
}

// bootstrap returns the part of Envoy's configuration that opens the interface, in the form of --config-yaml.
func (a *adminClient) bootstrap() string {
	path, _ := json.Marshal(a.socket)                                           // a string always marshals, and JSON is YAML
	return fmt.Sprintf("admin: {address: {pipe: {path: %s, mode: 384}}}", path) // 384 = 0600
}

// Admin calls Envoy's admin interface, for example Admin(ctx, "GET", "/ready"), and returns the response's body. Any status
// but 200 is an error that quotes the body. While no process runs, dialing fails.
func (e *Envoy) Admin(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://envoy"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := e.admin.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("Envoy admin: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("Envoy admin %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("Envoy admin %s: %s: %.200s", path, resp.Status, body)
	}
	return body, nil
}

// drain makes Envoy close connections with their next responses, and waits until no request is in flight. The listeners stay
// open meanwhile: requests in flight may still need the internal ones, to spill to another pool.
func (e *Envoy) drain(ctx context.Context, child *child) error {
	for _, path := range []string{"/healthcheck/fail", "/drain_listeners?graceful&skip_exit"} {
		if _, err := e.Admin(ctx, http.MethodPost, path); err != nil {
			return err
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for open := 0; ; {
		now, err := e.openRequests(ctx)
		switch {
		case ctx.Err() != nil && open > 0: // between two calls, or during one
			return fmt.Errorf("%d requests in flight after the grace period", open)
		case err != nil:
			return err
		case now == 0:
			return nil
		}
		open = now
		select {
		case <-tick.C:
		case <-child.ended:
			return os.ErrProcessDone
		case <-ctx.Done():
		}
	}
}

// openGauge matches each connection manager's number of requests in flight. The admin interface has one too, which counts
// this call.
var openGauge = regexp.MustCompile(`(?m)^http\.(.+)\.downstream_rq_active: (\d+)$`)

func (e *Envoy) openRequests(ctx context.Context) (int, error) {
	body, err := e.Admin(ctx, http.MethodGet, "/stats?filter="+`^http\..*\.downstream_rq_active$`)
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, match := range openGauge.FindAllSubmatch(body, -1) {
		var n int
		if string(match[1]) == "admin" {
			continue
		}
		if _, err := fmt.Sscan(string(match[2]), &n); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
