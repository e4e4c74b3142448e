package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// lineServer answers each line with the name in front. With a certificate, it uses TLS and adds the
// client's server name.
func lineServer(t *testing.T, name string, cert *tls.Certificate) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			serving.Go(func() {
				defer c.Close()
				greeting := name
				if cert != nil {
					secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*cert}})
					if secure.Handshake() != nil {
						return
					}
					c, greeting = secure, name+" "+secure.ConnectionState().ServerName
				}
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					if _, err := fmt.Fprintf(c, "%s: %s\n", greeting, lines.Text()); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return l.Addr().String()
}

type line struct {
	net.Conn
	answers *bufio.Reader
}

// connect connects to a local port. With roots it uses TLS, and name as the server name.
func connect(ctx context.Context, port int, roots *x509.CertPool, name string) (*line, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(pollTimeout)); err != nil {
		return nil, err
	}
	if roots != nil {
		secure := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: name})
		if err := secure.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, err
		}
		c = secure
	}
	return &line{c, bufio.NewReader(c)}, nil
}

func (l *line) send(text string) (string, error) {
	if _, err := fmt.Fprintln(l, text); err != nil {
		return "", err
	}
	answer, err := l.answers.ReadString('\n')
	return strings.TrimSpace(answer), err
}

func askOnce(ctx context.Context, port int, roots *x509.CertPool, name string) (string, error) {
	c, err := connect(ctx, port, roots, name)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.send("hello")
}

func keepConnecting(t *testing.T, port int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	tried, failed := 0, []error{}
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := askOnce(ctx, port, nil, "")
				mu.Lock()
				if tried++; err != nil && ctx.Err() == nil {
					failed = append(failed, err)
				}
				mu.Unlock()
			}
		})
	}
	return func() {
		t.Helper()
		cancel()
		all.Wait()
		if len(failed) > 0 || tried == 0 {
			t.Errorf("%d of %d connections failed, want none, and some tried: %v", len(failed), tried,
				errors.Join(failed[:min(3, len(failed))]...))
		}
	}
}

func streamRoute(kind, name, parent, hostnames, backends string) string {
	if hostnames != "" {
		hostnames = "\n  hostnames: [" + hostnames + "]"
	}
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: %s
metadata: {name: %s}
spec:
  parentRefs: [%s]%s
  rules:
  - backendRefs: [%s]
---
`, kind, name, parent, hostnames, backends)
}

// tlsFiles returns a Gateway with a listener of each TLS mode at one port, and what these need.
func tlsFiles(t *testing.T, port int) (files map[string]string, roots *x509.CertPool) {
	t.Helper()
	names := []string{"through.example.com", "ends.example.com", "again.example.com", "web.example.com"}
	roots = x509.NewCertPool()
	files = map[string]string{}
	pairs := map[string]tls.Certificate{}
	for _, name := range names {
		cert, key := certificate(t, name)
		roots.AppendCertsFromPEM(cert)
		short, _, _ := strings.Cut(name, ".")
		files[short+"-cert.yaml"] = secretYAML(short, cert, key)
		if short == "again" {
			files["policy.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ca}\ndata:\n  ca.crt: |\n    " +
				strings.ReplaceAll(string(cert), "\n", "\n    ") + `
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: again}
spec:
  targetRefs: [{group: "", kind: Service, name: again}, {group: "", kind: Service, name: secret}]
  validation: {hostname: again.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}
`
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		pairs[name] = pair
	}
	secret, again := pairs["through.example.com"], pairs["again.example.com"]
	files["gateway.yaml"] = fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners:
  - {name: web, port: %[1]d, protocol: HTTPS, tls: {certificateRefs: [{name: web}]}}
  - {name: through, port: %[1]d, protocol: TLS, hostname: through.example.com, tls: {mode: Passthrough}}
  - {name: ends, port: %[1]d, protocol: TLS, hostname: ends.example.com, tls: {mode: Terminate, certificateRefs: [{name: ends}]}}
  - {name: again, port: %[1]d, protocol: TLS, hostname: again.example.com, tls: {mode: Terminate, certificateRefs: [{name: again}]}}
  - {name: empty, port: %[1]d, protocol: TLS, hostname: "*.empty.example.com", tls: {mode: Passthrough}}
`, port)
	files["services.yaml"] = serviceYAML("plain", lineServer(t, "plain", nil)) +
		serviceYAML("secret", lineServer(t, "secret", &secret)) + serviceYAML("again", lineServer(t, "again", &again)) +
		serviceYAML("web", serverNamed(t, "web"))
	files["routes.yaml"] = streamRoute("TLSRoute", "through", "{name: gw}", "through.example.com",
		"{name: secret, port: 80}") +
		streamRoute("TLSRoute", "ends", "{name: gw, sectionName: ends}", "'*.example.com'", "{name: plain, port: 80}") +
		streamRoute("TCPRoute", "again", "{name: gw, sectionName: again}", "", "{name: again, port: 80}") +
		streamRoute("TLSRoute", "nowhere", "{name: gw}", "gone.empty.example.com", "{name: missing, port: 80}") +
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web}\nspec:\n  parentRefs: " +
		"[{name: gw}]\n  rules: [{backendRefs: [{name: web, port: 80}]}]\n"
	return files, roots
}

func TestTLSRoute_PassthroughTerminateAndReencryptBesideHTTPS(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files, roots := tlsFiles(t, port)
	s := up(t, files)

	for name, want := range map[string]string{
		"through.example.com": "secret through.example.com: hello", // BackendTLSPolicy has no effect on passthrough
		"ends.example.com":    "plain: hello",
		"again.example.com":   "again again.example.com: hello", // a BackendTLSPolicy encrypts again
	} {
		eventually(t, name+" is served", func() error { // secrets may arrive after the listener
			got, err := askOnce(t.Context(), port, roots, name)
			if err == nil && got != want {
				err = fmt.Errorf("got %q, want %q", got, want)
			}
			return err
		})
	}
	if got, err := over(t.Context(), roots, port, "web.example.com", "web.example.com"); err != nil ||
		got.status != 200 {
		t.Errorf("HTTPS beside it: %d %v, want 200", got.status, err)
	}
	// On an HTTPS connection for web, a request for a passthrough host gets 421.
	if got, err := over(t.Context(), roots, port, "web.example.com", "through.example.com"); err != nil ||
		got.status != 421 {
		t.Errorf("HTTPS for a name of the TLS listener: %d %v, want 421", got.status, err)
	}
	for _, name := range []string{"gone.empty.example.com", "other.empty.example.com"} {
		c, err := connect(t.Context(), port, roots, name)
		if err == nil {
			c.Close()
			t.Errorf("%s is served, want it closed", name)
		} else if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: got %v, want it closed", name, err)
		}
	}
	if out := s.penstock("explain", "tls://through.example.com:"+fmt.Sprint(port)); !strings.Contains(out,
		"TLSRoute default/through") {
		t.Errorf("explain: got\n%s\nwant TLSRoute default/through", out)
	}
}

// divides expects a 3:1 split between backends a and b at port. At halfGone, half of the backends
// do not exist.
func divides(t *testing.T, port, halfGone int) {
	t.Helper()
	counts := map[string]int{}
	for range 400 {
		got, err := askOnce(t.Context(), port, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		counts[got]++
	}
	// The expected value is 300, the standard deviation 9.
	if a := counts["a: hello"]; a < 240 || a > 360 || counts["b: hello"] != 400-a {
		t.Errorf("connections by backend: got %v, want 240 to 360 of 400 for a, the others for b", counts)
	}
	closed := 0
	for range 200 {
		if _, err := askOnce(t.Context(), halfGone, nil, ""); err != nil {
			closed++
		}
	}
	if closed < 60 || closed > 140 {
		t.Errorf("of 200 connections %d were closed, want 60 to 140: half of the route's backends do not exist", closed)
	}
}

func TestTCPRoute_SplitsByWeightAndKeepsConnections(t *testing.T) {
	t.Parallel()
	port, halfGone := freePort(t), freePort(t)
	route := func(backends string) string {
		return streamRoute("TCPRoute", "db", "{name: gw, port: "+fmt.Sprint(port)+"}", "", backends)
	}
	s := up(t, map[string]string{
		"gateway.yaml": fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners:
  - {name: db, port: %d, protocol: TCP}
  - {name: half-gone, port: %d, protocol: TCP}
`, port, halfGone),
		"services.yaml": serviceYAML("a", lineServer(t, "a", nil)) + serviceYAML("b", lineServer(t, "b", nil)),
		"db.yaml":       route("{name: a, port: 80, weight: 3}, {name: b, port: 80, weight: 1}"),
		"half.yaml": streamRoute("TCPRoute", "half", "{name: gw, sectionName: half-gone}", "",
			"{name: a, port: 80}, {name: missing, port: 80}"),
	})
	s.out.expect(t, fmt.Sprintf("tcp://127.0.0.1:%d", port))

	divides(t, port, halfGone)

	// An open connection survives while its route changes backends repeatedly.
	s.write("db.yaml", route("{name: a, port: 80}"))
	eventually(t, "all go to a", func() error {
		for range 20 {
			if got, err := askOnce(t.Context(), port, nil, ""); err != nil || got != "a: hello" {
				return fmt.Errorf(`got %q %w, want "a: hello"`, got, err)
			}
		}
		return nil
	})
	standing, err := connect(t.Context(), port, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer standing.Close()
	stop := keepConnecting(t, port)
	for i := range 6 {
		to := []string{"b", "a"}[i%2]
		s.write("db.yaml", route("{name: "+to+", port: 80}"))
		eventually(t, "connections go to "+to, func() error {
			got, err := askOnce(t.Context(), port, nil, "")
			if err == nil && got != to+": hello" {
				err = fmt.Errorf("got %q, want %q", got, to+": hello")
			}
			return err
		})
		if got, err := standing.send(to); err != nil || got != "a: "+to {
			t.Fatalf("the connection that stood was cut by a change: %q %v, want %q", got, err, "a: "+to)
		}
	}
	stop()
	// Without a route, the port closes new connections. The open one continues.
	s.remove("db.yaml")
	eventually(t, "the port has no route", func() error {
		if _, err := askOnce(t.Context(), port, nil, ""); err == nil {
			return errors.New("a connection is still served")
		}
		return nil
	})
	if got, err := standing.send("still"); err != nil || got != "a: still" {
		t.Errorf(`the connection that stood was cut by the end of its route: %q %v, want "a: still"`, got, err)
	}
}
