package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/retry"
	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
)

const (
	systemNamespace = `{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}`
	teamNamespace   = `{apiVersion: v1, kind: Namespace, metadata: {name: team}}`
	pickerService   = `{apiVersion: v1, kind: Service, metadata: {namespace: team, name: chat-epp},
  spec: {type: LoadBalancer, ports: [{port: 9002}]}, status: {loadBalancer: {ingress: [{ip: 10.128.0.5}]}}}`
	exportedPool = `{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool,
  metadata: {namespace: team, name: chat, annotations: {inference.networking.x-k8s.io/export: ClusterSet}},
  spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}],
    endpointPickerRef: {name: chat-epp, port: {number: 9002}}}}`
)

func honestServer(t *testing.T, exports bool) (api *kubetest.Server, url string) {
	api = kubetest.New(t)
	api.Apply(t, "namespaces", systemNamespace)
	api.Apply(t, "namespaces", teamNamespace)
	if exports {
		api.Apply(t, "services", pickerService)
		api.Apply(t, "inferencepools", exportedPool)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi/v3" {
			_, _ = w.Write([]byte(`{"paths":{}}`))
			return
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		api.Cut()
		server.CloseClientConnections()
		server.Close()
	})
	return api, server.URL
}

// hubOf runs a hub within the chart's limits. servers are its members' API servers. pages is the
// address of the hub's pages.
func hubOf(t *testing.T, servers map[string]string) (hub *process.Process, c *confinement, pages string) {
	dir := t.TempDir()
	set := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: set}\n" +
		"spec:\n  cluster: management\n  members:\n"
	for name, url := range servers {
		set += fmt.Sprintf("  - {name: %[1]s, kubeconfig: {file: %[1]s.yaml}, "+
			"allow: {podCIDRs: [10.128.0.0/9], namespaces: [team]}}\n", name)
		text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: it,
  contexts: [{name: it, context: {cluster: it, user: it}}],
  clusters: [{name: it, cluster: {server: %q}}], users: [{name: it, user: {}}]}`, url)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "set.yml"), []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	limit, err := chartMemory("penstock", "hub", "resources")
	if err != nil {
		t.Fatal(err)
	}
	port := processtest.Port(t)
	c = confine("hub", limits{Memory: limit, Files: openFiles})
	t.Cleanup(c.release)
	binary, args := c.command(binaries.penstock, "hub", "-f", filepath.Join(dir, "set.yml"), "--kubeconfigs", dir,
		"--state", filepath.Join(dir, "state"),
		"--admin", local(port), "--memory-limit", fmt.Sprint(limit))
	log := filepath.Join(dir, "hub.log")
	if hub, err = process.Start("hub", log, binary, nil, args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = hub.Stop(10 * time.Second)
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("the log of the hub:\n%s", text[max(0, len(text)-8<<10):])
		}
	})
	return hub, c, "http://" + local(port)
}

func TestHub_MillionsOfObjectsOfOneMemberLeaveOthersServed(t *testing.T) {
	servers := map[string]string{}
	for name, h := range map[string]*hostileServer{"pages": {}, "whole": {whole: true}, "watched": {watched: true}} {
		server := httptest.NewServer(h)
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		servers[name] = server.URL
	}
	_, servers["east"] = honestServer(t, true)
	west, url := honestServer(t, false)
	servers["west"] = url
	hub, c, pages := hubOf(t, servers)
	problems := func() (string, error) {
		resp, err := http.Get(pages + "/members")
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		var page struct {
			Problems map[string]struct{ Field, Problem, Fix string }
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		return fmt.Sprint(page.Problems), err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // the hub reads millions of objects
	defer cancel()
	err := retry.Until(ctx, 100*time.Millisecond, func(context.Context) error {
		if err := hub.Running(); err != nil {
			_, killed := c.check(hub)
			t.Fatal(err, killed)
		}
		text, err := problems()
		if err != nil {
			return err
		}
		for _, want := range []string{
			"spec.members[pages]", "spec.members[whole]", "spec.members[watched]", "left out", "services",
			"inferencepools",
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("problems: got %s, want %q", text, want)
			}
		}
		imported := fmt.Sprint(west.Get("inference.networking.x-k8s.io", "inferencepoolimports", "team/chat"))
		if !strings.Contains(imported, "name:east") {
			return fmt.Errorf("west has imported %s, want name:east; problems: %s", imported, text)
		}
		return nil
	})
	if err != nil {
		t.Error("honest members are served, and the hostile ones are named: ", err)
	}
	peak, err := c.check(hub)
	if err != nil {
		t.Error(err)
	}
	limit := c.memory()
	t.Logf("%d MiB at the peak, of %d (%s)", peak>>20, limit>>20, c.how())
	if peak > limit/2 {
		t.Errorf("the hub took %d MiB, want at most half of its limit of %d MiB", peak>>20, limit>>20)
	}
	measured.ofHub(peak, limit)
}
