package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// adminClient uses a Unix socket, because on a TCP port every user of the machine could end Envoy.
type adminClient struct {
	socket string
	http   *http.Client
}

func newAdminClient(socket string) *adminClient {
	dialer := &net.Dialer{}
	return &adminClient{socket: socket, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // an idle connection would delay the drain
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}}
}

func (a *adminClient) bootstrap() string {
	path, _ := json.Marshal(a.socket)
	return fmt.Sprintf("admin: {address: {pipe: {path: %s, mode: 384}}}", path) // 384 = 0600
}

// Admin calls Envoy's admin interface. If the status is not 200, the error quotes the body.
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
