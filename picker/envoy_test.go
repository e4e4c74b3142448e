package picker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// route is a route of the test's Envoy: for requests to /NAME/, Envoy calls the picker for Pool
// with the body mode Mode, and sends them to Cluster.
type route struct {
	Name, Pool, Cluster, Filter, Mode, Spill string
	Retries                                  int
	Allow                                    bool
}

const (
	none     = "{request_header_mode: SEND, response_header_mode: SKIP, request_body_mode: NONE}"
	noneResp = "{request_header_mode: SEND, response_header_mode: SEND, request_body_mode: NONE}"
	buffered = "{request_header_mode: SEND, response_header_mode: SKIP, request_body_mode: BUFFERED}"
	duplex   = "{request_header_mode: SEND, response_header_mode: SEND, request_body_mode: FULL_DUPLEX_STREAMED, " +
		"request_trailer_mode: SEND}"
	duplex2 = "{request_header_mode: SEND, response_header_mode: SEND, request_body_mode: FULL_DUPLEX_STREAMED, " +
		"request_trailer_mode: SEND, response_body_mode: FULL_DUPLEX_STREAMED, response_trailer_mode: SEND}"
)

type cluster struct {
	Name, Fallback string
	Hop            bool
}

var testClusters = []cluster{
	{Name: "closed"},
	{Name: "open", Fallback: "pod"},
	{Name: "closed-spill", Fallback: "spill", Hop: true},
	{Name: "open-spill", Fallback: "pod", Hop: true},
}

type pod struct {
	*httptest.Server
	name   string
	status func() int // nil means 200

	mu   sync.Mutex
	last http.Header
	body []byte
	page string // metrics page

	begun chan string // receives each request's path after the headers
}

func (p *pod) addr() netip.AddrPort {
	return netip.MustParseAddrPort(p.Listener.Addr().String())
}

func (p *pod) received() (http.Header, []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.body
}

func startPod(t testing.TB, name string) *pod {
	t.Helper()
	p := &pod{name: name, begun: make(chan string, 1<<12),
		page: "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n"}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" { // a scrape of the picker
			p.mu.Lock()
			defer p.mu.Unlock()
			fmt.Fprint(w, p.page)
			return
		}
		select {
		case p.begun <- r.URL.Path:
		default:
		}
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.last, p.body = r.Header.Clone(), body
		status := p.status
		p.mu.Unlock()
		for key := range r.Trailer {
			w.Header().Set("x-seen-trailer", key)
		}
		w.Header().Set("x-pod", name)
		if status != nil {
			w.WriteHeader(status())
		}
		fmt.Fprintf(w, "%s got %d bytes", name, len(body))
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pod) answer(status func() int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// shows sets the pod's metrics page. adapters are the running adapters; two slots exist.
func (p *pod) shows(queue int, kv float64, adapters string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.page = fmt.Sprintf(
		"vllm:num_requests_waiting %d\nvllm:kv_cache_usage_perc "+
			"%g\nvllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=%q,waiting_lora_adapters=\"\"} 1\n",
		queue, kv, adapters)
}

// hold makes the pod block until release, or the end of the test. blocked receives a value for each
// request.
func (p *pod) hold(t testing.TB) (blocked <-chan struct{}, release func()) {
	arrived, open := make(chan struct{}, 16), make(chan struct{})
	release = sync.OnceFunc(func() { close(open) })
	t.Cleanup(release)
	p.answer(func() int { arrived <- struct{}{}; <-open; return 200 })
	return arrived, release
}

type gateway struct {
	picker *Picker
	url    string
	pods   []*pod
	other  *pod // behind the hop
	server *grpc.Server
}

func startGateway(t testing.TB, routes ...route) *gateway {
	t.Helper()
	g := &gateway{pods: []*pod{startPod(t, "pod-0"), startPod(t, "pod-1")}, other: startPod(t, "other")}
	g.picker = runPicker(t, Config{})
	var address string
	g.server, address = servePicker(t, g.picker)
	for i := range routes {
		if routes[i].Filter == "" {
			routes[i].Filter = "picker"
		}
		if routes[i].Pool == "" {
			routes[i].Pool = "ns/pool"
		}
	}
	edge := envoytest.FreePort(t)
	startEnvoy(t, map[string]any{
		"Edge": edge, "Picker": portOf(address), "Other": g.other.addr().Port(),
		"Pods": []uint16{g.pods[0].addr().Port(), g.pods[1].addr().Port()}, "Routes": routes,
		"Clusters": testClusters, "Filters": []string{"picker", "picker-spill"},
	})
	g.url = "http://127.0.0.1:" + strconv.Itoa(int(edge))
	return g
}

func (g *gateway) endpoints() []endpoint.Spec {
	return []endpoint.Spec{{Addr: g.pods[0].addr(), Pod: "pod-0"}, {Addr: g.pods[1].addr(), Pod: "pod-1"}}
}

func (g *gateway) post(t testing.TB, path string, body []byte) (*http.Response, string) {
	t.Helper()
	response, err := http.Post(g.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func runPicker(t testing.TB, c Config) *Picker {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p
}

func servePicker(t testing.TB, p *Picker) (*grpc.Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(ServerOptions(4, nil)...)
	p.Register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server, listener.Addr().String()
}

func startEnvoy(t testing.TB, data map[string]any) {
	t.Helper()
	tmpl, err := template.ParseFiles("testdata/envoy.yaml.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var config bytes.Buffer
	if err := tmpl.Execute(&config, data); err != nil {
		t.Fatal(err)
	}
	envoytest.Start(t, envoytest.Config{
		Bootstrap: config.Bytes(),
		Args:      []string{"--concurrency", "1", "--disable-hot-restart"},
		LogLevel:  "warning",
	}).WaitLive()
}

func portOf(address string) int {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return n
}

func (g *gateway) send(t testing.TB, method, path, body string, pairs ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		request.Header.Set(pairs[i], pairs[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}
