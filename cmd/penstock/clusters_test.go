package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// clusterSetYAML is a ClusterSet with members as `penstock clusters show` prints them.
func clusterSetYAML(cluster string, members ...string) string {
	text := fmt.Sprintf("apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: %s\n", cluster)
	if len(members) == 0 {
		return text
	}
	text += "  members:\n"
	for _, m := range members {
		for line := range strings.Lines(m) {
			text += "  " + line
		}
	}
	return text
}

// show is what a site is as a member, once it has its certificates.
func (s *site) show() (text string) {
	s.t.Helper()
	eventually(s.t, "clusters show", func() (err error) {
		text, err = penstock(s.t, "clusters", "show", "-f", s.dir, "--state", s.state)
		return err
	})
	return text
}

func exportedPool(annotations string) string {
	return strings.Replace(poolYAML("chat"), "metadata: {name: chat}", "metadata: {name: chat, annotations: {"+annotations+"}}", 1)
}

// A pool that is annotated in one cluster serves requests of another one, without an object there but the route.
func TestClusterSet_AnnotatedPoolServesRequestsOfTheOtherCluster(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": routeYAML("far", "/", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: chat}"),
	}, "--members-listen", "127.0.0.1:0")
	eastFiles := chatFiles(freePort(t), modelServer(t, sim.Config{Name: "east-1", Model: "public"}))
	eastFiles["set.yaml"] = clusterSetYAML("east")
	east := up(t, eastFiles, "--members-listen", "127.0.0.1:0")
	here.write("set.yaml", clusterSetYAML("here", east.show()))
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	if got := ask(t, local(port), `{"model":"public","messages":[{"role":"user","content":"hello"}]}`); got.status != http.StatusInternalServerError {
		t.Errorf("before the export: %d %s", got.status, got.body)
	}
	const export = `inference.networking.x-k8s.io/export: ClusterSet`
	east.write("pool.yaml", exportedPool(export))
	eventually(t, "the pool of the other cluster serves", func() error {
		if got := ask(t, local(port), `{"model":"public","messages":[{"role":"user","content":"hello"}]}`); got.status != http.StatusOK || got.header.Get("x-served-by") != "east-1" {
			return fmt.Errorf("%d %s; status here:\n%s\nin the other cluster:\n%s", got.status, got.body, here.penstock("status"), east.penstock("status"))
		}
		return nil
	})
	exported := regexp.MustCompile(`default/chat +InferencePoolImport chat +- +- +True`)
	eventually(t, "Exported is True", func() error {
		if text := east.penstock("status"); !exported.MatchString(text) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	served := func(what string, want bool) {
		t.Helper()
		eventually(t, what, func() error {
			if got := ask(t, local(port), `{"model":"public","messages":[{"role":"user","content":"hello"}]}`); (got.status == http.StatusOK) != want {
				return fmt.Errorf("%d", got.status)
			}
			return nil
		})
	}
	east.write("pool.yaml", poolYAML("chat"))
	served("a pool without the annotation takes no request", false)
	east.write("pool.yaml", exportedPool(export))
	served("annotated again, it serves", true)
	east.write("pool.yaml", exportedPool(export+`, penstock.dev/export-to: mars`))
	east.errs.expect(t, `"mars" is no member of the ClusterSet`)
	served("a pool whose annotations are invalid takes no request", false)
	east.write("pool.yaml", exportedPool(export))
	served("corrected, it serves", true)
	east.remove("pool.yaml")
	served("a pool that is deleted takes no request", false)
}
