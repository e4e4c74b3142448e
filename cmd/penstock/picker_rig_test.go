package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

type alonePicker struct {
	*site
	port            int
	health, metrics string
}

func startPicker(t *testing.T, files map[string]string, args ...string) *alonePicker {
	t.Helper()
	p := runAlone(t, files, args...)
	p.isServing(true)
	return p
}

func runAlone(t *testing.T, files map[string]string, args ...string) *alonePicker {
	t.Helper()
	s := prepare(t, files)
	s.run("picker",
		append([]string{"--bind-address", "127.0.0.1", "--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port",
			"0"}, args...)...)
	s.errs.expect(t, "metrics=")
	m := regexp.MustCompile(` picker=(\S+) health=(\S+) metrics=(\S+)`).FindStringSubmatch(s.errs.String())
	return &alonePicker{site: s, port: portOf(m[1]), health: m[2], metrics: m[3]}
}

func (p *alonePicker) isServing(want bool) {
	p.t.Helper()
	conn, err := grpc.NewClient(p.health, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, service := range []string{"", "readiness", "inference-extension", extproc.ServiceName} {
		eventually(p.t, fmt.Sprintf("health of %q: serving is %v", service, want), func() error {
			got, err := grpc_health_v1.NewHealthClient(conn).Check(p.t.Context(),
				&grpc_health_v1.HealthCheckRequest{Service: service})
			if err != nil || (got.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING) != want {
				return fmt.Errorf("got %v %w, want serving %t", got, err, want)
			}
			return nil
		})
	}
}

func (p *alonePicker) page() string {
	p.t.Helper()
	got, err := readPage(p.t.Context(), "http://"+p.metrics+"/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

func readPage(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	got, err := do(client(), req)
	return got.body, err
}

// bareEnvoy is an Envoy that Penstock does not configure: testdata/bare-envoy.yaml.tmpl.
type bareEnvoy struct {
	Port             int
	Pickers, Servers []int
	TLS              bool
	Key, Namespace   string
	Subset           string
	ClientCert       string
	ClientKey        string
	Modes            map[string]string
	Clusters         []string
	t                *testing.T
}

// processingModes are the ext_proc modes of Gateways. Envoy Gateway uses gateway; the protocol's
// reference documents duplex.
var processingModes = map[string]string{
	"headers":  "{request_header_mode: SEND, response_header_mode: SEND}",
	"buffered": "{request_header_mode: SEND, response_header_mode: SEND, request_body_mode: BUFFERED}",
	"duplex": "{request_header_mode: SEND, response_header_mode: SEND, request_body_mode: FULL_DUPLEX_STREAMED, " +
		"request_trailer_mode: SEND}",
	"gateway": "{request_header_mode: SEND, response_header_mode: SEND, request_body_mode: FULL_DUPLEX_STREAMED, " +
		"request_trailer_mode: SEND, response_body_mode: FULL_DUPLEX_STREAMED, response_trailer_mode: SEND}",
}

func startBareEnvoy(t *testing.T, e bareEnvoy) *bareEnvoy {
	t.Helper()
	names := extproc.DefaultNames()
	e.t, e.Port, e.Modes = t, freePort(t), processingModes
	if e.Clusters == nil {
		e.Clusters = []string{"original-dst", "override-host"}
	}
	if e.Key == "" {
		e.Key, e.Namespace, e.Subset = names.Destination, names.Namespace, names.Subset
	}
	tmpl, err := template.ParseFiles("testdata/bare-envoy.yaml.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var config bytes.Buffer
	if err := tmpl.Execute(&config, e); err != nil {
		t.Fatal(err)
	}
	envoytest.Start(t,
		envoytest.Config{Bootstrap: config.Bytes(), Args: []string{"--concurrency", "1", "--disable-hot-restart"},
			LogLevel: "warning"}).WaitLive()
	return &e
}

func (e *bareEnvoy) chat(way string, header ...string) (reply, error) {
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, local(e.Port)+"/v1/chat/completions",
		strings.NewReader(`{"model": "llama", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}`))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("content-type", "application/json")
	req.Header.Set("x-way", way)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return do(client(), req)
}

func (e *bareEnvoy) ways() (out []string) {
	for mode := range e.Modes {
		for _, cluster := range e.Clusters {
			out = append(out, mode+"-"+cluster)
		}
	}
	return out
}

func portOf(address string) int {
	if at, err := netip.ParseAddrPort(address); err == nil {
		return int(at.Port())
	}
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return n
}
