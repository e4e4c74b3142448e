package attacks

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/promises/parties"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
)

type honest struct {
	*parties.Honest
	server *httptest.Server
}

func newHonest(t *testing.T) *honest {
	t.Helper()
	server := modelServer()
	t.Cleanup(server.Close)
	gateway, _ := server.Listener.Addr().(*net.TCPAddr)
	return &honest{parties.NewHonest(t, "good", gateway), server}
}

// set is a site that is the member "east" of a cluster set with an honest member and hostile
// members. Besides default/chat it serves, below /good, the pool default/good, which the honest
// member exports.
type set struct {
	*site
	good *honest
	self v1alpha1.ClusterSetMember // this member's entry for other ClusterSets
}

// startSet starts a site that is a member. more has further fields of the spec of its ClusterSet;
// files are further files of its folder.
func startSet(t *testing.T, more string, files map[string]string, evil ...*parties.Publisher) *set {
	t.Helper()
	s := &set{good: newHonest(t)}
	s.begin(t, more, files, evil)
	s.serve("--members-listen", "127.0.0.1:0")
	s.attach()
	s.join()
	return s
}

// startSecuredSet is startSet with a control plane and an Envoy that authenticate each other.
func startSecuredSet(t *testing.T, more string) *set {
	t.Helper()
	s := &set{good: newHonest(t)}
	s.begin(t, more, nil, nil)
	serve, attach, _ := s.credentials()
	s.serve(append(serve, "--members-listen", "127.0.0.1:0")...)
	s.attach(attach...)
	s.join()
	return s
}

func (s *set) begin(t *testing.T, more string, files map[string]string, evil []*parties.Publisher) {
	t.Helper()
	member := func(name string, at net.Listener, c *parties.CA, allow string) string {
		return fmt.Sprintf("  - name: %s\n    allow: {%s}\n    peer:\n      address: %s\n      bundle: |\n        %s\n",
			name, allow, at.Addr(), strings.ReplaceAll(strings.TrimSpace(c.Bundle), "\n", "\n        "))
	}
	text := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: set}\nspec:\n  cluster: east\n" +
		more + "  members:\n" + member("good", s.good.Listener, s.good.CA, "namespaces: [default], cleartext: true")
	for _, p := range evil {
		text += member(p.Name, p.Listener, p.CA,
			"namespaces: [evil], podCIDRs: [10.66.0.0/16], addresses: [10.66.0.0/16], exports: 20, endpoints: 100")
	}
	all := map[string]string{"set.yaml": text, "good.yaml": importRoute("default", "good", "/good")}
	for name, text := range files {
		all[name] = text
	}
	s.site = prepare(t, all)
}

func (s *set) join() {
	s.Helper()
	s.Eventually("it is a member", func() error {
		raw, err := os.ReadFile(filepath.Join(s.dir, "state", "cluster", "member.yaml"))
		if err != nil {
			return err
		}
		var list []v1alpha1.ClusterSetMember
		if err := yaml.Unmarshal(raw, &list); err != nil || len(list) != 1 {
			return fmt.Errorf("%d members: %w, want 1", len(list), err)
		}
		s.self = list[0]
		return nil
	})
	s.good.Federation.SetMembers([]federation.Member{
		{Name: s.self.Name, Address: s.self.Peer.Address, Bundle: []byte(s.self.Peer.Bundle)},
	})
	s.Eventually("the pool serves", func() error { return s.ask("GET", "/v1/models", "") })
	s.Eventually("the other cluster's pool serves", func() error { return s.ask("GET", "/good", "") })
}

func importRoute(namespace, name, path string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: to-%[2]s}
spec:
  parentRefs: [{name: gw}]
  rules: [{matches: [{path: {value: %[3]s}}], backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, namespace: %[1]s, name: %[2]s}]}]
---
`, namespace, name, path)
}

func importGrant(namespace string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: imports, namespace: %s}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}]
  to: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport}]
---
`, namespace)
}
