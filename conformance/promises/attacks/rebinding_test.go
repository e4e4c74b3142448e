package attacks

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// browser fetches a page at a port of attacker.example, whose name resolves to 127.0.0.1. A script
// of that site can do this in a browser, because page and script have the same origin.
func (s *site) browser(port int, path string) (status int, body string) {
	s.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network,
				strings.Replace(address, "attacker.example", "127.0.0.1", 1))
		}}}
	_, number, _ := net.SplitHostPort(local(port))
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://attacker.example:"+number+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// With DNS rebinding, a web page that a user of this machine visits could read every object, and
// each pick's headers.
func TestAdmin_DNSRebindingReadsNothing(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{"/status", "/proxies", "/explain?url=http://localhost/v1/models",
		"/debug/picks?pool=default/chat", "/debug/pool?pool=default/chat", "/debug/store/gateways", "/metrics"} {
		if status, body := s.browser(s.http, path); status != http.StatusForbidden || strings.Contains(body, "chat") {
			t.Errorf("%s: got status %d: %.200s, want 403 without the pool's name", path, status, body)
		}
		if err := s.penstock.Answers("http://" + local(s.http) + path); err != nil {
			t.Errorf("%s for a user of this machine: %v", path, err)
		}
	}
}
