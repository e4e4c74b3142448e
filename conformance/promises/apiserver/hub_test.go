//go:build lab

package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

var (
	importKind = schema.GroupVersionResource{Group: "inference.networking.x-k8s.io", Version: "v1alpha1",
		Resource: "inferencepoolimports"}
	poolKind = schema.GroupVersionResource{Group: "inference.networking.k8s.io", Version: "v1",
		Resource: "inferencepools"}
	serviceKind = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

type hub struct {
	t    *testing.T
	dir  string
	page string
	kill func()
}

// newHub writes a hub's kubeconfigs and ClusterSet, and grants its permissions in each member.
// flags are for `penstock hub rules`.
func newHub(t *testing.T, members map[string]*server, set string, flags ...string) *hub {
	t.Helper()
	h := &hub{t: t, dir: t.TempDir()}
	for _, d := range []string{"set", "members"} {
		if err := os.Mkdir(filepath.Join(h.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := exec.CommandContext(t.Context(), "../../../bin/penstock",
		append([]string{"hub", "rules"}, flags...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range members {
		h.kubeconfig(name, s, "hub")
		for _, text := range strings.Split(string(rules), "\n---\n") {
			var kind struct{ Kind string }
			if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
				t.Fatal(err)
			}
			s.create(t, strings.ToLower(kind.Kind)+"s", text)
		}
	}
	write(t, filepath.Join(h.dir, "set", "set.yaml"), []byte(set))
	return h
}

func (h *hub) kubeconfig(name string, s *server, token string) {
	h.t.Helper()
	write(h.t, filepath.Join(h.dir, "members", name+".yaml"), fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: hub}}]
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: hub, user: {token: %s}}]
`, s.rest.Host, token))
}

func (h *hub) start(flags ...string) {
	h.t.Helper()
	h.page = "http://" + port(h.t) + "/members"
	h.kill = launch(h.t, h.dir, "hub", "../../../bin/penstock",
		append([]string{"hub", "-f", filepath.Join(h.dir, "set"), "--kubeconfigs", filepath.Join(h.dir, "members"),
			"--state", filepath.Join(h.dir, "state"), "--http",
			strings.TrimSuffix(strings.TrimPrefix(h.page, "http://"), "/members"), "--drain-time", "2s"}, flags...)...)
}

type members struct {
	Leading bool
	Members []struct {
		Name            string
		Read, Connected bool
		Missing         map[string]string
	}
	Problems map[string]struct{ Field, Problem, Fix string }
}

func (h *hub) members(ctx context.Context) (out members, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.page, nil)
	if err != nil {
		return out, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return out, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(raw, &out)
}

func (h *hub) measures(lines ...string) {
	h.t.Helper()
	labtest.Until(h.t, "the hub's metrics", func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Replace(h.page, "/members", "/metrics", 1),
			nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		raw, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if !strings.Contains("\n"+string(raw), "\n"+line) {
				own := slices.DeleteFunc(strings.Split(string(raw), "\n"),
					func(l string) bool { return !strings.HasPrefix(l, "penstock_hub") })
				return fmt.Errorf("got\n%s\nwant %s", strings.Join(own, "\n"), line)
			}
		}
		return nil
	})
}

// writes lists the hub's writes in a member so far, as "verb resource/subresource name".
func (s *server) writes(t *testing.T) (out []string) {
	t.Helper()
	raw, err := os.ReadFile(s.audit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var e struct {
			Verb           string
			ObjectRef      struct{ Resource, Subresource, Name string }
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal(line, &e) == nil && e.Verb != "" {
			out = append(out,
				fmt.Sprintf("%s %s/%s %s %d", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Name,
					e.ResponseStatus.Code))
		}
	}
	return out
}

func about(list []string, n int, name string) (out []string) {
	for _, w := range list[n:] {
		if strings.Contains(w, " "+name+" ") {
			out = append(out, w)
		}
	}
	return out
}

func (s *server) exported(t *testing.T, namespace, name, address string) {
	t.Helper()
	s.create(t, "services",
		fmt.Sprintf(
			"{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s-epp}, spec: {type: LoadBalancer, "+
				"selector: {app: epp}, ports: [{name: ext-proc, port: 9002}, {name: health, "+
				"port: 9003}]}}", namespace, name))
	s.balance(t, namespace, name+"-epp", address)
	s.create(t, "inferencepools",
		fmt.Sprintf(
			`{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {namespace: %s, name: %s, annotations: {inference.networking.x-k8s.io/export: ClusterSet}},
  spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: %s-epp, port: {number: 9002}}}}`, namespace, name, name))
}

func (s *server) balance(t *testing.T, namespace, name, address string) {
	t.Helper()
	if _, err := s.client.Resource(serviceKind).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"status": {"loadBalancer": {"ingress": [{"ip": %q}]}}}`, address), metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatal(err)
	}
}

// imports describes the import of a pool: its clusters with their pickers' addresses and the
// condition Ready.
func (s *server) imports(ctx context.Context, namespace, name string) (string, error) {
	u, err := s.client.Resource(importKind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "clusters")
	out := []string{}
	for _, c := range clusters {
		c := c.(map[string]any)
		text := fmt.Sprint(c["name"])
		services, _, _ := unstructured.NestedSlice(c, "endpointPicker", "service")
		for _, s := range services {
			text += fmt.Sprint(s.(map[string]any)["addresses"])
		}
		conditions, _, _ := unstructured.NestedSlice(c, "conditions")
		for _, condition := range conditions {
			if condition := condition.(map[string]any); condition["type"] == "Ready" {
				text += fmt.Sprintf(" %v/%v", condition["status"], condition["reason"])
			}
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return "import: " + strings.Join(out, ", "), nil
}

// hasImport waits until a pool's import is as wanted; "" means no import.
func (s *server) hasImport(t *testing.T, namespace, name, want string) {
	t.Helper()
	labtest.Until(t, "the import of "+name+" is "+want, func(ctx context.Context) error {
		got, err := s.imports(ctx, namespace, name)
		if err == nil && got != want {
			err = fmt.Errorf("it is %q, want %q", got, want)
		}
		return err
	})
}

func (s *server) hasExported(t *testing.T, namespace, name, want string) {
	t.Helper()
	labtest.Until(t, "the pool "+name+" is "+want, func(ctx context.Context) error {
		u, err := s.client.Resource(poolKind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := ""
		parents, _, _ := unstructured.NestedSlice(u.Object, "status", "parents")
		for _, p := range parents {
			conditions, _, _ := unstructured.NestedSlice(p.(map[string]any), "conditions")
			for _, c := range conditions {
				c := c.(map[string]any)
				if c["type"] != "Exported" {
					continue // condition of a Gateway
				}
				got += fmt.Sprintf("%v=%v/%v: %v", c["type"], c["status"], c["reason"], c["message"])
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			return fmt.Errorf("it is %q, want %q at its beginning", got, want)
		}
		return nil
	})
}

func (s *server) namespace(t *testing.T, name string) {
	t.Helper()
	s.create(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
}

func setOf(names ...string) string {
	text :=
		"{apiVersion: penstock.dev/v1alpha1, kind: ClusterSet, metadata: {name: gpus}, spec: {cluster: management, " +
			"members: ["
	for _, n := range names {
		text += "{name: " + n + ", kubeconfig: {file: " + n +
			".yaml}, allow: {namespaces: [other, team], cleartext: true}}, "
	}
	return strings.TrimSuffix(text, ", ") + "]}}\n"
}

// clusters starts API servers with the kinds that a hub reads and writes, but without Penstock.
func clusters(t *testing.T, names ...string) map[string]*server {
	t.Helper()
	out := map[string]*server{}
	for _, n := range names {
		s := start(t)
		s.install(t, "inferencepools", "inferencepoolimports")
		s.namespace(t, "kube-system-2") // waits until the API server accepts writes
		out[n] = s
	}
	return out
}

// twoExporters makes north export the pool chat, too. east also exports the pool mine, for which a
// user of west has created an import with another entry.
func twoExporters(t *testing.T, east, west, north *server) {
	t.Helper()
	north.exported(t, "team", "chat", "192.0.2.3")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.1] True/Ready, north[192.0.2.3] True/Ready")
	east.hasImport(t, "team", "chat", "import: north[192.0.2.3] True/Ready")
	west.create(t, "inferencepoolimports",
		"{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: InferencePoolImport, metadata: {namespace: team, "+
			"name: mine}}")
	if _, err := west.client.Resource(importKind).Namespace("team").Patch(t.Context(), "mine", types.MergePatchType,
		[]byte(`{"status": {"clusters": [{"name": "other", "routingMode": "ParentMode"}]}}`),
		metav1.PatchOptions{FieldManager: "a-person"}, "status"); err != nil {
		t.Fatal(err)
	}
	east.exported(t, "team", "mine", "192.0.2.2")
	west.hasImport(t, "team", "mine", "import: east[192.0.2.2] True/Ready, other")
	east.hasExported(t, "team", "mine", "Exported=True")
	north.hasExported(t, "team", "chat", "Exported=True")
}

func (h *hub) measuresExports(east *server) {
	h.t.Helper()
	h.measures(`penstock_hub_leading 1`, `penstock_hub_problems 0`, `penstock_hub_member_connected{member="west"} 1`,
		`penstock_hub_member_age_seconds{member="north"} `,
		`penstock_hub_exports{member="east",state="Exported"} 2`,
		`penstock_hub_imports{member="west",state="Imported"} 3`)
	east.namespace(h.t, "other")
	east.exported(h.t, "other", "lonely", "192.0.2.77")
	h.measures(`penstock_hub_exports{member="east",state="NamespaceNotFound"} 1`,
		`penstock_hub_imports{member="north",state="NamespaceNotFound"} 1`)
	if err := east.client.Resource(poolKind).Namespace("other").Delete(h.t.Context(), "lonely",
		metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
	h.measures(`penstock_hub_exports{member="east",state="Exported"} 2`,
		`penstock_hub_imports{member="west",state="Imported"} 3`)
}

func (h *hub) readAll() {
	h.t.Helper()
	labtest.Until(h.t, "the hub has read all members", func(ctx context.Context) error {
		members, err := h.members(ctx)
		if err != nil {
			return err
		}
		for _, m := range members.Members {
			if !m.Read || !m.Connected || len(m.Missing) > 0 {
				return fmt.Errorf("members: got %+v, want all read and connected, and none missing", members)
			}
		}
		return nil
	})
}

// No cluster has Penstock. A pool is annotated in one of three clusters, and the others get its
// import. The hub is killed and started again, and a cluster dies.
func TestHub_AnnotatedPoolIsImportedByClustersWithoutPenstock(t *testing.T) {
	servers := clusters(t, "east", "west", "north")
	east, west, north := servers["east"], servers["west"], servers["north"]
	east.namespace(t, "team")
	west.namespace(t, "team")
	h := newHub(t, servers, setOf("east", "west", "north"))
	h.start()
	east.exported(t, "team", "chat", "192.0.2.1")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.1] True/Ready")
	east.hasExported(t, "team", "chat",
		"Exported=False/NamespaceNotFound: imported by 1 member, and not by others: NamespaceNotFound: north")
	north.namespace(t, "team")
	north.hasImport(t, "team", "chat", "import: east[192.0.2.1] True/Ready")
	east.hasExported(t, "team", "chat", "Exported=True/Exported: imported by 2 members")

	twoExporters(t, east, west, north)

	// A changed export causes one write in each importing member, and none in its own.
	n := map[string]int{}
	count := func() {
		for name, s := range servers {
			n[name] = len(s.writes(t))
		}
	}
	count()
	east.balance(t, "team", "chat-epp", "192.0.2.9")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.9] True/Ready, north[192.0.2.3] True/Ready")
	north.hasImport(t, "team", "chat", "import: east[192.0.2.9] True/Ready")
	for name, want := range map[string]int{"east": 0, "west": 1, "north": 1} {
		if got := about(servers[name].writes(t), n[name], "chat"); len(got) != want {
			t.Errorf("a changed export: %d writes in %s, want %d: %v", len(got), name, want, got)
		}
	}

	h.measuresExports(east)

	// A restart without a change writes nothing. A marker shows that the new hub has read
	// everything.
	h.kill()
	count()
	h.start()
	h.readAll()
	east.exported(t, "team", "marker", "192.0.2.4")
	west.hasImport(t, "team", "marker", "import: east[192.0.2.4] True/Ready")
	east.hasExported(t, "team", "marker", "Exported=True")
	for name, s := range servers {
		for _, pool := range []string{"chat", "mine"} {
			if got := about(s.writes(t), n[name], pool); len(got) > 0 {
				t.Errorf("writes in %s after a restart without a change: got %v, want none", name, got)
			}
		}
	}

	// A dead member delays no other member. Its exports stay, also over a restart of the hub.
	north.stop()
	east.balance(t, "team", "chat-epp", "192.0.2.10")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.10] True/Ready, north[192.0.2.3] True/Ready")
	h.kill()
	h.start()
	east.balance(t, "team", "marker-epp", "192.0.2.5")
	west.hasImport(t, "team", "marker", "import: east[192.0.2.5] True/Ready")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.10] True/Ready, north[192.0.2.3] Unknown/Unreachable")
	east.hasExported(t, "team", "chat",
		"Exported=False/MemberUnreachable: imported by 1 member, and not by others: MemberUnreachable: north")

	// A withdrawn export drains and is then removed. A user's objects stay.
	for _, pool := range []string{"mine", "marker"} {
		east.annotate(t, pool, `{"inference.networking.x-k8s.io/export": null}`)
	}
	west.hasImport(t, "team", "marker", "")
	west.hasImport(t, "team", "mine", "import: other")
	east.hasExported(t, "team", "mine", "")

	write(t, filepath.Join(h.dir, "set", "set.yaml"), []byte(setOf("east", "west")))
	west.hasImport(t, "team", "chat", "import: east[192.0.2.10] True/Ready")
	east.hasExported(t, "team", "chat", "Exported=True/Exported: imported by 1 member")
}

func TestHub_MistakesOfMembersHarmNoOther(t *testing.T) {
	servers := clusters(t, "east", "west")
	for _, s := range servers {
		s.namespace(t, "team")
	}
	set := strings.Replace(setOf("east", "west"), "members: [", `members: [
  {name: stranger, kubeconfig: {file: stranger.yaml}}, {name: absent, kubeconfig: {file: absent.yaml}}, {name: context, kubeconfig: {file: east.yaml, context: no}},
  {name: profile, clusterProfile: {namespace: fleet, name: one}}, {name: dead, kubeconfig: {file: dead.yaml}}, `, 1)
	h := newHub(t, servers, set)
	h.kubeconfig("stranger", servers["east"], "stranger")
	h.kubeconfig("dead", &server{rest: servers["east"].rest}, "hub")
	raw, err := os.ReadFile(filepath.Join(h.dir, "members", "dead.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(h.dir, "members", "dead.yaml"),
		bytes.ReplaceAll(raw, []byte(servers["east"].rest.Host), []byte("https://"+port(t))))
	h.start()
	servers["east"].exported(t, "team", "chat", "192.0.2.1")
	servers["west"].hasImport(t, "team", "chat", "import: east[192.0.2.1] True/Ready")
	write(t, filepath.Join(h.dir, "set", "set.yaml"),
		[]byte(strings.Replace(set, "members: [", "members: [{name: twin, kubeconfig: {file: east.yaml}}, ", 1)))
	for member, want := range map[string][]string{
		"stranger": {"spec.members[stranger]", "may not list namespaces", "penstock hub rules"},
		"absent":   {"spec.members[absent].kubeconfig.file", "absent.yaml", "--kubeconfigs"},
		"context":  {"spec.members[context].kubeconfig.context", `no context "no"`, "name one of its contexts"},
		"profile":  {"spec.members[profile].clusterProfile", "no management cluster", "write a kubeconfig"},
		"twin":     {"spec.members[twin]", "the same cluster as member east", "remove one of them"},
		"dead":     {"spec.members[dead]", "cannot be used", "tried again"},
	} {
		labtest.Until(t, "what is wrong with member "+member, func(ctx context.Context) error {
			members, err := h.members(ctx)
			if err != nil {
				return err
			}
			got := fmt.Sprint(members.Problems[member])
			for _, w := range want {
				if !strings.Contains(got, w) {
					return fmt.Errorf("got %s, want %q", got, w)
				}
			}
			return nil
		})
	}
	servers["east"].hasExported(t, "team", "chat",
		"Exported=False/MemberUnreachable: imported by 1 member, and not by others: MemberUnreachable: absent, "+
			"context, dead, profile, stranger, twin")
}
