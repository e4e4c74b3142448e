//go:build lab

package apiserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

var podKind = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// pod makes a pod of the pools that are exported, ready at an address.
func (s *server) pod(t *testing.T, namespace, name, ip string) {
	t.Helper()
	s.create(t, "pods", fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: %s, labels: {app: x}}, spec: {nodeName: none, containers: [{name: server, image: server}]}}", namespace, name))
	s.setStatus(t, podKind, namespace, name, fmt.Sprintf(`{"phase": "Running", "podIP": %q, "podIPs": [{"ip": %q}], "conditions": [{"type": "Ready", "status": "True"}]}`, ip, ip))
}

// folder is a Penstock that serves a folder, as a member of a hub.
type folder struct {
	t          *testing.T
	dir, state string
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{t, t.TempDir(), filepath.Join(t.TempDir(), "state")}
	return f
}

// run runs a command about it.
func (f *folder) run(ctx context.Context, args ...string) (string, error) {
	raw, err := exec.CommandContext(ctx, "../../../bin/penstock", append(args, "-f", f.dir, "--state", f.state)...).CombinedOutput()
	return string(raw), err
}

// prints waits until a command about it prints something.
func (f *folder) prints(want *regexp.Regexp, args ...string) {
	f.t.Helper()
	text := ""
	labtest.Until(f.t, strings.Join(args, " ")+" prints "+want.String(), func(ctx context.Context) error {
		if now, err := f.run(ctx, args...); err == nil || ctx.Err() == nil {
			text = now
		}
		if !want.MatchString(text) {
			return fmt.Errorf("it prints %s", text)
		}
		return nil
	})
}

// show is the cluster as a member of others: an element of a list.
func (f *folder) show() (text string) {
	f.t.Helper()
	labtest.Until(f.t, "clusters show", func(ctx context.Context) (err error) {
		text, err = f.run(ctx, "clusters", "show")
		return err
	})
	return text
}

// withMembers is a ClusterSet with lists of members.
func withMembers(cluster string, lists ...string) string {
	text := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: " + cluster + "\n  members:\n"
	for _, list := range lists {
		for line := range strings.Lines(strings.TrimSpace(list)) {
			text += "  " + strings.TrimSuffix(line, "\n") + "\n"
		}
	}
	return text
}

// has waits until what the cluster keeps of another one matches, or does not with a "!" before.
func (f *folder) has(cluster, pattern string) {
	f.t.Helper()
	text, not := strings.CutPrefix(pattern, "!")
	labtest.Until(f.t, "the records of "+cluster+" have "+pattern, func(context.Context) error {
		raw, err := os.ReadFile(filepath.Join(f.state, "cluster", "records", cluster+".jsonl"))
		if err == nil && regexp.MustCompile(text).Match(raw) == not {
			err = fmt.Errorf("%s", raw)
		}
		return err
	})
}

// A cluster without Penstock and a Penstock exchange pools through a hub, which has the permissions in the first that it prints, and is killed.
func TestHub_ClusterWithoutPenstockAndAPenstockExchangePools(t *testing.T) {
	of := clusters(t, "east")
	east := of["east"]
	east.namespace(t, "team")
	h := newHub(t, of, withMembers("hub", "- {name: east, kubeconfig: {file: east.yaml}}"), "--pods")
	number, err := freeport.Find() // it is listened at again and again
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", number)
	h.start("--members-listen", address)
	hub := &folder{t, filepath.Join(h.dir, "set"), filepath.Join(h.dir, "state")}
	north := newFolder(t)
	write(t, filepath.Join(north.dir, "set.yaml"), []byte(withMembers("north", hub.show(), "- {name: east}")))
	write(t, filepath.Join(north.dir, "pool.yaml"), []byte(`
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {namespace: team, name: back, annotations: {inference.networking.x-k8s.io/export: ClusterSet}}
spec: {selector: {matchLabels: {app: back}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {namespace: team, name: back, labels: {app: back}}
spec: {servers: [{address: 127.0.0.1, ports: [8000]}]}
`))
	launch(t, filepath.Dir(north.state), "north", "../../../bin/penstock", "serve", "-f", north.dir, "--state", north.state, "--xds", "127.0.0.1:0", "--picker", "127.0.0.1:0", "--members-listen", "127.0.0.1:0")
	write(t, filepath.Join(hub.dir, "set.yaml"), []byte(withMembers("hub", north.show(), "- {name: east, kubeconfig: {file: east.yaml}}")))

	east.exported(t, "team", "chat", "192.0.2.1")
	for name, ip := range map[string]string{"one": "10.1.0.7", "two": "10.1.0.8"} {
		east.pod(t, "team", name, ip)
	}
	north.has("east", `192\.0\.2\.1`)
	north.has("east", `"endpoints":\[\{"address":"10\.1\.0\.7"\},\{"address":"10\.1\.0\.8"\}\]`)
	east.hasExported(t, "team", "chat", "Exported=True/Exported: imported by 1 member")
	east.hasImport(t, "team", "back", "import: north[127.0.0.1] True/Ready")
	exported := regexp.MustCompile(`team/back +InferencePoolImport back .*True`)
	north.prints(exported, "status")
	now := int64(0)
	if err := east.client.Resource(podKind).Namespace("team").Delete(t.Context(), "one", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	north.has("east", `"endpoints":\[\{"address":"10\.1\.0\.8"\}\]`)

	// A restart writes nothing that has not changed.
	h.kill()
	n := len(east.writes(t))
	h.start("--members-listen", address)
	east.exported(t, "team", "marker", "192.0.2.4")
	north.has("east", `192\.0\.2\.4`)
	east.hasExported(t, "team", "marker", "Exported=True/Exported: imported by 1 member")
	east.hasImport(t, "team", "back", "import: north[127.0.0.1] True/Ready")
	for _, name := range []string{"chat", "back"} {
		if got := about(east.writes(t), n, name); len(got) > 0 {
			t.Errorf("a restart without a change writes %v", got)
		}
	}

	// The API server is gone: nothing of it is withdrawn, over a restart of the hub, too.
	east.stop()
	h.kill()
	h.start("--members-listen", address)
	north.prints(regexp.MustCompile(`(?m)^east +(Stale|Unreachable)`), "clusters", "list")
	north.has("east", `192\.0\.2\.1`)
	north.has("east", `!"withdrawn":true`)
}
