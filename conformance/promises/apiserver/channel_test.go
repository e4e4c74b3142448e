//go:build lab

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

func gatewayKind(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: gatewayv1.GroupName, Version: "v1", Resource: plural}
}

// With only a kubeconfig, a process serves a cluster with the standard channel, without the
// inference extension and Penstock's kinds. It continues when the experimental channel, or an
// unknown release, replaces a kind.
func TestCRD_StandardChannelServesAndUpgradesInPlace(t *testing.T) {
	s := start(t)
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes", "grpcroutes", "tlsroutes", "tcproutes",
		"udproutes", "listenersets",
		"referencegrants", "backendtlspolicies"} {
		s.define(t, "standard", plural)
	}
	dir := t.TempDir()
	launch(t, dir, "penstock", "../../../bin/penstock", "serve", "--kubeconfig", s.kubeconfig(t), "--state",
		filepath.Join(dir, "state"), "--picker", "127.0.0.1:0")
	for _, o := range objects {
		if o.group == gatewayv1.GroupName && o.kind != "GRPCRoute" { // hostnames of a GRPCRoute would conflict
			s.create(t, o.resource, o.text())
		}
	}
	s.hasConditions(t, "gatewayclasses", "penstock", "Accepted=True/Accepted@1",
		"SupportedVersion=True/SupportedVersion@1")
	s.hasConditions(t, "gateways", "gw", "Accepted=True/Accepted@1")
	s.hasConditions(t, "httproutes", "h", "Accepted=True/Accepted@1", "ResolvedRefs=False/BackendNotFound@1")

	s.define(t, "experimental", "httproutes")
	labtest.Until(t, "a route with a field of the experimental channel", func(context.Context) error {
		text :=
			"{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: default, name: " +
				"later}, spec: {parentRefs: [{name: gw}], hostnames: [later.example.com], rules: " +
				"[{sessionPersistence: {type: Header, absoluteTimeout: 1h}}]}}"
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		made, err := s.client.Resource(gatewayKind("httproutes")).Namespace("default").
			Apply(t.Context(), "later", u, metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			return err
		}
		rules, _, _ := unstructured.NestedSlice(made.Object, "spec", "rules")
		if rules[0].(map[string]any)["sessionPersistence"] == nil {
			return fmt.Errorf("rules are %v, want sessionPersistence kept", rules)
		}
		return nil
	})
	labtest.Until(t, "the field's condition", func(context.Context) error {
		u, err := s.client.Resource(gatewayKind("httproutes")).Namespace("default").
			Get(t.Context(), "later", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if raw, _ := json.Marshal(u.Object["status"]); !strings.Contains(string(raw),
			"sessions in a header have no timeout") {
			return fmt.Errorf("generation %d, spec %v, status %s, want that sessions in a header have no timeout",
				u.GetGeneration(), u.Object["spec"], raw)
		}
		return nil
	})

	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	if _, err := s.client.Resource(definitions).Patch(t.Context(), "grpcroutes."+gatewayv1.GroupName,
		types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"gateway.networking.k8s.io/bundle-version":"v1.99.0"}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hasConditions(t, "gatewayclasses", "penstock", "Accepted=True/Accepted@1",
		"SupportedVersion=False/UnsupportedVersion@1")
}

func (s *server) define(t *testing.T, channel, plural string) {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").
		Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "config", "crd", channel,
		gatewayv1.GroupName+"_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &u.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := s.of(u, "customresourcedefinitions").Apply(t.Context(), u.GetName(), u,
		metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
}

func (s *server) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: admin, namespace: default}}]
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: %s}}]
`, s.rest.Host, s.rest.BearerToken))
	return path
}

func (s *server) hasConditions(t *testing.T, plural, name string, conditions ...string) {
	t.Helper()
	labtest.Until(t, plural+" "+name, func(ctx context.Context) error {
		got, err := s.conditions(ctx, gatewayKind(plural), name)
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if !got[c] {
				return fmt.Errorf("conditions: got %v, want %s", got, c)
			}
		}
		return nil
	})
}
