package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
)

// managementCluster is an API server, and a kubeconfig for it.
func managementCluster(t *testing.T) (*kubetest.Server, string) {
	t.Helper()
	api := kubetest.New(t)
	api.Install(v1alpha1.Group, "clustersets", v1alpha1.Version)
	api.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}")
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, namespace: penstock-system}}], clusters: [{name: a, cluster: {server: %q}}]}", api.Config().Host)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return api, path
}

// A hub that would have other keys after each start, or an address that no member reaches, does not start.
func TestHub_RelayInAClusterNamesTheFlagsThatItNeeds(t *testing.T) {
	_, kubeconfig := managementCluster(t)
	open := t.TempDir()
	if err := os.WriteFile(filepath.Join(open, "authority.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	const every, none = "is every address of that machine, and can't be reached from another one: write HOST:PORT", "is no address that can be reached: write HOST:PORT"
	for _, c := range []struct {
		what, want string
		args       []string
	}{
		{"no state folder", "must outlast the process: name it with --state FOLDER", []string{"--members-listen", "192.0.2.9:18443"}},
		{"a folder that others read", "is open to other users", []string{"--members-listen", "192.0.2.9:18443", "--state", open}},
		{"every address", "--members-address: 0.0.0.0:18443 " + every, []string{"--members-listen", "0.0.0.0:18443", "--state", t.TempDir()}},
		{"every address by no host", `--members-address: ":18443" ` + none, []string{"--members-listen", ":18443", "--state", t.TempDir()}},
		{"a port that is chosen later", `--members-address: "127.0.0.1:0" ` + none, []string{"--members-listen", "127.0.0.1:0", "--state", t.TempDir()}},
	} {
		if out, err := penstock(t, append([]string{"hub", "--kubeconfig", kubeconfig}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q; output %s", c.what, err, c.want, out)
		}
	}
}

// A hub of a management cluster is joined as a Penstock on Kubernetes is: clusters show prints it, by its folder and by its address, before and after it
// was started again, and clusters join prints its ClusterSet with a member, which it then relays.
func TestHub_ShowAndJoinTakeTheHubOfACluster(t *testing.T) {
	t.Parallel()
	api, kubeconfig := managementCluster(t)
	api.Apply(t, "clustersets", clusterSetYAML("hub"))
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	page := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	h := prepare(t, nil, "hub", "--kubeconfig", kubeconfig, "--members-listen", address, "--members-address", "hub.example.com:18443", "--admin", page)
	h.exec(append(h.args, "--state", h.state)...)
	text := h.show()
	var list []v1alpha1.ClusterSetMember
	if err := yaml.UnmarshalStrict([]byte(text), &list); err != nil || len(list) != 1 || list[0].Name != "hub" || list[0].Peer.Address != "hub.example.com:18443" || !list[0].Peer.Hub {
		t.Fatalf("clusters show prints %v\n%s", err, text)
	}
	if out, err := penstock(t, "clusters", "show", "--http", page); err != nil || out != text {
		t.Errorf("by its address it prints %v\n%s", err, out)
	}
	if out, err := penstock(t, "clusters", "list", "--http", page); err != nil || !strings.HasPrefix(out, "hub is a hub, which exports and imports no pool: its page /members ") {
		t.Errorf("clusters list prints %v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "east.yaml")
	if err := os.WriteFile(file, []byte(memberYAML(t, "east", "127.0.0.1:1", caBundle(t, time.Hour))), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := penstock(t, "clusters", "join", file, "--http", page)
	line, set, found := strings.Cut(out, "\n")
	if err != nil || !found || !strings.HasPrefix(line, "east is a member now of ClusterSet gpus, once what follows is applied") {
		t.Fatalf("clusters join prints %v\n%s", err, out)
	}
	api.Apply(t, "clustersets", set)
	eventually(t, "the hub has the member", func() error {
		var is struct{ Relayed []federation.RelayedStatus }
		if err := runningAt(page).get(t.Context(), "/members", &is); err != nil || len(is.Relayed) != 1 || is.Relayed[0].Name != "east" {
			return fmt.Errorf("%+v %w", is, err)
		}
		return nil
	})

	h.stop()
	if err := os.Remove(filepath.Join(h.state, "cluster", "member.yaml")); err != nil {
		t.Fatal(err)
	}
	h.exec(append(h.args, "--state", h.state)...)
	if again := h.show(); again != text {
		t.Errorf("after the next start:\n%s\nbefore:\n%s", again, text)
	}
}

// A second hub of a folder would connect to all members, and write other keys and addresses over those that members have joined.
func TestHub_SecondOneOfAStateFolderEndsBeforeItConnects(t *testing.T) {
	t.Parallel()
	h := relayHub(t)
	joined := h.show()
	eventually(t, "the hub serves its state folder", func() error {
		if app.Unserved(h.state) == nil {
			return errors.New("no process serves it")
		}
		return nil
	})
	out, err := penstock(t, "hub", "-f", h.dir, "--state", h.state, "--members-listen", "127.0.0.1:0")
	if err == nil || !strings.Contains(err.Error(), "another penstock serves this state folder already ("+h.state+")") {
		t.Errorf("a second hub: %v\n%s", err, out)
	}
	if again := h.show(); again != joined {
		t.Errorf("members join with\n%s\nbefore:\n%s", again, joined)
	}
}

// In the folder of a hub the commands of a cluster name the hub's page: they would look for a penstock up, or write a drain that has no effect.
func TestHub_CommandsForItsFolderNameItsPage(t *testing.T) {
	t.Parallel()
	h := relayHub(t)
	h.show()
	written, err := os.ReadFile(filepath.Join(h.dir, "set.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "hub is a hub, which exports and imports no pool: its page /members (at its --admin, or its --http on a loopback address)"
	in := []string{"-f", h.dir, "--state", h.state}
	for _, c := range []struct {
		fails bool
		args  []string
	}{{false, []string{"clusters", "list"}}, {true, []string{"clusters", "list", "--watch"}}, {true, []string{"status"}}, {true, []string{"status", "--watch"}}, {true, []string{"clusters", "drain"}}} {
		out, err := penstock(t, append(c.args, in...)...)
		if (err != nil) != c.fails || !strings.Contains(fmt.Sprint(out, err), want) {
			t.Errorf("penstock %s: %v\n%s", strings.Join(c.args, " "), err, out)
		}
	}
	if now, err := os.ReadFile(filepath.Join(h.dir, "set.yaml")); err != nil || string(now) != string(written) {
		t.Errorf("the ClusterSet has changed: %v\n%s", err, now)
	}
}
