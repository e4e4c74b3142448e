package hub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// lines is a log that tests may read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// problems returns the value of the metric penstock_hub_problems.
func problems(t *testing.T, h *Hub) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "penstock_hub_problems" {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no penstock_hub_problems")
	return 0
}

// A hub ignores members with a peer, because their Penstocks exchange exports without a hub. If a
// ClusterSet has only such members, the hub does nothing, so it logs why. The hub checks the
// ClusterSet every few seconds, but must log this only once.
func TestHub_MembersWithAPeerAloneAreAProblemThatIsLoggedOnce(t *testing.T) {
	var log lines
	h, err := New(Config{StateDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	set := &v1alpha1.ClusterSet{}
	peer, kubeconfig := &v1alpha1.ClusterSetPeer{Address: "192.0.2.1:9443"},
		&v1alpha1.ClusterSetKubeconfig{File: "west"}
	set.Spec.Members = []v1alpha1.ClusterSetMember{{Name: "east", Peer: peer}}
	for range 3 {
		h.wanted(set)
	}
	status := h.status()
	if status.Problem == nil || !strings.Contains(status.Problem.Problem, "relays nothing") ||
		!strings.Contains(status.Problem.Fix, "penstock clusters join") ||
		!slices.Equal(status.Peers, []string{"east"}) {
		t.Errorf("got %+v, want a problem that it relays nothing, and the peer east", status)
	}
	text := log.String()
	if strings.Count(text, "relays nothing") != 1 ||
		strings.Count(text, "the hub ignores members that have a peer") != 1 {
		t.Errorf("the log has\n%s\nwant both lines once", text)
	}
	set.Spec.Members = append(set.Spec.Members, v1alpha1.ClusterSetMember{Name: "west", Kubeconfig: kubeconfig})
	names, _ := h.wanted(set)
	status = h.status()
	if status.Problem != nil || len(status.Problems) != 0 ||
		!slices.Equal(append(status.Peers, names...), []string{"east", "west"}) {
		t.Errorf("with a member of both kinds: got members %q, %+v, want no problem, the peer east, and west", names,
			status)
	}
}

func TestHub_DrainingOfAMemberThatDrainsItselfIsAProblem(t *testing.T) {
	h, err := New(Config{StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	set := &v1alpha1.ClusterSet{}
	set.Spec.Members = []v1alpha1.ClusterSetMember{
		{Name: "east", Draining: true, Peer: &v1alpha1.ClusterSetPeer{Address: "192.0.2.1:9443"}},
		{Name: "west", Draining: true, Kubeconfig: &v1alpha1.ClusterSetKubeconfig{File: "west"}},
	}
	names, _ := h.wanted(set)
	if problem := h.status().Problems["east"+undrained]; !slices.Equal(names, []string{"west"}) ||
		len(h.status().Problems) != 1 || problem == nil || problem.Field != "spec.members[east].draining" ||
		!strings.Contains(problem.Fix, "penstock clusters drain") {
		t.Errorf("got members %q; %+v, want west, and one problem, of draining of east", names, h.status().Problems)
	}
	set.Spec.Members[0].Draining = false
	if h.wanted(set); len(h.status().Problems) != 0 {
		t.Errorf("corrected: %+v, want none", h.status().Problems)
	}
}

// While a ClusterSet has an error, the previous version stays in use. The page must show a finding,
// because its members may be out of date.
func TestHub_FindingsOfItsFilesAreOnItsPageUntilCorrected(t *testing.T) {
	dir := t.TempDir()
	write := func(member string) {
		t.Helper()
		text :=
			"apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: hub\n  " +
				"members:\n  - " + member + "\n"
		if err := os.WriteFile(filepath.Join(dir, "set.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{name: east}")
	var log lines
	h, err := New(Config{Paths: []string{dir}, StateDir: t.TempDir(), Kubeconfigs: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, h.Run)
	shown := func(what string, check func(problems map[string]*mistake) bool) {
		t.Helper()
		poll.NoError(t, what, poll.Limit, func() error {
			if status := h.status(); !status.Leading || !check(status.Problems) {
				return fmt.Errorf("got %+v, want it to lead, with %s", status, what)
			}
			return nil
		})
	}
	const key = "ClusterSet gpus spec.members[0]"
	shown("the finding", func(problems map[string]*mistake) bool {
		problem := problems[key]
		return problem != nil && problem.Field == "spec.members[0]" &&
			strings.Contains(problem.Problem, "it has no peer, kubeconfig or clusterProfile")
	})
	page, err := json.Marshal(h.status())
	if text := string(page); err != nil || !strings.Contains(text,
		`"field":"spec.members[0]","problem":"it has no peer, kubeconfig or clusterProfile: add`) {
		t.Errorf("a finding of the page: got %v %s, want the keys field and problem", err, text)
	}
	poll.NoError(t, "the count of problems", poll.Limit, func() error {
		status := h.status()
		// The missing ClusterSet is a further problem, which Problems does not have.
		if got, want := problems(t, h), float64(1+len(status.Problems)); status.Problem == nil || got != want {
			return fmt.Errorf("penstock_hub_problems is %v, want %v: %+v", got, want, status)
		}
		return nil
	})
	write("{name: east, kubeconfig: {file: east}}")
	shown("no finding once it is corrected", func(problems map[string]*mistake) bool { return problems[key] == nil })
	const resolved = `level=INFO msg="a problem of the cluster set is resolved" object="ClusterSet gpus" ` +
		`field=spec.members[0]`
	poll.NoError(t, "the log of the correction", poll.Limit, func() error { // written after the page has changed
		if text := log.String(); strings.Count(text, "it has no peer, kubeconfig or clusterProfile") != 1 ||
			!strings.Contains(text, resolved) {
			return fmt.Errorf("the log has\n%s\nwant the problem once, and that it is resolved", text)
		}
		return nil
	})
}
