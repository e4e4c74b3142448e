//go:build lab

package apiserver

import (
	"context"
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
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

var clusterSets = schema.GroupVersionResource{Group: "penstock.dev", Version: "v1alpha1", Resource: "clustersets"}

func clustersCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../../bin/penstock", append([]string{"clusters"}, args...)...).
		CombinedOutput()
	if err != nil {
		return "error: " + string(out)
	}
	return string(out)
}

func prints(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("got\n%s\nwant %q", out, text)
		}
	}
}

func (s *server) set(t *testing.T) map[string]any {
	t.Helper()
	u, err := s.client.Resource(clusterSets).Get(t.Context(), "gpus", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u.Object["spec"].(map[string]any)
}

// applySet applies ClusterSet gpus with a field manager, as kubectl or a GitOps tool does.
func (s *server) applySet(t *testing.T, manager, spec string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(
		[]byte("{apiVersion: penstock.dev/v1alpha1, kind: ClusterSet, metadata: {name: gpus}, spec: "+spec+"}"),
		&u.Object); err != nil {
		t.Fatal(err)
	}
	labtest.Until(t, "the ClusterSet is applied", func(context.Context) error {
		_, err := s.client.Resource(clusterSets).Apply(t.Context(), "gpus", u,
			metav1.ApplyOptions{FieldManager: manager, Force: true})
		return err
	})
}

// `penstock clusters` drains a cluster on Kubernetes, ends the drain, and makes the cluster leave.
// Two processes serve the cluster.
func TestClusterSet_KubernetesDrainsAndLeavesByCommands(t *testing.T) {
	s := start(t)
	s.install(t, "*")
	members := fmt.Sprintf("members: [{name: west, peer: {address: \"127.0.0.1:1\", bundle: %q}}]", s.ca)
	s.applySet(t, "kubectl", "{cluster: east, region: north, "+members+"}")
	config := s.kubeconfig(t)
	var at []string
	for _, name := range []string{"one", "two"} {
		dir, http := filepath.Join(t.TempDir(), name), port(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		launch(t, dir, "penstock", "../../../bin/penstock", "serve", "--kubeconfig", config, "--state",
			filepath.Join(dir, "state"), "--picker", "127.0.0.1:0", "--http", http, "--members-listen", "127.0.0.1:0")
		labtest.Until(t, "the process has the ClusterSet", func(context.Context) error {
			if out := clustersCommand(t, "list", "--http", http); !strings.Contains(out, "Cluster east") {
				return fmt.Errorf("clusters list: got %s, want Cluster east", out)
			}
			return nil
		})
		at = append(at, http)
	}
	both := []string{"--kubeconfig", config, "--http", strings.Join(at, ",")}
	draining := func(want bool) {
		t.Helper()
		spec := s.set(t)
		if drained, _ := spec["draining"].(bool); drained != want || spec["region"] != "north" {
			t.Errorf("spec is %v, want draining: %v", spec, want)
		}
		for _, http := range at {
			if out := clustersCommand(t, "list", "--http", http); strings.Contains(out, "is draining") != want {
				t.Errorf("%s: clusters list: got %s, want that it is draining: %t", http, out, want)
			}
		}
	}
	prints(t, clustersCommand(t, append([]string{"drain"}, both...)...),
		"Cluster east drains: 0 requests of other clusters are in flight\n", "Member west is not connected: ",
		"error: ",
		"member west is not connected, and sends requests: the drain of cluster east stays in force, and reaches it "+
			"when it connects")
	draining(true)
	// the same manifest again, without spec.draining
	s.applySet(t, "kubectl", "{cluster: east, region: north, "+members+"}")
	draining(true)
	prints(t, clustersCommand(t, append([]string{"drain", "--undo"}, both...)...),
		"Cluster east takes requests of its members again\n")
	draining(false)
	if _, err := s.client.Resource(clusterSets).Patch(t.Context(), "gpus", types.MergePatchType,
		[]byte(`{"spec":{"draining":true}}`), metav1.PatchOptions{FieldManager: "kubectl-patch"}); err != nil {
		t.Fatal(err)
	}
	prints(t, clustersCommand(t, append([]string{"drain", "--undo"}, both...)...),
		"Cluster east takes requests of its members again\n")
	draining(false)
	prints(t, clustersCommand(t, "drain", "--kubeconfig", config),
		"ClusterSet gpus is changed; name each penstock with --http to wait")
	prints(t, clustersCommand(t, append([]string{"leave"}, both...)...), "error: ", "member west is not connected",
		"no member is removed")
	prints(t, clustersCommand(t, append([]string{"leave", "--force"}, both...)...),
		"Cluster east has left. Remove the member east from the ClusterSet of west\n")
	draining(false)
	if left := s.set(t)["members"]; left != nil {
		t.Errorf("members %v after leaving", left)
	}
	prints(t, clustersCommand(t, append([]string{"leave"}, both...)...), "error: ",
		"ClusterSet gpus: spec.members: it has none, so there is nothing to leave")
	s.applySet(t, "kubectl", "{cluster: west}")
	prints(t, clustersCommand(t, "drain", "--kubeconfig", config, "--http", "127.0.0.1:1"), "error: ",
		"no penstock answers at 127.0.0.1:1")
	if s.set(t)["draining"] != nil {
		t.Error("the drain of a process that is not there is written")
	}
}

func TestClusterSet_KubernetesDrainNamesWhatStandsInTheWay(t *testing.T) {
	s := start(t)
	config := s.kubeconfig(t)
	drain := func(want ...string) {
		t.Helper()
		prints(t, clustersCommand(t, "drain", "--kubeconfig", config), append(want, "error: ")...)
	}
	drain("does not serve the kind ClusterSet (penstock.dev/v1alpha1): install the CRDs of Penstock's chart")
	s.install(t, "clustersets")
	labtest.Until(t, "the kind is served", func(ctx context.Context) error {
		_, err := s.client.Resource(clusterSets).List(ctx, metav1.ListOptions{})
		return err
	})
	drain("there is no ClusterSet at https://127.0.0.1:", "apply one, with the name of this cluster in spec.cluster")
	s.applySet(t, "flux",
		fmt.Sprintf(
			"{cluster: east, draining: false, members: [{name: west, peer: {address: \"127.0.0.1:1\", bundle: %q}}]}",
			s.ca))
	drain("ClusterSet gpus: spec.draining: flux has written it, and may write it again: set it to true there")
	s.applySet(t, "flux",
		fmt.Sprintf("{cluster: east, members: [{name: west, peer: {address: \"127.0.0.1:1\", bundle: %q}}]}", s.ca))
	prints(t, clustersCommand(t, "leave", "--kubeconfig", config, "--http", "127.0.0.1:1"), "error: ",
		"ClusterSet gpus: spec.members: flux has written it, and may write it again: run penstock clusters drain, "+
			"and remove it there")
	s.create(t, "clustersets",
		"{apiVersion: penstock.dev/v1alpha1, kind: ClusterSet, metadata: {name: more}, spec: {cluster: east}}")
	drain("there are several ClusterSets", "keep one of gpus, more")
	if err := s.client.Resource(clusterSets).Delete(t.Context(), "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h := &hub{t: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(h.dir, "members"), 0o700); err != nil {
		t.Fatal(err)
	}
	as := func(user string) string {
		h.kubeconfig(user, s, user)
		return filepath.Join(h.dir, "members", user+".yaml")
	}
	prints(t, clustersCommand(t, "drain", "--kubeconfig", as("stranger")), "error: ",
		"ClusterSet: the user of --kubeconfig is forbidden to list it: allow list and patch of clustersets in group "+
			"penstock.dev")
	prints(t, clustersCommand(t, "drain", "--kubeconfig", as("unknown")), "error: ",
		"the credentials of --kubeconfig are not valid at https://127.0.0.1:")
	s.create(t, "clusterroles",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}, rules: [{apiGroups: "+
			"[penstock.dev], resources: [clustersets], verbs: [list]}]}")
	s.create(t, "clusterrolebindings",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reader}, roleRef: "+
			"{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}, subjects: [{apiGroup: "+
			"rbac.authorization.k8s.io, kind: User, name: stranger}]}")
	labtest.Until(t, "the user may read", func(context.Context) error {
		if out := clustersCommand(t, "drain", "--kubeconfig", as("stranger")); !strings.Contains(out,
			"ClusterSet gpus: spec.draining: the user of --kubeconfig is forbidden to patch it") {
			return fmt.Errorf("clusters drain: got %s, want that the user is forbidden to patch spec.draining", out)
		}
		return nil
	})
	if draining := s.set(t)["draining"]; draining != nil {
		t.Errorf("draining: %v after errors alone", draining)
	}
	s.stop()
	drain("ClusterSet: the API server at https://127.0.0.1:", "cannot be reached", "connection refused", "--kubeconfig")
	prints(t, clustersCommand(t, "drain", "--kubeconfig", "none"), "error: ", "--kubeconfig none: ")
	prints(t, clustersCommand(t, "drain", "--http", "127.0.0.1:1"), "error: ", "--http needs --kubeconfig")
}
