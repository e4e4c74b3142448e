package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracing "go.opentelemetry.io/otel/trace/noop"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

var clusterObjects = []struct{ plural, text string }{
	{
		"gatewayclasses",
		"{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: penstock}, spec: " +
			"{controllerName: " + Controller + "}}",
	},
	{
		"gateways",
		"{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {namespace: default, name: gw}, spec: " +
			"{gatewayClassName: penstock, listeners: [{name: http, port: 8080, protocol: HTTP}]}}",
	},
	{
		"httproutes",
		"{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: default, name: chat}, " +
			"spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: " +
			"InferencePool, name: chat}]}]}}",
	},
	{
		"inferencepools",
		"{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {namespace: default, name: " +
			"chat}, spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8001}]}}",
	},
	{
		"pods",
		"{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: chat-1, labels: {app: chat}}, status: " +
			"{podIP: 10.244.0.1, phase: Running}}",
	},
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *logged) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *logged) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

type process struct {
	*App
	address string // address of ADS
	log     *logged
	stop    func()
}

func inCluster(t *testing.T, api *kubetest.Server, identity string) process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	picks, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &logged{}
	p, err := NewKubernetes(Config{
		StateDir: t.TempDir(), XDS: l, Picker: picks,
		PickerAddresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9002")},
		Tracer:          tracing.NewTracerProvider(),
		Log:             slog.New(slog.NewTextHandler(log, nil)), DrainTime: time.Minute,
	}, Kubernetes{REST: api.Config(), Namespace: "default", Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return process{p, l.Addr().String(), log, stop}
}

func smallCluster(t *testing.T) *kubetest.Server {
	t.Helper()
	api := kubetest.New(t)
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes"} {
		api.Install("gateway.networking.k8s.io", plural, "v1")
	}
	api.Install("inference.networking.k8s.io", "inferencepools", "v1")
	for _, o := range clusterObjects {
		api.Apply(t, o.plural, o.text)
	}
	return api
}

func TestADS_UnsyncedProcessRemovesNothing(t *testing.T) {
	t.Parallel()
	api := smallCluster(t)
	first := inCluster(t, api, "first")
	proxy := xdstest.StartFake(t, xdstest.FakeConfig{
		Address: first.address, Gateway: "default/gw", Timeout: time.Minute,
	})
	endpoints := resource.Ref{Type: resource.Endpoints, Name: model.PoolCluster("default", "chat").String()}
	proxy.Wait("the pod is served", func() bool { b := proxy.Backends(8080); return len(b) == 1 && b[0] == 8001 })
	before, _ := proxy.Has(endpoints)
	first.stop()

	// The next process can at first read nothing, then everything except the pods.
	deny := func(texts ...string) {
		api.Fail(func(_, path string) int {
			for _, text := range texts {
				if strings.Contains(path, text) {
					return http.StatusServiceUnavailable
				}
			}
			return 0
		})
	}
	deny("/")
	second := inCluster(t, api, "second")
	received := len(proxy.Received())
	proxy.Wait("it cannot read", func() bool { return second.log.has("cannot read from the API server") })
	deny("/pods")
	proxy.Reconnect(second.address) // second accepts connections once all kinds except pods are synced
	proxy.Wait("it waits for the pods", func() bool {
		return second.log.has("no proxy is answered before everything is read once")
	})
	if got := proxy.Received()[received:]; len(got) > 0 {
		t.Errorf("a proxy was answered before all was read: %+v, want none", got)
	}
	api.Fail(nil)
	api.Apply(t, "pods", strings.Replace(clusterObjects[4].text, "10.244.0.1", "10.244.0.2", 1))
	proxy.Wait("a change", func() bool { now, _ := proxy.Has(endpoints); return now != before })
	for _, r := range proxy.Received()[received:] {
		if len(r.Removed) > 0 || r.Type != resource.Endpoints && len(r.Upserts) > 0 {
			t.Errorf("got %+v, want what the proxy had kept, and endpoints alone changed", r)
		}
	}
	if b := proxy.Backends(8080); len(b) != 1 {
		t.Errorf("backends: %v, want 1 of them", b)
	}
}

func TestADS_ProcessWithoutAWatchRemovesNothing(t *testing.T) {
	t.Parallel()
	api := smallCluster(t)
	listen := func(listeners string) {
		api.Apply(t, "gateways",
			strings.Replace(clusterObjects[1].text, "{name: http, port: 8080, protocol: HTTP}", listeners, 1))
	}
	listen("{name: http, port: 8080, protocol: HTTP}, {name: leaves, port: 8081, protocol: HTTP}")
	running := inCluster(t, api, "running")
	proxy := xdstest.StartFake(t, xdstest.FakeConfig{
		Address: running.address, Gateway: "default/gw", Timeout: time.Minute,
	})
	bound := func(port int) bool {
		return slices.ContainsFunc(proxy.Names(resource.Listener),
			func(name string) bool { return strings.Contains(name, fmt.Sprint(port)) })
	}
	proxy.Wait("both listeners", func() bool { return bound(8080) && bound(8081) })

	api.Fail(func(_, path string) int {
		if strings.HasSuffix(path, "/services") {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	api.Cut()
	proxy.Wait("it cannot read Services", func() bool { return running.log.has(`retrying" kind=Service `) })
	received := len(proxy.Received())
	// A listener is removed, then others are added one by one. The proxy must keep the removed
	// listener while Services cannot be read.
	listeners := "{name: http, port: 8080, protocol: HTTP}"
	for port := 8082; port < 8085; port++ {
		listeners += fmt.Sprintf(", {name: more-%d, port: %[1]d, protocol: HTTP}", port)
		listen(listeners)
		proxy.Wait("a further listener", func() bool { return bound(port) })
	}
	for _, r := range proxy.Received()[received:] {
		if len(r.Removed) > 0 {
			t.Errorf("got %+v, want nothing removed that an object that cannot be read may keep", r)
		}
	}
	api.Fail(nil)
	proxy.Wait("the listener is removed once all watches work again", func() bool { return !bound(8081) })
}
