package kube_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
)

func backendService(name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: default, name: %s}, spec: {ports: [{port: 80}]}}", name)
}

func routeTo(service string) string {
	return fmt.Sprintf("{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: default, name: r}, "+
		"spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: %s, port: 80}]}]}}", service)
}

// leadsNowhere follows the store and sends each revision in which the route names a Service that is not there.
func leadsNowhere(t *testing.T, s *store.Store) <-chan string {
	torn := make(chan string, 100)
	sub := s.Subscribe()
	kubetest.Run(t, func(ctx context.Context) error {
		defer sub.Close()
		for {
			_, view, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			r, ok := store.HTTPRoutes.Get(view, "default/r")
			if !ok {
				continue
			}
			name := string(r.Spec.Rules[0].BackendRefs[0].Name)
			if _, ok := store.Services.Get(view, "default/"+name); !ok {
				torn <- name
			}
		}
	})
	return torn
}

// Watches of two kinds do not wait for each other: the API server here tells of the second change first.
func TestARouteLeadsSomewhereInWhicheverOrderItsMoveIsTold(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "services", backendService("a"))
		api.Apply(t, "httproutes", routeTo("a"))
	}).synced()
	torn := leadsNowhere(t, r.store)
	lag := func() { time.Sleep(20 * time.Millisecond) } // that of a watch, not of the test

	r.api.Apply(t, "services", backendService("b"))
	r.has(store.Services, "default/b", true)
	r.api.Delete("services", kubetest.Parse(t, backendService("a")))
	lag()
	r.api.Apply(t, "httproutes", routeTo("b"))
	r.has(store.Services, "default/a", false)

	r.api.Apply(t, "httproutes", routeTo("c"))
	lag()
	r.api.Apply(t, "services", backendService("c"))
	r.eventually(func() string {
		if got, ok := store.HTTPRoutes.Get(r.store.View(), "default/r"); !ok || got.Spec.Rules[0].BackendRefs[0].Name != "c" {
			return "the route does not lead to c"
		}
		return ""
	})
	select {
	case name := <-torn:
		t.Errorf("the route was seen to lead to Service %s, which was not there: 500", name)
	default:
	}
}

func TestARouteToNothingIsReadAllTheSame(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) { api.Apply(t, "services", backendService("a")) }).synced()
	r.api.Apply(t, "httproutes", routeTo("never"))
	r.has(store.HTTPRoutes, "default/r", true)
	r.api.Delete("httproutes", kubetest.Parse(t, routeTo("never")))
	r.has(store.HTTPRoutes, "default/r", false)
	// One that is made again, by whoever replaces it, never goes.
	r.api.Delete("services", kubetest.Parse(t, backendService("a")))
	r.api.Apply(t, "services", backendService("a"))
	r.api.Apply(t, "httproutes", routeTo("a"))
	r.has(store.HTTPRoutes, "default/r", true)
	r.has(store.Services, "default/a", true)
}
