package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	tracing "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func anotherCluster(t *testing.T) *authority.Authority {
	t.Helper()
	a := authority.New(authority.Config{Secrets: set.OnDisk(t.TempDir()).Authority(), Names: []string{"penstock"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = a.Run(ctx) }()
	if err := a.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// memberCluster is the cluster east of a set. It exports its pool chat to the member west, of which
// only the certificate authority exists.
func memberCluster(t *testing.T, port int, mode string) (*kubetest.Server, *authority.Authority) {
	t.Helper()
	api := smallCluster(t)
	for _, plural := range []string{"clustersets", "poolexports"} {
		api.Install("penstock.dev", plural, "v1alpha1")
	}
	api.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}")
	api.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: default}}")
	api.Apply(t, "inferencepools",
		strings.Replace(clusterObjects[3].text, "name: chat}",
			"name: chat, annotations: {inference.networking.x-k8s.io/export: ClusterSet, "+
				"inference.networking.x-k8s.io/export-mode: "+mode+"}}", 1))
	clusterSet := kubetest.Parse(t,
		`{apiVersion: penstock.dev/v1alpha1, kind: ClusterSet, metadata: {name: set}, spec: {cluster: east, members: [{name: west, peer: {address: "127.0.0.1:1"}}]}}`)
	spec, west := clusterSet["spec"].(kubetest.Object), anotherCluster(t)
	spec["members"].([]any)[0].(kubetest.Object)["peer"].(kubetest.Object)["bundle"] = string(west.Bundle())
	spec["peerListener"] = kubetest.Object{"port": port}
	api.Put("clustersets", clusterSet)
	return api, west
}

func withFleets(t *testing.T, api *kubetest.Server) process {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	xds, picks, log := listen(), listen(), &logged{}
	p, err := NewKubernetes(Config{
		StateDir: t.TempDir(), XDS: xds, Picker: picks,
		PickerAddresses: []netip.AddrPort{netip.MustParseAddrPort(picks.Addr().String())},
		Tracer:          tracing.NewTracerProvider(),
		Log:             slog.New(slog.NewTextHandler(log, nil)), DrainTime: time.Minute,
	}, Kubernetes{REST: api.Config(), Namespace: "default", Identity: "one", Fleet: &Fleet{
		ADS: []string{xds.Addr().String()}, Names: []string{"penstock.default.svc"}, EnvoyImage: "envoy",
		PenstockImage: "penstock",
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.text.String())
		}
	})
	return process{App: p, address: xds.Addr().String(), log: log}
}

// has waits until an object of the API server contains each text, and no text that follows a "!".
func has(t *testing.T, api *kubetest.Server, group, plural, id string, texts ...string) {
	t.Helper()
	poll.NoError(t, plural+" "+id, poll.Limit, func() error {
		raw, err := json.Marshal(api.Get(group, plural, id))
		if err != nil {
			return err
		}
		for _, text := range texts {
			if without, not := strings.CutPrefix(text, "!"); strings.Contains(string(raw), without) == not {
				return fmt.Errorf("want %s in %s", text, raw)
			}
		}
		return nil
	})
}

// A fleet's Gateway listens for members at its Service. Members get the Service's address once it
// has one.
func TestPeerListener_FleetIsReachedAtItsService(t *testing.T) {
	t.Parallel()
	api, _ := memberCluster(t, 15443, "ParentMode")
	p := withFleets(t, api)
	poll.Until(t, "the proxies listen", func() bool {
		return p.cache.Resource("default/gw", resource.Ref{
			Type: resource.RouteConfiguration, Name: model.RoutesName(model.PeerChain(15443)),
		}) != nil
	})
	has(t, api, "networking.k8s.io", "networkpolicies", "default/gw-penstock", `"port":8080`, `"port":15443`)
	has(t, api, "", "services", "default/gw-penstock", `"name":"http-8080"`, `"name":"peer-15443","port":15443`)
	has(t, api, "inference.networking.k8s.io", "inferencepools", "default/chat", `"NoAddress"`,
		"Gateway default/gw, which routes to it, has no address that members reach")
	svc := api.Get("", "services", "default/gw-penstock")
	svc["status"] = kubetest.Parse(t, "loadBalancer: {ingress: [{ip: 192.0.2.1}]}")
	api.Put("services", svc)
	has(t, api, "penstock.dev", "poolexports", "default/chat.east", `"peer":true`, `"192.0.2.1"`, `"number":15443`,
		`!"number":8080`)
	has(t, api, "inference.networking.k8s.io", "inferencepools", "default/chat", `!"NoAddress"`, `"MemberUnreachable"`)

	clusterSet := api.Get("penstock.dev", "clustersets", "set")
	delete(clusterSet["spec"].(kubetest.Object), "peerListener")
	api.Put("clustersets", clusterSet)
	has(t, api, "", "services", "default/gw-penstock", `"name":"http-8080"`, `!"port":15443`)
	has(t, api, "penstock.dev", "poolexports", "default/chat.east", `!"peer":true`, `"number":8080`)
}

// A Service of type NodePort is reached at the nodes that run the fleet's pods, at their port. The
// addresses follow when pods move.
func TestPeerListener_OfANodePortIsAtTheNodesOfTheFleet(t *testing.T) {
	t.Parallel()
	api, _ := memberCluster(t, 15443, "ParentMode")
	api.Install("penstock.dev", "envoyfleets", "v1alpha1")
	api.Apply(t, "envoyfleets",
		"{apiVersion: penstock.dev/v1alpha1, kind: EnvoyFleet, metadata: {namespace: default, name: nodes}, spec: "+
			"{service: {type: NodePort}}}")
	api.Apply(t, "gateways",
		strings.Replace(clusterObjects[1].text, "gatewayClassName: penstock,",
			"gatewayClassName: penstock, infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, "+
				"name: nodes}},", 1))
	withFleets(t, api)
	has(t, api, "", "services", "default/gw-penstock", `"name":"peer-15443","port":15443`, `"NodePort"`)
	// kubetest assigns neither addresses nor ports of nodes.
	svc := api.Get("", "services", "default/gw-penstock")
	svc["spec"].(kubetest.Object)["clusterIPs"] = []any{"10.96.0.8"}
	api.Put("services", svc)
	api.Apply(t, "services",
		`{apiVersion: v1, kind: Service, metadata: {namespace: default, name: gw-nodes, labels: {gateway.networking.k8s.io/gateway-name: gw}},
  spec: {type: NodePort, clusterIP: 10.96.0.9, ports: [{port: 443, targetPort: 15443, nodePort: 30081}]}}`)
	for _, node := range []string{"192.0.2.7", "192.0.2.8"} {
		api.Apply(t, "pods",
			fmt.Sprintf(
				`{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: gw-penstock-1, labels: {penstock.dev/fleet: gw-penstock}},
  status: {podIP: 10.244.0.9, hostIPs: [{ip: %s}], phase: Running, conditions: [{type: Ready, status: "True"}]}}`, node))
		has(t, api, "penstock.dev", "poolexports", "default/chat.east", `"peer":true`, fmt.Sprintf("%q", node),
			`"number":30081`, `!"number":15443`)
	}
}

// A starting process serves the peer listener and its pools from its first response on, so that no
// request of a member fails.
func TestPeerListener_NewProcessTakesNothingFromProxies(t *testing.T) {
	t.Parallel()
	api, _ := memberCluster(t, 15443, "ParentMode")
	first := inCluster(t, api, "first")
	proxy := xdstest.StartFake(t, xdstest.FakeConfig{
		Address: first.address, Gateway: "default/gw", Timeout: time.Minute,
	})
	certificate, routes := resource.Ref{Type: resource.Secret, Name: model.MemberCertificate},
		resource.Ref{Type: resource.RouteConfiguration, Name: model.RoutesName(model.PeerChain(15443))}
	proxy.Wait("the peer listener leads to the pool", func() bool {
		r := first.cache.Resource("default/gw", routes)
		_, certified := proxy.Has(certificate)
		version, _ := proxy.Has(routes)
		return certified && r != nil && version == r.Version &&
			bytes.Contains(r.Body(), []byte(model.PeerAuthority("default", "chat", "east")))
	})
	first.stop()

	var late atomic.Bool
	late.Store(true)
	api.Fail(func(_, path string) int {
		if late.Load() && strings.Contains(path, "/secrets/") {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	before, _ := proxy.Has(certificate)
	received := len(proxy.Received())
	second := inCluster(t, api, "second")
	proxy.Reconnect(second.address)
	proxy.Wait("it cannot read", func() bool { return second.log.has("cannot update the certificate authority") })
	late.Store(false)
	proxy.Wait("its certificate", func() bool { now, _ := proxy.Has(certificate); return now != before })
	for _, r := range proxy.Received()[received:] {
		if len(r.Removed) > 0 || r.Type != resource.Secret && len(r.Upserts) > 0 {
			t.Errorf("got %+v, want what the proxy had kept, and its Secret alone changed", r)
		}
	}
}

func TestPeerListener_MembersPickFromAFleetsControlPlane(t *testing.T) {
	t.Parallel()
	api, west := memberCluster(t, 15443, "EndpointMode")
	withFleets(t, api)
	has(t, api, "penstock.dev", "poolexports", "default/chat.east", `"peer":true`, `"pool":"default/chat"`)
	has(t, api, "inference.networking.k8s.io", "inferencepools", "default/chat", `"MemberUnreachable"`)
	text, err := json.Marshal(api.Get("penstock.dev", "poolexports", "default/chat.east"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(string(text), `"number":`)
	id, _ := url.Parse(model.GatewayURI("west"))
	pair, err := west.Certify(id)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(server, pool string) codes.Code {
		conn, err := grpc.NewClient("127.0.0.1:"+strings.FieldsFunc(port,
			func(r rune) bool { return r < '0' || r > '9' })[0],
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
				InsecureSkipVerify: true, ServerName: server, Certificates: []tls.Certificate{certificate},
			})))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		stream, err := extprocv3.NewExternalProcessorClient(conn).Process(
			metadata.AppendToOutgoingContext(t.Context(), "x-penstock-pool", pool))
		if err != nil { // the listener is open a moment after the export
			return status.Code(err)
		}
		_ = stream.Send(&extprocv3.ProcessingRequest{
			Request: &extprocv3.ProcessingRequest_RequestHeaders{
				RequestHeaders: &extprocv3.HttpHeaders{EndOfStream: true},
			},
		})
		_, err = stream.Recv()
		return status.Code(err)
	}
	name := model.PeerAuthority("default", "chat", "east")
	for _, c := range []struct {
		server, pool string
		want         codes.Code
	}{{name, "default/chat", codes.OK}, {name, "default/other", codes.PermissionDenied},
		{"penstock.default.svc", "default/chat", codes.Unauthenticated}} {
		poll.NoError(t, fmt.Sprint(c), poll.Limit, func() error { // the endpoint may come later
			if got := ask(c.server, c.pool); got != c.want {
				return fmt.Errorf("got %s, want %s", got, c.want)
			}
			return nil
		})
	}
}

func TestClusterProperty_NamesAClusterOnKubernetes(t *testing.T) {
	t.Parallel()
	api, _ := memberCluster(t, 15443, "EndpointMode")
	clusterSet := api.Get("penstock.dev", "clustersets", "set")
	delete(clusterSet["spec"].(kubetest.Object), "cluster")
	api.Put("clustersets", clusterSet)
	withFleets(t, api)
	has(t, api, "penstock.dev", "clustersets", "set", `"NoClusterName"`,
		"there is no ClusterProperty cluster.clusterset.k8s.io (about.k8s.io); write the name of this cluster here, "+
			"or into spec.value")
	api.Install("about.k8s.io", "clusterproperties", "v1alpha1")
	property := func(value string) {
		api.Apply(t, "clusterproperties",
			"{apiVersion: about.k8s.io/v1alpha1, kind: ClusterProperty, metadata: {name: cluster.clusterset.k8s.io}, "+
				"spec: {value: "+value+"}}")
	}
	property("south.example")
	has(t, api, "penstock.dev", "clustersets", "set", `"NoClusterName"`,
		`spec.value of ClusterProperty cluster.clusterset.k8s.io is invalid`, "correct the value there")
	property("south")
	has(t, api, "penstock.dev", "clustersets", "set", `"Accepted"`, `!"NoClusterName"`)
	has(t, api, "penstock.dev", "poolexports", "default/chat.south", `"cluster":"south"`)
}
