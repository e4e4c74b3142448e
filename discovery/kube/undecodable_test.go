package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// wide returns an HTTPRoute with a body size that the CRD allows, but that the Go type, a uint16,
// cannot hold.
func wide(name string) string {
	return kubetest.Route(name) + `
  rules:
  - filters:
    - type: ExternalAuth
      externalAuth: {protocol: HTTP, backendRef: {name: web, port: 80}, forwardBody: {maxSize: 70000}}
`
}

// A route that cannot be decoded must not hide the other routes of its list or watch.
func TestReflector_UndecodableRouteHidesNoOtherRoute(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "httproutes", wide("listed"))
		api.Apply(t, "httproutes", kubetest.Route("a"))
	}).synced()
	r.Has(store.HTTPRoutes, "default/a", true)
	r.API.Apply(t, "httproutes", wide("watched"))
	r.API.Apply(t, "httproutes", kubetest.Route("b"))
	r.Has(store.HTTPRoutes, "default/b", true)
	r.API.Apply(t, "httproutes", kubetest.Route("c"))
	r.Has(store.HTTPRoutes, "default/c", true)
	for _, name := range []string{"listed", "watched"} {
		r.Eventually(func() string {
			if text := r.Reports(); !strings.Contains(text,
				"version of HTTPRoute default/"+name+" cannot be decoded") ||
				!strings.Contains(text, "maxSize") {
				return "no finding about " + name + ": " + text
			}
			return ""
		})
		r.Has(store.HTTPRoutes, "default/"+name, true)
		if o, _ := store.HTTPRoutes.Get(r.Store.View(), "default/"+name); len(o.Spec.ParentRefs) > 0 {
			t.Errorf("%s: got %v, want metadata alone", name, o)
		}
	}
	r.API.Apply(t, "httproutes", wide("a"))
	r.Eventually(func() string {
		if text := r.Reports(); !strings.Contains(text, "default/a cannot be decoded") {
			return "no finding about a: " + text
		}
		return ""
	})
	if o, _ := store.HTTPRoutes.Get(r.Store.View(), "default/a"); len(o.Spec.ParentRefs) == 0 {
		t.Error("the version before is not in use any more")
	}
	r.API.Apply(t, "httproutes", kubetest.Route("a"))
	r.API.Apply(t, "httproutes", kubetest.Route("listed"))
	r.API.Delete("httproutes", kubetest.Parse(t, wide("watched")))
	r.Eventually(func() string {
		if text := r.Reports(); strings.Contains(text, "cannot be decoded") {
			return "still reported: " + text
		}
		return ""
	})
	r.Eventually(func() string {
		if o, _ := store.HTTPRoutes.Get(r.Store.View(), "default/listed"); len(o.Spec.ParentRefs) == 0 {
			return "the corrected route has no parent"
		}
		return ""
	})
}

// An APIKey whose newest version cannot be decoded gives no access, because this version may
// disable the key.
func TestReflector_UndecodableKeyLetsNothingIn(t *testing.T) {
	key := func(more string) string {
		return "apiVersion: penstock.dev/v1alpha1\nkind: APIKey\nmetadata: {namespace: default, name: alice}\n" +
			"spec: {hashes: [" + strings.Repeat("ab", 32) + "]" + more + "}"
	}
	r := begin(t, func(api *kubetest.Server) {
		api.Install(v1alpha1.Group, "apikeys", v1alpha1.Version)
		api.Apply(t, "apikeys", key(""))
	}).synced()
	hashes := func(want int) {
		t.Helper()
		r.Eventually(func() string {
			if o, ok := store.APIKeys.Get(r.Store.View(), "default/alice"); !ok || len(o.Spec.Hashes) != want {
				return fmt.Sprintf("got %v, want %d hashes", o, want)
			}
			return ""
		})
	}
	hashes(1)
	r.API.Apply(t, "apikeys", key(", disabled: true, models: null"))
	r.Eventually(func() string {
		if text := r.Reports(); !strings.Contains(text, "default/alice cannot be decoded, and lets nothing in: ") ||
			!strings.Contains(text, "spec.models: null is no list") {
			return "no finding: " + text
		}
		return ""
	})
	hashes(0)
	r.API.Apply(t, "apikeys", key(", models: []"))
	hashes(1)
}

// An undecodable policy denies all requests to its targets, unless a previous version is in use.
func TestReflector_UndecodablePolicyClosesItsTargets(t *testing.T) {
	policy := func(name, spec string) string {
		return "apiVersion: penstock.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {namespace: default, name: " + name +
			"}\nspec: {" + spec + "}"
	}
	const good = "targetRefs: [{kind: HTTPRoute, name: a}], apiKeys: {}"
	r := begin(t, func(api *kubetest.Server) {
		api.Install(v1alpha1.Group, "accesspolicies", v1alpha1.Version)
		api.Apply(t, "accesspolicies", policy("listed", "targetRefs: [{kind: Gateway, name: gw}], byModel: 7"))
		api.Apply(t, "accesspolicies", policy("good", good))
	}).synced()
	becomes := func(name string, closed bool, target v1alpha1.AccessTarget) {
		t.Helper()
		r.Eventually(func() string {
			o, ok := store.AccessPolicies.Get(r.Store.View(), "default/"+name)
			if !ok || (o.Spec.Closed != 0) != closed || len(o.Spec.TargetRefs) == 0 ||
				o.Spec.TargetRefs[0] != target || closed && (o.Spec.APIKeys != nil || o.Spec.JWT != nil) {
				return fmt.Sprintf("%s: %+v", name, o)
			}
			return ""
		})
	}
	becomes("listed", true, v1alpha1.AccessTarget{Kind: "Gateway", Name: "gw"})
	becomes("good", false, v1alpha1.AccessTarget{Kind: "HTTPRoute", Name: "a"})
	r.API.Apply(t, "accesspolicies", policy("watched", "targetRefs: 7, apiKeys: {}"))
	becomes("watched", true, v1alpha1.AccessTarget{Kind: "Gateway"})
	r.API.Apply(t, "accesspolicies", policy("watched", "targetRefs: [{kind: GRPCRoute, name: g}], apiKeys: []"))
	becomes("watched", true, v1alpha1.AccessTarget{Kind: "GRPCRoute", Name: "g"})
	r.API.Apply(t, "accesspolicies", policy("good", "targetRefs: [{kind: HTTPRoute, name: b}], apiKeys: []"))
	r.Eventually(func() string {
		if text := r.Reports(); !strings.Contains(text, "default/good cannot be decoded, and a version before "+
			"stays in use, or else its targets are closed: ") {
			return "no finding: " + text
		}
		return ""
	})
	becomes("good", false, v1alpha1.AccessTarget{Kind: "HTTPRoute", Name: "a"})
	r.API.Apply(t, "accesspolicies", policy("watched", good))
	becomes("watched", false, v1alpha1.AccessTarget{Kind: "HTTPRoute", Name: "a"})
}
