package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tracing "go.opentelemetry.io/otel/trace/noop"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// bundleOf are the CA certificates of another cluster.
func bundleOf(t *testing.T) string {
	t.Helper()
	a := authority.New(authority.Config{Secrets: clusterset.FileAuthority(t.TempDir()), Names: []string{"penstock"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = a.Run(ctx) }()
	if err := a.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return string(a.Bundle())
}

// memberCluster is a cluster of a set, with a peer listener: its pool chat is exported in ParentMode, to a member that nothing runs of.
func memberCluster(t *testing.T, port int) *kubetest.Server {
	t.Helper()
	api := smallCluster(t)
	for _, plural := range []string{"clustersets", "poolexports"} {
		api.Install("penstock.dev", plural, "v1alpha1")
	}
	api.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}")
	api.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: default}}")
	api.Apply(t, "inferencepools", strings.Replace(clusterObjects[3].text, "name: chat}", "name: chat, annotations: {inference.networking.x-k8s.io/export: ClusterSet, inference.networking.x-k8s.io/export-mode: ParentMode}}", 1))
	set := kubetest.Parse(t, `{apiVersion: penstock.dev/v1alpha1, kind: ClusterSet, metadata: {name: set}, spec: {cluster: east, members: [{name: west, peer: {address: "127.0.0.1:1"}}]}}`)
	spec := set["spec"].(kubetest.Object)
	spec["members"].([]any)[0].(kubetest.Object)["peer"].(kubetest.Object)["bundle"] = bundleOf(t)
	spec["peerListener"] = kubetest.Object{"port": port}
	api.Put("clustersets", set)
	return api
}

// withFleets runs a control plane that runs the proxies of Gateways, and is a member of a cluster set.
func withFleets(t *testing.T, api *kubetest.Server) process {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	xds, log := listen(), &logged{}
	p, err := NewKubernetes(Config{
		StateDir: t.TempDir(), XDS: xds, Picker: listen(),
		PickerAddresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9002")}, Tracer: tracing.NewTracerProvider(),
		Log: slog.New(slog.NewTextHandler(log, nil)), DrainTime: time.Minute,
	}, Kubernetes{REST: api.Config(), Namespace: "default", Identity: "one", Fleet: &Fleet{
		ADS: []string{xds.Addr().String()}, Names: []string{"penstock.default.svc"}, EnvoyImage: "envoy", PenstockImage: "penstock",
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

// has waits until an object of the API server contains texts, of which those that begin with ! are not there.
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

// A Gateway with a fleet listens for members at its Service: its NetworkPolicy and its Service have the port, and members get the Service's
// address with it, not before the Service has one.
func TestPeerListener_FleetIsReachedAtItsService(t *testing.T) {
	t.Parallel()
	api := memberCluster(t, 15443)
	p := withFleets(t, api)
	poll.Until(t, "the proxies listen", func() bool {
		return p.cache.Resource("default/gw", resource.Ref{Type: resource.RouteConfiguration, Name: model.PeerChain(15443)}) != nil
	})
	has(t, api, "networking.k8s.io", "networkpolicies", "default/gw-penstock", `"port":8080`, `"port":15443`)
	has(t, api, "", "services", "default/gw-penstock", `"name":"http-8080"`, `"name":"peer-15443","port":15443`)
	has(t, api, "inference.networking.k8s.io", "inferencepools", "default/chat", `"NoAddress"`, "Gateway default/gw, which routes to it, has no address that members reach")
	svc := api.Get("", "services", "default/gw-penstock")
	svc["status"] = kubetest.Parse(t, "loadBalancer: {ingress: [{ip: 192.0.2.1}]}")
	api.Put("services", svc)
	has(t, api, "penstock.dev", "poolexports", "default/chat.east", `"peer":true`, `"192.0.2.1"`, `"number":15443`, `!"number":8080`)
	has(t, api, "inference.networking.k8s.io", "inferencepools", "default/chat", `!"NoAddress"`, `"MemberUnreachable"`)

	set := api.Get("penstock.dev", "clustersets", "set")
	delete(set["spec"].(kubetest.Object), "peerListener")
	api.Put("clustersets", set)
	has(t, api, "", "services", "default/gw-penstock", `"name":"http-8080"`, `!"port":15443`)
	has(t, api, "penstock.dev", "poolexports", "default/chat.east", `!"peer":true`, `"number":8080`)
}

// A process that starts, in an upgrade for example, serves proxies the peer listener and the pools that members may use there from the first answer
// on: what it removed for a moment would fail requests of members.
func TestPeerListener_NewProcessTakesNothingFromProxies(t *testing.T) {
	t.Parallel()
	api := memberCluster(t, 15443)
	first := inCluster(t, api, "first")
	proxy := xdstest.StartFake(t, xdstest.FakeConfig{Address: first.address, Gateway: "default/gw", Timeout: time.Minute})
	certificate, routes := resource.Ref{Type: resource.Secret, Name: model.MemberCertificate}, resource.Ref{Type: resource.RouteConfiguration, Name: model.PeerChain(15443)}
	proxy.Wait("the peer listener leads to the pool", func() bool {
		r := first.cache.Resource("default/gw", routes)
		_, certified := proxy.Has(certificate)
		version, _ := proxy.Has(routes)
		return certified && r != nil && version == r.Version && bytes.Contains(r.Body(), []byte(model.PeerAuthority("default", "chat", "east")))
	})
	first.stop()

	// The authority is read late.
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
	proxy.Wait("it cannot read", func() bool { return second.log.has("certificate authority not up to date") })
	late.Store(false)
	proxy.Wait("its certificate", func() bool { now, _ := proxy.Has(certificate); return now != before })
	for _, r := range proxy.Received()[received:] {
		if len(r.Removed) > 0 || r.Type != resource.Secret && len(r.Upserts) > 0 {
			t.Errorf("what the proxy had was removed or changed: %+v", r)
		}
	}
}
