package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker/modelserver"
)

func clusterSetYAML(cluster string, members ...string) string {
	text := fmt.Sprintf(
		"apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: %s\n", cluster)
	if len(members) == 0 {
		return text
	}
	text += "  members:\n"
	for _, m := range members {
		for line := range strings.Lines(allowing(m)) {
			text += "  " + line
		}
	}
	return text
}

// allowing adds cleartext and the namespace default to a shown entry, unless the entry lists pools.
func allowing(shown string) string {
	var list []v1alpha1.ClusterSetMember
	if err := yaml.UnmarshalStrict([]byte(shown), &list); err != nil || len(list) != 1 || list[0].Peer == nil ||
		list[0].Peer.Address == "" || len(list[0].Allow.Pools) > 0 {
		return shown
	}
	list[0].Allow.Cleartext = true
	if len(list[0].Allow.Namespaces) == 0 {
		list[0].Allow.Namespaces = []string{"default"}
	}
	raw, err := yaml.Marshal(list)
	if err != nil {
		return shown
	}
	return string(raw)
}

func (s *site) show() (text string) {
	s.t.Helper()
	eventually(s.t, "clusters show", func() (err error) {
		text, err = penstock(s.t, "clusters", "show", "-f", s.dir, "--state", s.state)
		return err
	})
	return text
}

func exportedPool(annotations string) string {
	return strings.Replace(poolYAML("chat"), "metadata: {name: chat}",
		"metadata: {name: chat, annotations: {"+annotations+"}}", 1)
}

func TestClusterSet_AnnotatedPoolServesRequestsOfTheOtherCluster(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": routeYAML("far", "/",
			"{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: chat}"),
	}, "--members-listen", "127.0.0.1:0")
	eastFiles := chatFiles(freePort(t), modelServer(t, modelserver.Config{Name: "east-1", Model: "public"}))
	eastFiles["set.yaml"] = clusterSetYAML("east")
	east := up(t, eastFiles, "--members-listen", "127.0.0.1:0")
	here.write("set.yaml", clusterSetYAML("here", east.show()))
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	here.errs.expect(t, "cluster=east")
	if got := ask(t, local(port), `{"model":"public","messages":[{"role":"user","content":"hello"}]}`); got.status !=
		http.StatusInternalServerError {
		t.Errorf("before the export: %d %s, want %d", got.status, got.body, http.StatusInternalServerError)
	}
	const export = `inference.networking.x-k8s.io/export: ClusterSet`
	east.write("pool.yaml", exportedPool(export))
	eventually(t, "the pool of the other cluster serves", func() error {
		if got := ask(t, local(port),
			`{"model":"public","messages":[{"role":"user","content":"hello"}]}`); got.status != http.StatusOK ||
			got.header.Get("x-served-by") != "east-1" {
			return fmt.Errorf("got %d %s, want 200 from east-1; status here:\n%s\nin the other cluster:\n%s",
				got.status, got.body, here.penstock("status"), east.penstock("status"))
		}
		return nil
	})
	exported := regexp.MustCompile(`default/chat +InferencePoolImport chat +\S+ +- +- +True`)
	eventually(t, "Exported is True", func() error {
		if text := east.penstock("status"); !exported.MatchString(text) {
			return fmt.Errorf("status: got %s, want the export True", text)
		}
		return nil
	})
	served := func(what string, want bool) {
		t.Helper()
		eventually(t, what, func() error {
			got := ask(t, local(port), `{"model":"public","messages":[{"role":"user","content":"hello"}]}`)
			if (got.status == http.StatusOK) != want {
				return fmt.Errorf("got %d, want 200: %t", got.status, want)
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

func (s *site) finds(what string, want ...string) {
	s.t.Helper()
	eventually(s.t, what, func() error {
		text := s.penstock("status")
		for _, w := range want {
			if !strings.Contains(text, w) {
				return fmt.Errorf("got\n%s\nwant %q", text, w)
			}
		}
		return nil
	})
}

// findsDamage starts a stopped cluster with a damaged record and a damaged identity, expects a
// finding for each, and restores the identity.
func (s *site) findsDamage() {
	s.t.Helper()
	records := filepath.Join(s.state, "cluster", "records", "east.jsonl")
	if err := os.WriteFile(records, []byte("{\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	identity := filepath.Join(s.state, "cluster", "identity.json")
	intact, err := os.ReadFile(identity)
	if err == nil {
		err = os.WriteFile(identity, []byte("{\n"), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.start()
	s.out.expect(s.t, "serves at")
	s.finds("damaged files", records+" is damaged in line 1", identity+" is damaged: restore it, or remove it")
	if err := os.WriteFile(identity, intact, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func TestClusterSet_RestartWhileAMemberIsAwayKeepsItsExports(t *testing.T) {
	t.Parallel()
	server := serverNamed(t, "east-1")
	_, external := exporter(t, server) // this picker keeps running
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": routeYAML("far", "/",
			"{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: chat}"),
	}, "--members-listen", "127.0.0.1:0")
	eastFiles := chatFiles(freePort(t), server)
	eastFiles["set.yaml"] = clusterSetYAML("east")
	eastFiles["pool.yaml"] = strings.TrimSuffix(exportedPool(`inference.networking.x-k8s.io/export: ClusterSet`),
		"\n") + fmt.Sprintf(`
  endpointPickerRef: {name: epp, port: {number: %d}}
---
apiVersion: v1
kind: Service
metadata: {name: epp}
spec:
  externalIPs: [127.0.0.1]
  ports: [{port: %d, appProtocol: kubernetes.io/h2c}]
`, external, external)
	// The port is fixed, so that east has the same address after a restart.
	east := up(t, eastFiles, "--members-listen", local(freePort(t))[len("http://"):])
	here.write("set.yaml", clusterSetYAML("here", east.show()))
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	served := func(what string) {
		t.Helper()
		eventually(t, what, func() error {
			if got := ask(t, local(port),
				`{"model":"llama","messages":[{"role":"user","content":"hello"}]}`); got.status != http.StatusOK ||
				got.header.Get("x-served-by") != "east-1" {
				return fmt.Errorf("got %d %s, want 200 from east-1; status here:\n%s\nin the other cluster:\n%s",
					got.status, got.body, here.penstock("status"), east.penstock("status"))
			}
			return nil
		})
	}
	served("the pool of the other cluster serves")
	traffic := sendTraffic(t, local(port))
	east.stop()
	east.start() // the restart withdraws no export
	east.out.expect(t, "serves at")
	eventually(t, "the other cluster has published again", func() error {
		raw, err := os.ReadFile(filepath.Join(here.state, "cluster", "records", "east.jsonl"))
		if err == nil && !strings.Contains(string(raw), `"name":"chat","uid"`) ||
			strings.Count(string(raw), `"epoch":2`) != 2 {
			err = fmt.Errorf("the records of east: got %s, want chat with its UID, and epoch 2 twice", raw)
		}
		return err
	})
	traffic.flows(t, 50)
	traffic.end(t)
	east.stop()
	here.stop()
	here.start()
	here.out.expect(t, "serves at")
	served("after a restart while the member is away")
	if text := here.penstock("status"); !strings.Contains(text, "member east: it is Unreachable") {
		t.Errorf("status: got\n%s\nwant that member east is Unreachable", text)
	}
	if text := here.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text,
		"east is Unreachable, and keeps what it exports") {
		t.Errorf("explain: got\n%s\nwant that east is Unreachable", text)
	}

	here.stop()
	here.findsDamage()
	east.start()
	served("connected again")
	eventually(t, "the findings are resolved", func() error {
		if text := here.penstock("status"); strings.Contains(text, "damaged") {
			return fmt.Errorf("status: got %s, want nothing damaged", text)
		}
		return nil
	})
}

// With `imports: All`, an import's requests also go to the local pool of that name.
func TestClusterSet_ImportsAllSharesWithTheLocalPool(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	const export = `inference.networking.x-k8s.io/export: ClusterSet`
	all := func(text string) string { return strings.Replace(text, "spec:\n", "spec:\n  imports: All\n", 1) }
	hereFiles := chatFiles(port, modelServer(t, modelserver.Config{Name: "here-1", Model: "public"}))
	hereFiles["pool.yaml"] = exportedPool(export)
	hereFiles["route.yaml"] = routeYAML("far", "/",
		"{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: chat}")
	hereFiles["set.yaml"] = all(clusterSetYAML("here"))
	here := up(t, hereFiles, "--members-listen", "127.0.0.1:0")
	eventually(t, "the only cluster that exports the pool serves", func() error {
		if got := ask(t, local(port),
			`{"model":"public","messages":[{"role":"user","content":"hello"}]}`); got.header.Get(
			"x-served-by") != "here-1" {
			return fmt.Errorf("got %d %s, want it from here-1; status:\n%s", got.status, got.body,
				here.penstock("status"))
		}
		return nil
	})
	eastFiles := chatFiles(freePort(t), modelServer(t, modelserver.Config{Name: "east-1", Model: "public"}))
	eastFiles["pool.yaml"], eastFiles["set.yaml"] = exportedPool(export), clusterSetYAML("east")
	east := up(t, eastFiles, "--members-listen", "127.0.0.1:0")
	here.write("set.yaml", all(clusterSetYAML("here", east.show())))
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	by := map[string]bool{}
	eventually(t, "both clusters serve", func() error {
		got := ask(t, local(port), `{"model":"public","messages":[{"role":"user","content":"hello"}]}`)
		if got.status == http.StatusOK {
			by[got.header.Get("x-served-by")] = true
		}
		if !by["here-1"] || !by["east-1"] {
			return fmt.Errorf("got %d %s, served by %v, want here-1 and east-1; status:\n%s", got.status, got.body, by,
				here.penstock("status"))
		}
		return nil
	})
	eventually(t, "the share of this cluster itself is listed", func() error {
		ask(t, local(port), `{"model":"public","messages":[{"role":"user","content":"hello"}]}`)
		if text := here.penstock("clusters", "list"); !regexp.MustCompile(
			`(?m)^to here itself: [1-9]\d* requests served, 0 failed`).MatchString(text) {
			return fmt.Errorf("clusters list: got %s, want some requests served to here itself, none failed", text)
		}
		return nil
	})
	here.write("set.yaml", clusterSetYAML("here", east.show()))
	eventually(t, "the other cluster alone serves", func() error {
		for range 10 {
			if got := ask(t, local(port),
				`{"model":"public","messages":[{"role":"user","content":"hello"}]}`); got.header.Get(
				"x-served-by") != "east-1" {
				return fmt.Errorf("got %d by %s, want east-1", got.status, got.header.Get("x-served-by"))
			}
		}
		return nil
	})
}

func exporter(t *testing.T, servers ...string) (gateway, picker int) {
	t.Helper()
	gateway, picker = freePort(t), freePort(t)
	up(t, chatFiles(gateway, servers...), "--picker", fmt.Sprintf("127.0.0.1:%d", picker), "--default-pool",
		"default/chat")
	return gateway, picker
}
