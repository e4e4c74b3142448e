package principals

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// clients are two clients of pool mine/mine, whose server echoes requests: a hostile client, and an
// honest one.
type clients struct {
	*run
	fields map[string]field
}

func newClients(t testing.TB) *clients {
	t.Helper()
	server := echoServer(t, "127.0.66.1")
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	c := &clients{fields: map[string]field{}}
	for _, f := range client.fields(t) {
		c.fields[f.path] = f
	}
	c.run = begin(t, start(t, map[string]string{"mine.yaml": poolOf("mine", "127.0.66.1", port)}), client)
	return c
}

func poolOf(name, address, port string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, namespace: mine}
spec:
  parentRefs: [{name: gw, namespace: infra, sectionName: http}]
  hostnames: [%[1]s.test]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: %[1]s}]}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: %[1]s, namespace: mine}
spec: {selector: {matchLabels: {app: %[1]s}}, targetPorts: [{number: %[3]s}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: %[1]s, namespace: mine, labels: {app: %[1]s}}
spec: {servers: [{address: %[2]s, ports: [%[3]s]}]}
---
`, name, address, port)
}

func (c *clients) play() {
	c.t.Helper()
	honest := func() error {
		s := c.rig.send("mine.test", nil, body)
		if s.status != http.StatusOK || !strings.Contains(s.body, `"Method"`) {
			return fmt.Errorf("got %d %.100s %v, want 200 with the request", s.status, s.body, s.err)
		}
		return nil
	}
	c.rig.Eventually("the pool is served", honest)
	end := c.rig.beside(honest)
	for _, tried := range c.cells() {
		headers, path, text := c.request(tried, "")
		plain, _, _ := c.request(tried, "the value is as it should be")
		base := c.rig.raw(path, plain, body, false)
		if base.status != http.StatusOK {
			c.t.Fatalf("%s: a request as it should be: %d %.200s %v", tried, base.status, base.body, base.err)
		}
		s := c.rig.raw(path, headers, text, tried.field == "header.content-length" && tried.value == maximum)
		c.judge(tried, base, s, text)
	}
	c.rig.settle("none.yaml", "")
	c.rig.harmless("the client's requests")
	end()
	c.end()
}

// request builds a request with the cell's value: headers in order, path and body. instead, unless
// empty, replaces a header's value.
func (c *clients) request(tried cell, instead string) (headers [][2]string, path, text string) {
	root, steps := split(tried.field)
	path, text = "/v1/chat/completions", body
	if root == "body" {
		path, text = c.body(tried, steps)
	}
	name := strings.TrimPrefix(tried.field, "header.")
	if instead != "" {
		text = body
	}
	set := map[string]string{
		"host": "mine.test", "content-type": "application/json", "content-length": fmt.Sprint(len(text)),
	}
	order := []string{"host", "content-type", "content-length"}
	if root == "header" && instead == "" {
		if _, known := set[name]; !known {
			order = append(order, name)
		}
		set[name] = c.header(tried, name)
	}
	for _, n := range order {
		headers = append(headers, [2]string{n, set[n]})
	}
	return headers, path, text
}

var numerals = map[value]string{
	negative: "-1", zero: "0", maximum: "9223372036854775807", overflow: "99999999999999999999999",
}

func (c *clients) header(tried cell, name string) string {
	if tried.value == anothersName {
		switch {
		case c.fields[tried.field].class == address:
			return c.rig.server.Listener.Addr().String()
		case name == "host":
			return victimHost
		case strings.HasPrefix(name, "x-penstock-"):
			return "victim/victim"
		case name == "cookie":
			return "x-session-id=victim"
		}
		return "victim"
	}
	if c.fields[tried.field].class == number {
		return numerals[tried.value]
	}
	return strings.Repeat("a", map[value]int{zero: 0, maximum: 4 << 10, overflow: 256 << 10}[tried.value])
}

func (c *clients) body(tried cell, steps []string) (path, text string) {
	path = "/v1/chat/completions"
	switch steps[0] {
	case "query", "documents":
		path = "/rerank"
	case "token_ids", "features", "sampling_params":
		path = "/inference/v1/generate"
	case "prompt":
		path = "/v1/completions"
	case "input", "instructions", "previous_response_id":
		path = "/v1/responses"
	}
	message := map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "hello"}}}
	v := map[string]any{"model": "mine", "messages": []any{message}}
	set(v, steps, c.member(tried))
	raw, _ := json.Marshal(v) // cannot fail: texts and numbers
	return path, string(raw)
}

func (c *clients) member(tried cell) any {
	n := map[value]int{zero: 0, maximum: 1 << 10, overflow: 64 << 10}[tried.value]
	switch c.fields[tried.field].class {
	case number:
		return json.Number(cmp.Or(map[value]string{overflow: "1e999"}[tried.value], numerals[tried.value]))
	case boolean:
		return tried.value == maximum
	case list:
		out := make([]any, n)
		for i := range out {
			out[i] = i
		}
		return out
	case mapping:
		out := map[string]any{}
		for i := range n {
			out[fmt.Sprint("k", i)] = i
		}
		return out
	}
	if tried.value == anothersName {
		return "victim"
	}
	return strings.Repeat("a", 16*n)
}

// raw sends a request unchanged, and reads the response. end closes the sending side after the
// request, which may announce a longer body.
func (r *rig) raw(path string, headers [][2]string, body string, end bool) (s seen) {
	conn, err := net.Dial("tcp", local(r.gateway["http"]))
	if err != nil {
		return seen{err: err}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // a request that hangs is an error
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\n", path)
	for _, h := range headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	b.WriteString("\r\n" + body)
	_, _ = io.WriteString(conn, b.String()) // fails if Envoy has already answered
	if end {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodPost})
	if err != nil {
		return seen{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	s.status, s.headers = resp.StatusCode, map[string]string{}
	for name, values := range resp.Header {
		s.headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	raw, err := io.ReadAll(resp.Body)
	s.body, s.err = string(raw), err
	return s
}

func (c *clients) judge(tried cell, base, s seen, text string) {
	c.t.Helper()
	var got echo
	served := s.status == http.StatusOK && json.Unmarshal([]byte(s.body), &got) == nil && got.Method != ""
	switch {
	case strings.Contains(s.body, victimReply) && tried.field != "header.host": // any client may send another host
		c.saw(tried, harmful, "the victim's server has answered")
	case served && strings.HasPrefix(tried.field, "body."):
		c.saw(tried, bounded, "the server gets it")
	case served && base.differs(s) == "":
		c.saw(tried, denied, "the server does not get it")
	case served, strings.Contains(s.body, victimReply):
		c.saw(tried, bounded, "the server gets it")
	case s.err != nil || s.status >= 400 && s.status < 500:
		c.saw(tried, denied, fmt.Sprintf("%d %.100s %v", s.status, s.body, s.err))
	default:
		c.saw(tried, silent, fmt.Sprintf("%d %.200s, reason %s", s.status, s.body, s.headers["x-penstock-reason"]))
	}
}
