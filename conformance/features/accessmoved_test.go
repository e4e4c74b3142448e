package features

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// moved is a route in namespace NS, with a ReferenceGrant for its pool.
const moved = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: moved, namespace: NS}
spec:
  parentRefs: [{name: gw, namespace: default}]
  rules:
  - matches: [{path: {value: /moved}}]
    filters:
    - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}
    - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-moved, value: NS}]}}
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat, namespace: default}]
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: from-NS}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: NS}]
  to: [{group: inference.networking.k8s.io, kind: InferencePool}]
`

const movedPolicy = `apiVersion: penstock.dev/v1alpha1
kind: AccessPolicy
metadata: {name: moved, namespace: NS}
spec: {targetRefs: [{kind: HTTPRoute, name: moved}], apiKeys: {namespaces: [default]}}
`

// A route and its policy move to another namespace, in one edit or the policy first. At no time
// does the route accept requests without a key.
func TestAccess_RouteThatMovesToAnotherNamespaceStaysGated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	key := s.keys("create", "alice")
	in := func(text, namespace string) string { return strings.ReplaceAll(text, "NS", namespace) }
	s.Write("moved.yaml", in(moved+"---\n"+movedPolicy, "first"))
	s.up("access.yaml", with("gate"),
		swap("protocol: HTTP}", "protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}"),
		swap("apiKeys: {}}", "apiKeys: {}, except: [{name: moved, namespace: first}, "+
			"{name: moved, namespace: second}]}"))
	follows := func(step, namespace string) {
		t.Helper()
		s.Eventually(step+": a key is let in", func() error {
			got, err := s.ask("/moved", question, bearer(key)...)
			return because(got.status == 200 && got.header.Get("x-moved") == namespace, got, err)
		})
	}
	follows("at first", "first")
	var opened, denied atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch got := s.outcome("/moved"); {
				case got == "200":
					opened.Add(1)
				case strings.HasPrefix(got, "401"):
					denied.Add(1)
				}
			}
		})
	}
	for range 3 {
		s.Write("moved.yaml", in(moved+"---\n"+movedPolicy, "second"))
		follows("moved with its policy", "second")
		s.Write("policy.yaml", in(movedPolicy, "first"))
		s.Write("moved.yaml", in(moved, "first"))
		follows("moved after its policy", "first")
		s.Write("moved.yaml", in(moved+"---\n"+movedPolicy, "first"))
		s.drop("policy.yaml")
	}
	close(stop)
	clients.Wait()
	if opened.Load() > 0 || denied.Load() == 0 {
		t.Errorf("requests without a key: got %d that pass and %d that are denied, want none that passes",
			opened.Load(), denied.Load())
	}
}
