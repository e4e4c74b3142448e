package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

type podOf struct {
	name   string
	server *httptest.Server
	mu     sync.Mutex
	header http.Header
	host   string
	size   int
}

func newPod(t *testing.T, name string) *podOf {
	t.Helper()
	p := &podOf{name: name}
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	return p
}

// ServeHTTP echoes lines of an upgraded connection, begins an event stream, or sends a response.
func (p *podOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-served-by", p.name)
	if r.Header.Get("upgrade") != "" {
		p.echo(w)
		return
	}
	if r.Method != http.MethodPost { // a picker polls metrics pages
		w.WriteHeader(http.StatusNotFound)
		return
	}
	n, _ := io.Copy(io.Discard, r.Body)
	p.mu.Lock()
	p.header, p.host, p.size = r.Header, r.Host, int(n)
	p.mu.Unlock()
	if r.URL.Query().Has("stream") {
		w.Header().Set("content-type", "text/event-stream")
		_, _ = io.WriteString(w, "data: first\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the client closes the stream
		return
	}
	_, _ = io.WriteString(w, `{"choices": []}`)
}

func (p *podOf) echo(w http.ResponseWriter) {
	conn, both, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(both,
		"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nx-served-by: %s\r\n\r\n",
		p.name)
	_ = both.Flush()
	for {
		line, err := both.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = both.WriteString(line)
		_ = both.Flush()
	}
}

func (p *podOf) last() (header http.Header, host string, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.header, p.host, p.size
}

// across imports pool chat from two clusters: from east in EndpointMode, and from west's peer
// listener in ParentMode.
type across struct {
	*site
	port   int
	traces *spans
	pods   map[string]*podOf
}

func newAcross(t *testing.T) *across {
	t.Helper()
	a := &across{port: freePort(t), pods: map[string]*podOf{}}
	var collector string
	a.traces, collector = collect(t)
	start := func(files map[string]string, args ...string) *site {
		s := prepare(t, files, append(args, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)))...)
		s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
			"OTEL_BSP_SCHEDULE_DELAY=50")
		s.start()
		s.out.expect(t, "serves at")
		return s
	}
	a.site = start(map[string]string{
		"gateway.yaml": gatewayYAML("gw", a.port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": routeYAML("far", "/", toImport("chat")), "policy.yaml": fmt.Sprintf(leastLoad, "chat"),
	})
	for _, name := range []string{"east", "west"} {
		a.pods[name] = newPod(t, name)
		files := chatFiles(freePort(t), a.pods[name].server.Listener.Addr().String())
		files["set.yaml"], files["pool.yaml"] = clusterSetYAML(name), exportedPool(exportAnnotation)
		if name == "west" {
			files["set.yaml"], files["pool.yaml"] = withPeers(files["set.yaml"], freePort(t)),
				exportedPool(exportAnnotation+", inference.networking.x-k8s.io/export-mode: ParentMode")
		}
		a.join(start(files, "--picker", "127.0.0.1:"+fmt.Sprint(freePort(t))))
	}
	return a
}

// each calls do until both clusters have served. do returns the cluster that served.
func (a *across) each(t *testing.T, what string, do func(attempt int) (by string, err error)) {
	t.Helper()
	by, n := map[string]bool{}, 0
	eventually(t, what+" in both clusters", func() error {
		n++
		name, err := do(n)
		if err != nil {
			return err
		}
		if by[name] = true; !by["east"] || !by["west"] {
			return fmt.Errorf("served by %v, want east and west; status:\n%s", by, a.penstock("status"))
		}
		return nil
	})
}

// In both modes, spans are one trace, and the model server receives the client's request ID and
// host, and no header of Penstock.
func TestTracing_RequestAcrossClustersIsOneTrace(t *testing.T) {
	t.Parallel()
	a := newAcross(t)
	a.each(t, "a first request is served", func(int) (string, error) {
		got, err := chat(t.Context(), local(a.port))
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("got %d %s, want 200", got.status, got.body)
		}
		return got.header.Get("x-served-by"), err
	})
	const parent = "00f067aa0ba902b7"
	traces := map[string]string{}
	a.each(t, "a request is served", func(n int) (string, error) {
		id := fmt.Sprintf("4bf92f3577b34da6a3ce929d%08x", n)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, local(a.port)+"/v1/chat/completions",
			strings.NewReader(strings.Replace(question, "repeat", fmt.Sprint("repeat ", n), 1)))
		if err != nil {
			return "", err
		}
		req.Host = "models.example.com"
		req.Header.Set("traceparent", "00-"+id+"-"+parent+"-01")
		got, err := do(client(), req)
		if err != nil || got.status != http.StatusOK {
			return "", fmt.Errorf("got %d %s %v, want 200", got.status, got.body, err)
		}
		by := got.header.Get("x-served-by")
		traces[by] = id
		header, host, _ := a.pods[by].last()
		// Envoy writes an address of this machine instead of the loopback address.
		if forwarded := header.Get("x-forwarded-for"); header.Get("x-request-id") != got.header.Get("x-request-id") ||
			got.header.Get("x-request-id") == "" || host != "models.example.com" || forwarded == "" ||
			strings.Contains(forwarded, ",") {
			t.Errorf("the server of %s sees request ID %q, host %q, client %q; the client sees ID %q, want one ID, "+
				"models.example.com, one client", by, header.Get("x-request-id"), host, forwarded,
				got.header.Get("x-request-id"))
		}
		for name := range header {
			if strings.HasPrefix(strings.ToLower(name), "penstock-peer-") ||
				strings.HasPrefix(strings.ToLower(name), "x-penstock-") {
				t.Errorf("the server of %s sees %s, want it removed", by, name)
			}
		}
		return by, nil
	})
	for by, id := range traces {
		eventually(t, "the trace of a request that "+by+" has served is whole", func() error {
			var mine []span
			for _, sp := range a.traces.all() {
				if fmt.Sprintf("%x", sp.TraceId) == id {
					mine = append(mine, sp)
				}
			}
			known, picks := map[string]bool{parent: true}, map[string]bool{}
			for _, sp := range mine {
				known[fmt.Sprintf("%x", sp.SpanId)] = true
				if strings.HasPrefix(sp.Name, "pick") {
					for _, pool := range []string{"default/chat@\"", "default/chat\""} {
						if strings.Contains(fmt.Sprint(sp.Attributes), pool) {
							picks[pool] = true
						}
					}
				}
			}
			for _, sp := range mine {
				if !known[fmt.Sprintf("%x", sp.ParentSpanId)] {
					return fmt.Errorf("span %s has a parent that is not in the trace, want one of %q", sp.Name,
						names(mine))
				}
			}
			if len(picks) != 2 {
				return fmt.Errorf("picks from %v, want one among the clusters and one in the cluster: %q", picks,
					names(mine))
			}
			return nil
		})
	}
}

func TestInferencePoolImport_StreamsAndLargeBodiesReachOtherClusters(t *testing.T) {
	t.Parallel()
	a := newAcross(t)
	answers(t, local(a.port), http.StatusOK)

	a.each(t, "an event arrives before the stream ends", func(int) (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, local(a.port)+"/v1/chat/completions?stream=1",
			strings.NewReader(question))
		if err != nil {
			return "", err
		}
		resp, err := client().Do(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		if line != "data: first\n" {
			return "", fmt.Errorf("got %d %q %w, want data: first", resp.StatusCode, line, err)
		}
		return resp.Header.Get("x-served-by"), nil
	})

	a.each(t, "an upgraded connection echoes", func(int) (string, error) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", a.port))
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(pollTimeout))
		if _, err := io.WriteString(conn,
			"GET /v1/realtime HTTP/1.1\r\nhost: models.example.com\r\nconnection: upgrade\r\nupgrade: "+
				"websocket\r\n\r\n"); err != nil {
			return "", err
		}
		from := bufio.NewReader(conn)
		resp, err := http.ReadResponse(from, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			return "", fmt.Errorf("got %v %w, want 101", resp, err)
		}
		for _, line := range []string{"one\n", "two\n"} {
			if _, err := io.WriteString(conn, line); err != nil {
				return "", err
			}
			if got, err := from.ReadString('\n'); got != line {
				return "", fmt.Errorf("%q comes back as %q, want it unchanged: %w", line, got, err)
			}
		}
		return resp.Header.Get("x-served-by"), nil
	})

	for _, size := range []int{1 << 20, 31 << 20} {
		a.each(t, fmt.Sprintf("a body of %d bytes arrives", size), func(n int) (string, error) {
			body := strings.Replace(question, "repeat this",
				strings.Repeat(fmt.Sprint("x", n), size/len(fmt.Sprint("x", n))), 1)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, local(a.port)+"/v1/chat/completions",
				strings.NewReader(body))
			if err != nil {
				return "", err
			}
			got, err := do(client(), req)
			if err != nil || got.status != http.StatusOK {
				return "", fmt.Errorf("got %d %s %w, want 200", got.status, got.body, err)
			}
			by := got.header.Get("x-served-by")
			if _, _, arrived := a.pods[by].last(); arrived != len(body) {
				t.Errorf("%d of %d bytes arrive in %s", arrived, len(body), by)
			}
			return by, nil
		})
	}
}
