package kube_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// RBAC allows reads only in the watched namespaces, so the source must send no other request. A
// forbidden read makes the source lag, and a lagging process removes nothing.
func TestNamespaces_OnlyWatchedOnesAreRead(t *testing.T) {
	api := kubetest.New(t)
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes"} {
		api.Install(kubetest.GatewayGroup, plural, "v1")
	}
	for _, ns := range []string{"a", "b", "c"} {
		api.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}")
		api.Apply(t, "services", "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: "+ns+"}}")
		api.Apply(t, "secrets", "{apiVersion: v1, kind: Secret, metadata: {name: tls, namespace: "+ns+"}}")
		api.Apply(t, "gateways",
			"{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: gw, namespace: "+ns+"}}")
	}
	world := store.New()
	source, err := kube.New(kube.Config{REST: api.Config(), Store: world, Namespaces: []string{"a", "b"},
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, source.Run)
	if err := source.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wanted []kube.Demand
	for _, ns := range []string{"a", "c"} {
		wanted = append(wanted, kube.Demand{Table: "Secret", Index: store.ByID, Key: ns + "/tls"},
			kube.Demand{Table: "Pod", Index: store.ByLabel, Key: ns + " app=web"})
	}
	for _, read := range source.Want(wanted, nil) {
		<-read
	}
	if err := source.Flush(); err != nil {
		t.Fatal(err)
	}
	view := world.View()
	for key, want := range map[string]bool{"a": true, "b": true, "c": false} {
		_, isNamespace := store.Namespaces.Get(view, key)
		_, isGateway := store.Gateways.Get(view, key+"/gw")
		_, isService := store.Services.Get(view, key+"/web")
		if isNamespace != want || isGateway != want || isService != want {
			t.Errorf("namespace %s: Namespace %t, Gateway %t, Service %t, want %t, %t, %t",
				key, isNamespace, isGateway, isService, want, want, want)
		}
	}
	if _, ok := store.Secrets.Get(view, "a/tls"); !ok {
		t.Error("a Secret of a watched namespace was not read")
	}
	api.Delete("services", kubetest.Parse(t, "{metadata: {name: web, namespace: b}, apiVersion: v1}"))
	poll.Until(t, "a deletion takes effect", func() bool {
		_, ok := store.Services.Get(world.View(), "b/web")
		return !ok
	})
	for _, request := range api.Asked("") {
		switch path, query, _ := strings.Cut(strings.TrimPrefix(request, "GET "), "?"); {
		case strings.HasPrefix(path, "/api/v1/namespaces/a/"), strings.HasPrefix(path, "/api/v1/namespaces/b/"),
			strings.Contains(path, "/namespaces/a/"), strings.Contains(path, "/namespaces/b/"):
		case strings.HasSuffix(path, "/customresourcedefinitions"), strings.HasSuffix(path, "/gatewayclasses"):
		case path == "/api/v1/namespaces" &&
			(strings.Contains(query, "metadata.name%3Da") || strings.Contains(query, "metadata.name%3Db")):
		default:
			t.Errorf("request outside of the watched namespaces a and b: got %s, want none", request)
		}
	}
}
