package features

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

func (s *site) raw(text string) (reply, error) {
	conn, err := net.Dial("tcp", s.address("gateway"))
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(process.Limit)); err != nil {
		return reply{}, err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return reply{}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body)}, err
}

// Clients are served if they offer an upgrade to another protocol, speak HTTP/1.0, or end the host
// with a dot.
func TestHTTP1_ClientsAreServedAsTheySpeak(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.backend("one", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-got", fmt.Sprintf("%s|%s|%s", r.Host, r.Header.Get("upgrade"), r.Header.Get("connection")))
		if strings.EqualFold(r.Header.Get("upgrade"), "websocket") {
			w.Header().Set("upgrade", "websocket")
			w.Header().Set("connection", "upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	}))
	s.up("http1.yaml")
	const host = "Host: llm.example.com\r\n"
	get := func(version string, headers ...string) string {
		return "GET /by HTTP/" + version + "\r\n" + strings.Join(headers, "") + "\r\n"
	}
	plain := "llm.example.com||"
	upgrade := func(to string) string {
		return get("1.1", host, "Connection: Upgrade, HTTP2-Settings, close\r\n", "Upgrade: "+to+"\r\n",
			"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n")
	}
	for name, c := range map[string]struct {
		send   string
		status int
		got    string
	}{
		"Apache HttpClient":     {upgrade("TLS/1.2"), 200, plain},
		"several TLS versions":  {upgrade("TLS/1.2, TLS/1.3"), 200, plain},
		"curl --http2":          {upgrade("h2c"), 200, plain},
		"h2c and TLS":           {upgrade("h2c, TLS/1.2"), 200, plain},
		"another protocol":      {upgrade("IRC/6.9"), 200, plain},
		"a prefix of websocket": {upgrade("websock"), 200, plain},
		"WebSocket": {get("1.1", host, "Connection: Upgrade\r\n", "Upgrade: WebSocket\r\n"), 101,
			"llm.example.com|WebSocket|Upgrade"},
		"HTTP/1.0":              {get("1.0", host), 200, plain},
		"HTTP/1.0 without Host": {get("1.0"), 400, ""},
		"HTTP/1.1 without Host": {get("1.1"), 400, ""},
		"a host with a dot":     {get("1.1", "Host: llm.example.com.\r\n", "Connection: close\r\n"), 200, plain},
		"a dot before the port": {get("1.1", "Host: llm.example.com.:80\r\n", "Connection: close\r\n"), 200,
			"llm.example.com:80||"},
		"HTTP/1.0, with the dot": {get("1.0", "Host: LLM.example.com.\r\n"), 200, "LLM.example.com||"},
		"two dots":               {get("1.1", "Host: llm.example.com..\r\n", "Connection: close\r\n"), 404, ""},
		"a URL of HTTPS":         {"GET https://llm.example.com/by HTTP/1.1\r\n" + host + "\r\n", 403, ""},
	} {
		got, err := s.raw(c.send)
		if err != nil || got.status != c.status || got.header.Get("x-got") != c.got {
			t.Errorf("%s: %d, the server has got %q, want %d %q: %v\n%s", name, got.status, got.header.Get("x-got"),
				c.status, c.got, err, c.send)
		}
		if why := got.header.Get("x-penstock-reason"); c.status == 403 && why != "bad_request" {
			t.Errorf(`%s: the reason is %q, want "bad_request"`, name, why)
		}
		if c.got == plain && got.header.Get("x-rule") != "host" {
			t.Errorf(`%s: the rule is %q, want "host"`, name, got.header.Get("x-rule"))
		}
	}
}

func TestHTTP10_IsRejectedWhereAFleetAsksForIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.backend("one", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.up("http1.yaml", swap("http10: Accept", "http10: Reject"))
	for version, want := range map[string]int{"1.0": 426, "1.1": 200} {
		got, err := s.raw("GET / HTTP/" + version + "\r\nHost: llm.example.com\r\nConnection: close\r\n\r\n")
		if err != nil || got.status != want {
			t.Errorf("HTTP/%s: %d, want %d: %v", version, got.status, want, err)
		}
	}
}
