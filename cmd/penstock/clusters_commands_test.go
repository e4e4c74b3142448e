package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/modelserver"
)

func (s *site) join(other *site) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "other.yaml")
	for _, side := range []struct {
		at   *site
		text string
	}{{s, other.show()}, {other, ""}} {
		if side.text == "" {
			side.text = s.show()
		}
		if err := os.WriteFile(path, []byte(side.text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		if out := side.at.penstock("clusters", "join", path, "--allow-namespaces", "default"); !strings.Contains(out,
			"is a member now") {
			s.t.Fatalf("join: %s", out)
		}
	}
}

func (s *site) lists(want string) {
	s.t.Helper()
	eventually(s.t, "clusters list has "+want, func() error {
		text := s.penstock("clusters", "list")
		for line := range strings.Lines(text) {
			if strings.Contains(strings.Join(strings.Fields(line), " "), want) {
				return nil
			}
		}
		return errors.New(text)
	})
}

func exportingSite(t *testing.T, name string) *site {
	t.Helper()
	files := chatFiles(freePort(t), modelServer(t, modelserver.Config{Name: name + "-1", Model: "llama"}))
	files["set.yaml"] = clusterSetYAML(name)
	files["pool.yaml"] = exportedPool("inference.networking.x-k8s.io/export: ClusterSet")
	return up(t, files, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)), "--picker",
		"127.0.0.1:"+fmt.Sprint(freePort(t)))
}

func servedBy(t *testing.T, port int, by string, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s serves: %v", by, want), func() error {
		for range 20 {
			got, err := chat(t.Context(), local(port))
			if err != nil {
				return err
			}
			switch server := got.header.Get("x-served-by"); {
			case got.status != http.StatusOK:
				return fmt.Errorf("got %d %s, want 200", got.status, got.body)
			case server == by && want:
				return nil
			case server == by:
				return fmt.Errorf("served by %s, want another one", server)
			}
		}
		if want {
			return errors.New("none of 20 requests")
		}
		return nil
	})
}

func TestClusterSet_DrainAndLeaveFailNoRequest(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"),
		"route.yaml": routeYAML("far", "/",
			"{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: chat}"),
	}, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)))
	east, west := exportingSite(t, "east"), exportingSite(t, "west")
	here.join(east)
	here.join(west)
	served := func(by string, want bool) { t.Helper(); servedBy(t, port, by, want) }
	served("east-1", true)
	served("west-1", true)
	traffic := sendTraffic(t, local(port))
	if out := east.penstock("clusters", "drain"); !strings.Contains(out, "Cluster east is drained") {
		t.Errorf(`drain: %s, want a text with "Cluster east is drained"`, out)
	}
	served("east-1", false)
	here.lists("east Draining yes")
	here.lists("from east: pool default/chat: Draining")
	east.lists("Cluster east is draining")
	if text := here.penstock("status"); !strings.Contains(text, "Cluster here\nMEMBER") {
		t.Errorf("status: got\n%s\nwant the cluster set with here", text)
	}
	if page := here.metrics(); !strings.Contains(page,
		`penstock_clusterset_imports{member="east",state="Draining"} 1`) ||
		!strings.Contains(page, `penstock_clusterset_members{state="Ready"} 1`) ||
		!strings.Contains(page, `penstock_clusterset_member_connected{member="west"} 1`) {
		t.Errorf("metrics: got\n%s\nwant east Draining, one member Ready, west connected", page)
	}
	east.stop()
	east.start()
	east.out.expect(t, "serves at")
	traffic.flows(t, 50)
	served("east-1", false) // the cluster still drains after its restart
	if out := east.penstock("clusters", "drain", "--undo"); !strings.Contains(out,
		"takes requests of its members again") {
		t.Errorf(`undo: %s, want a text with "takes requests of its members again"`, out)
	}
	served("east-1", true)
	if out := east.penstock("clusters", "leave"); !strings.Contains(out,
		"Cluster east has left. Remove the member east from the ClusterSet of here") {
		t.Errorf("leave: got %s, want that east has left, and is to be removed here", out)
	}
	served("east-1", false)
	traffic.flows(t, 50)
	traffic.end(t)
	if text := east.penstock("clusters", "list"); !strings.Contains(text, "The ClusterSet has no members") {
		t.Errorf(`after leaving: %s, want a text with "The ClusterSet has no members"`, text)
	}
	eventually(t, "the other cluster has no exports of the one that has left", func() error {
		if text := here.penstock("clusters", "list", "-o", "json"); strings.Count(text, `"state": "Imported"`) != 1 {
			return errors.New(text)
		}
		return nil
	})
	if out, err := penstock(t, "clusters", "leave", "-f", east.dir, "--state", east.state); err == nil ||
		!strings.Contains(err.Error(), "nothing to leave") {
		t.Errorf("leave twice: got %s %v, want nothing to leave", out, err)
	}
}

func TestClusterSet_ListWatchesMembers(t *testing.T) {
	t.Parallel()
	east, west := exportingSite(t, "east"), exportingSite(t, "west")
	ctx, stop := context.WithCancel(t.Context())
	watch := exec.CommandContext(ctx, "penstock", "clusters", "list", "--watch", "-f", east.dir, "--state", east.state)
	out := newTranscript()
	watch.Stdout, watch.Stderr = out, out
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = watch.Wait() })
	out.expect(t, "has no members")
	east.join(west)
	out.expect(t, "west    Ready  yes")
	west.stop()
	out.expect(t, "west    Unreachable  no         ")
}

func (s *site) metrics() string {
	s.t.Helper()
	body, err := runningFor(s.state).open(s.t.Context(), "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}
