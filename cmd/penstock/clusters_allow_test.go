package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker/modelserver"
)

// Requests to a member's pool fail until the ClusterSet allows it, in EndpointMode and in
// ParentMode.
func TestAllow_MemberExportsOnlyWhatTheClusterSetNames(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": routeYAML("far", "/", toImport("chat")),
	}, "--members-listen", "127.0.0.1:0")
	files := chatFiles(freePort(t), modelServer(t, modelserver.Config{Name: "east-1", Model: "public"}))
	files["set.yaml"], files["pool.yaml"] = clusterSetYAML("east"),
		exportedPool(`inference.networking.x-k8s.io/export: ClusterSet`)
	east := up(t, files, "--members-listen", "127.0.0.1:0")
	member := func(allow v1alpha1.ClusterSetAllow) string {
		t.Helper()
		var set v1alpha1.ClusterSet
		if err := yaml.Unmarshal([]byte(clusterSetYAML("here", east.show())), &set); err != nil {
			t.Fatal(err)
		}
		set.Spec.Members[0].Allow = allow
		raw, err := yaml.Marshal(map[string]any{
			"apiVersion": "penstock.dev/v1alpha1", "kind": "ClusterSet", "metadata": map[string]any{"name": "gpus"},
			"spec": set.Spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	here.write("set.yaml", member(v1alpha1.ClusterSetAllow{}))
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	request := func() int {
		return ask(t, local(port), `{"model":"public","messages":[{"role":"user","content":"hello"}]}`).status
	}
	reports := func(what string, s *site, want string) {
		t.Helper()
		eventually(t, what, func() error {
			if text := s.penstock("status"); !strings.Contains(text, want) {
				return fmt.Errorf("got\n%s\nwant %q", text, want)
			}
			return nil
		})
	}
	serves := func(what string, want int) {
		t.Helper()
		eventually(t, what, func() error {
			if got := request(); got != want {
				return fmt.Errorf("got %d, want %d; status here:\n%s", got, want, here.penstock("status"))
			}
			return nil
		})
	}
	reports("the finding has the line", here, "to import them, write for this member: allow: {pools: [default/chat]}")
	reports("the exporter's condition", east,
		"add pools: [default/chat] or namespaces: [default] to allow of member east")
	if got := request(); got != http.StatusInternalServerError {
		t.Errorf("a pool that is not named: got %d, want 500", got)
	}
	here.write("set.yaml", member(v1alpha1.ClusterSetAllow{Pools: []string{"default/chat"}}))
	serves("a pool that is named", http.StatusOK)
	east.write("pool.yaml",
		exportedPool(
			`inference.networking.x-k8s.io/export: ClusterSet, inference.networking.x-k8s.io/export-mode: ParentMode`))
	reports("cleartext is not allowed", here,
		"which the ClusterSet does not allow member east; have the Gateway there listen with HTTPS")
	serves("gateways without TLS", http.StatusInternalServerError)
	here.write("set.yaml", member(v1alpha1.ClusterSetAllow{Pools: []string{"default/chat"}, Cleartext: true}))
	serves("gateways without TLS, allowed", http.StatusOK)
	eventually(t, "clusters show has the namespaces of exports", func() error {
		if text := east.show(); !strings.Contains(text, "namespaces:\n    - default\n") {
			return fmt.Errorf("clusters show: got\n%s\nwant the namespace default", text)
		}
		return nil
	})
}
