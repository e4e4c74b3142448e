package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func world(t testing.TB, n int) (out []*resource.Resource) {
	for i := range n {
		c, rc := fmt.Sprintf("cluster-%d", i), fmt.Sprintf("routes-%d", i)
		out = append(out, xdstest.Cluster(t, c, 0), xdstest.Endpoints(t, c, 1),
			xdstest.Listener(t, fmt.Sprintf("listener-%d", i), uint32(1000+i), rc), xdstest.Routes(t, rc, c))
	}
	return out
}

func inSync(c *xdstest.Control, n int) bool {
	list := c.Server.Proxies()
	return len(list) == n && !slices.ContainsFunc(list, func(p server.ProxyStatus) bool { return !p.InSync })
}

func TestResumption_SendsOnlyChanges(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	list := world(t, 20)
	c.Commit(list)
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	for _, r := range list {
		f.WaitHas(r)
	}
	other := xdstest.Serve(t, server.Config{})
	other.Commit(list)
	before := len(f.Received())
	f.Reconnect(other.Address)
	poll.Until(t, "the proxy in sync with the other replica", func() bool { return inSync(other, 1) })
	changed := xdstest.Endpoints(t, "cluster-0", 2)
	other.Commit([]*resource.Resource{changed})
	f.WaitHas(changed)
	got := f.Received()[before:]
	if len(got) != 1 || !slices.Equal(got[0].Upserts, []string{"cluster-0"}) {
		t.Errorf("after the reconnect and one change it received %+v, want cluster-0 alone", got)
	}
}

func TestADS_NoResponseBeforeFirstSync(t *testing.T) {
	store := cache.New(cache.Config{})
	store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: world(t, 1)})
	c := xdstest.Serve(t, server.Config{Cache: store})
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	poll.Until(t, "the proxy connected", func() bool { return len(c.Server.Proxies()) == 1 })
	late := xdstest.Cluster(t, "late", 0)
	store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: []*resource.Resource{late}})
	if got := f.Received(); len(got) > 0 {
		t.Fatalf("answered before the first sync: %+v, want none", got)
	}
	store.SetReady()
	f.WaitHas(late)
	if first := f.Received()[0]; !slices.Equal(first.Upserts, []string{"cluster-0", "late"}) {
		t.Errorf("the first answer is %+v, want cluster-0 and late", first)
	}
}

func TestResumption_BeforeFirstSyncSendsOnlyChanges(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	list := world(t, 20)
	c.Commit(list)
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	for _, r := range list {
		f.WaitHas(r)
	}
	store := cache.New(cache.Config{})
	next := xdstest.Serve(t, server.Config{Cache: store})
	before := len(f.Received())
	f.Reconnect(next.Address)
	poll.Until(t, "the proxy connected", func() bool { return len(next.Server.Proxies()) == 1 })
	store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: list})
	store.SetReady()
	poll.Until(t, "the proxy in sync", func() bool { return inSync(next, 1) })
	changed := xdstest.Endpoints(t, "cluster-0", 2)
	store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: []*resource.Resource{changed}})
	f.WaitHas(changed)
	if got := f.Received()[before:]; len(got) != 1 || !slices.Equal(got[0].Upserts, []string{"cluster-0"}) {
		t.Errorf("after the first sync and one change it received %+v, want cluster-0 alone", got)
	}
}

func TestADS_UnknownGatewayRemovesNothing(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address, Gateway: "default/later"})
	c.Commit(world(t, 1))
	list := world(t, 2)
	if len(f.Received()) > 0 {
		t.Fatal("answered")
	}
	c.Cache.Commit(cache.Batch{Gateway: "default/later", Upserts: list})
	for _, r := range list {
		f.WaitHas(r)
	}
}

func TestADS_SilentProxyDelaysNoOther(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	c.Commit(world(t, 3))
	xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address, Node: "silent", Silent: resource.Types()})
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address, Node: "good"})
	poll.Until(t, "both connected", func() bool { return len(c.Server.Proxies()) == 2 })
	for i := range 100 {
		r := xdstest.Endpoints(t, "cluster-0", uint32(2+i))
		c.Commit([]*resource.Resource{r, xdstest.Cluster(t, "cluster-1", i)})
		f.WaitHas(r)
	}
}

func TestWaitAcked_ReturnsWhenEveryProxyHasTheVersion(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	c.Commit(world(t, 1))
	ref := resource.Ref{Type: resource.Endpoints, Name: "cluster-0"}
	done := make(chan error, 1)
	go func() { done <- c.Server.WaitAcked(t.Context(), xdstest.Gateway, ref, "") }()
	fakes := []*xdstest.Fake{
		xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address, Node: "one"}),
		xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address, Node: "two"}),
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "both in sync", func() bool { return inSync(c, 2) })
	for i := range 50 {
		r := xdstest.Endpoints(t, "cluster-0", uint32(10+i))
		c.Commit([]*resource.Resource{r})
		if err := c.Server.WaitAcked(t.Context(), xdstest.Gateway, ref, r.Version); err != nil {
			t.Fatal(err)
		}
		for _, f := range fakes {
			if v, _ := f.Has(ref); v != r.Version {
				t.Fatal("a proxy does not have it")
			}
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if err := c.Server.WaitAcked(ctx, xdstest.Gateway, ref, "never"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a version that never comes: %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestWaitAcked_ReportsNACK(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	c.Commit(world(t, 1))
	xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	bad := xdstest.Resource(t, resource.Cluster, "bad",
		&clusterv3.Cluster{Name: "bad", ConnectTimeout: durationpb.New(0)})
	c.Commit([]*resource.Resource{bad})
	err := c.Server.WaitAcked(t.Context(), xdstest.Gateway, bad.Ref, "")
	if !errors.Is(err, server.ErrRejected) || !strings.Contains(err.Error(), "greater than 0s") {
		t.Errorf("got %v, want %v, with Envoy's message", err, server.ErrRejected)
	}
}

func TestAuthenticate_ProxyReadsOnlyItsGateway(t *testing.T) {
	var revoked atomic.Bool
	c := xdstest.Serve(t, server.Config{Authenticate: as(proxy{
		gateway: func(n *corev3.Node) (string, error) {
			if n.GetId() != "good" || revoked.Load() {
				return "", errors.New("no such credential")
			}
			return xdstest.Gateway, nil // node.cluster is ignored
		},
		permitted: func() (time.Time, error) {
			if revoked.Load() {
				return time.Time{}, errors.New("permission revoked")
			}
			return time.Time{}, nil
		},
	})})
	list := world(t, 1)
	c.Commit(list)
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address, Node: "good", Gateway: "other/gateway"})
	f.WaitHas(list[0])

	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(dial(t, c)).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "bad", Cluster: xdstest.Gateway}, TypeUrl: resource.Cluster.URL(),
	})
	if _, err := s.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v, want PermissionDenied", err)
	}

	c.Server.Recheck()
	if n := c.Server.Connected(""); n != 1 {
		t.Errorf("%d streams after a recheck, want 1", n)
	}
	revoked.Store(true)
	c.Server.Recheck()
	poll.Until(t, "the stream ends", func() bool { return c.Server.Connected("") == 0 })
}

func TestADS_StreamsEndWithServer(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	list := world(t, 1)
	c.Commit(list)
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	f.WaitHas(list[0])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Server.Run(ctx); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "no streams", func() bool { return len(c.Server.Proxies()) == 0 })
}

func TestTrace_SpansChangeToACK(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	registry := prometheus.NewRegistry()
	c := xdstest.Serve(t, server.Config{Tracing: provider, Metrics: registry})
	c.Commit(world(t, 1))
	xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	c.WaitAcked(resource.Ref{Type: resource.RouteConfiguration, Name: "routes-0"})

	_, change := provider.Tracer("test").Start(t.Context(), "change")
	r := xdstest.Endpoints(t, "cluster-0", 7)
	c.Cache.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: []*resource.Resource{r}, Trace: change.SpanContext()})
	c.WaitAcked(r.Ref)
	poll.Until(t, "the span", func() bool { return len(spans.Ended()) == 1 })
	span := spans.Ended()[0]
	if span.Name() != "publish" || span.Parent().SpanID() != change.SpanContext().SpanID() {
		t.Errorf("got span %s of %s, want publish of %s",
			span.Name(), span.Parent().SpanID(), change.SpanContext().SpanID())
	}
	seen := gathered(t, registry)
	if seen["penstock_xds_streams"] != 1 || seen["penstock_xds_bytes_total"] == 0 ||
		seen["penstock_xds_commit_to_ack_seconds"] == 0 {
		t.Errorf("metrics %v, want 1 stream, and bytes and seconds above 0", seen)
	}
}

func TestMetrics_CountProxiesThatLagOrReject(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := xdstest.Serve(t, server.Config{Metrics: registry})
	c.Commit(world(t, 1))
	conn := dial(t, c)
	fine, silent, rejecting := connect(t, conn, "fine"), connect(t, conn, "silent"), connect(t, conn, "rejecting")
	counted := func(behind, rejecting float64) {
		t.Helper()
		poll.Until(t, fmt.Sprintf("%v behind, %v rejecting", behind, rejecting), func() bool {
			seen := gathered(t, registry)
			return seen["penstock_xds_streams"] == 3 && seen["penstock_xds_streams_behind"] == behind &&
				seen["penstock_xds_streams_rejecting"] == rejecting
		})
	}
	counted(0, 0)
	c.Cache.Commit(cache.Batch{Gateway: xdstest.Gateway,
		Upserts: []*resource.Resource{xdstest.Endpoints(t, "cluster-0", 7)}})
	fine.next()
	if _, err := silent.stream.Recv(); err != nil {
		t.Fatal(err)
	}
	r, err := rejecting.stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	rejecting.send(&discoveryv3.DeltaDiscoveryRequest{
		ResponseNonce: r.GetNonce(), ErrorDetail: &statuspb.Status{Message: "no"},
	})
	counted(1, 1)
}

func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			seen[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return seen
}

func TestADS_ThousandProxiesGetAChange(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	c.Commit(world(t, 3))
	conn := dial(t, c)
	streams := make([]*client, 1000)
	for i := range streams {
		streams[i] = connect(t, conn, fmt.Sprint(i))
	}
	r := xdstest.Endpoints(t, "cluster-0", 9)
	c.Commit([]*resource.Resource{r})
	for _, s := range streams {
		if got := s.next(); len(got.GetResources()) != 1 || got.GetResources()[0].GetVersion() != r.Version {
			t.Fatalf("received %v, want version %s", got, r.Version)
		}
	}
	c.WaitAcked(r.Ref)
}

type board struct {
	mu    sync.Mutex
	calls []string // owners in each call
}

func (b *board) Rejected(_, _ string, list []report.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var owners []string
	for _, r := range list {
		owners = append(owners, r.Owner.Name)
	}
	b.calls = append(b.calls, strings.Join(owners, " "))
}

func (b *board) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

func TestNACK_ConditionDoesNotFlapOnReconnect(t *testing.T) {
	b := &board{}
	c := xdstest.Serve(t, server.Config{Reports: b})
	c.Commit(world(t, 2))
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	bad := func(name string) *resource.Resource {
		return xdstest.Resource(t, resource.Cluster, name,
			&clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(0)})
	}
	last := func(want string) func() bool {
		return func() bool { all := b.all(); return len(all) > 0 && all[len(all)-1] == want }
	}
	c.Commit([]*resource.Resource{bad("bad"), bad("worse")})
	poll.Until(t, "both owners get a report", last("bad worse"))
	before := len(b.all())
	for range 5 {
		n := len(b.all())
		f.Reconnect(c.Address)
		poll.Until(t, "another report", func() bool { return len(b.all()) > n })
	}
	for _, owners := range b.all()[before:] {
		if owners != "bad worse" {
			t.Errorf(`after a reconnect the report is on %q: %q, want "bad worse"`, owners, b.all())
		}
	}
	f.Disconnect()
	c.Commit([]*resource.Resource{xdstest.Cluster(t, "bad", 0), xdstest.Cluster(t, "worse", 0)})
	f.Reconnect(c.Address)
	poll.Until(t, "the report is cleared", last(""))
}

// A reconnecting proxy requests its secrets last.
func TestNACK_ReportOfASecretDoesNotFlapOnReconnect(t *testing.T) {
	b := &board{}
	c := xdstest.Serve(t, server.Config{Reports: b})
	c.Commit(world(t, 2))
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	secret := func(chain string) *resource.Resource {
		return xdstest.Resource(t, resource.Secret, "bad",
			&tlsv3.Secret{Name: "bad", Type: &tlsv3.Secret_TlsCertificate{
				TlsCertificate: &tlsv3.TlsCertificate{
					CertificateChain: &corev3.DataSource{
						Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(chain)},
					},
				},
			}})
	}
	var l listenerv3.Listener
	base := xdstest.Listener(t, "secure", 443, "routes-0")
	if err := proto.Unmarshal(base.Body(), &l); err != nil {
		t.Fatal(err)
	}
	config, err := anypb.New(&tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: "bad", SdsConfig: xdstest.ADS()}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.FilterChains[0].TransportSocket = &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
	}
	refs := append(base.Refs, resource.Ref{Type: resource.Secret, Name: "bad"})
	c.Commit([]*resource.Resource{xdstest.Resource(t, resource.Listener, "secure", &l, refs...),
		secret(xdstest.BadPEM)})
	last := func(want string) func() bool {
		return func() bool { all := b.all(); return len(all) > 0 && all[len(all)-1] == want }
	}
	poll.Until(t, "the owner gets a report", last("bad"))
	for range 5 {
		n := len(b.all())
		f.Reconnect(c.Address)
		poll.Until(t, "another report", func() bool { return len(b.all()) > n })
	}
	if i := slices.IndexFunc(b.all(), func(owners string) bool { return owners != "bad" }); i >= 0 {
		t.Errorf("the report is on %q, want bad alone: %q", b.all()[i], b.all())
	}
	c.Commit([]*resource.Resource{secret("good")})
	poll.Until(t, "the report is cleared", last(""))
}

func TestNACK_ReportOfAbsentProxyIsCleared(t *testing.T) {
	b := &board{}
	c := xdstest.Serve(t, server.Config{Reports: b, Absence: time.Millisecond})
	c.Commit(world(t, 1))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Server.Run(ctx) }()
	f := xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})
	c.Commit(
		[]*resource.Resource{
			xdstest.Resource(t, resource.Cluster, "bad",
				&clusterv3.Cluster{Name: "bad", ConnectTimeout: durationpb.New(0)}),
		})
	poll.Until(t, "its owner gets a report", func() bool { return slices.Equal(b.all(), []string{"bad"}) })
	f.Disconnect()
	poll.Until(t, "the report is cleared", func() bool { return slices.Equal(b.all(), []string{"bad", ""}) })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
