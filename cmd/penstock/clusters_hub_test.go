package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
	"github.com/penstock-project/penstock/multicluster/federation"
)

// relayHub is a `penstock hub` that relays, at an address that stays.
func relayHub(t *testing.T) *site {
	t.Helper()
	h := prepare(t, map[string]string{"set.yaml": clusterSetYAML("hub")}, "--members-listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)), "--http", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	h.hub()
	return h
}

// hub runs `penstock hub`.
func (s *site) hub() {
	s.t.Helper()
	s.exec(append([]string{"hub", "-f", s.dir, "--state", s.state}, s.args...)...)
}

// Two clusters name the hub, and each other without an address. A pool that one exports serves in the other one, its endpoints come with it,
// and a hub that is lost costs no request.
func TestHub_PoolServesInAClusterThatReachesTheHubAlone(t *testing.T) {
	t.Parallel()
	h := relayHub(t)
	port := freePort(t)
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", h.show(), "- {name: east, allow: {addresses: [127.0.0.1/32]}}\n"),
		"route.yaml": routeYAML("far", "/", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: chat}"),
	}, "--members-listen", "127.0.0.1:0")
	eastFiles := chatFiles(freePort(t), modelServer(t, sim.Config{Name: "east-1", Model: "llama"}))
	eastFiles["set.yaml"] = clusterSetYAML("east", h.show(), "- {name: here}\n")
	east := up(t, eastFiles, "--members-listen", "127.0.0.1:0")
	h.write("set.yaml", clusterSetYAML("hub", here.show(), east.show()))
	served := func(what string, want bool) {
		t.Helper()
		eventually(t, what, func() error {
			if got := ask(t, local(port), `{"model":"llama","messages":[{"role":"user","content":"hello"}]}`); (got.status == http.StatusOK && got.header.Get("x-served-by") == "east-1") != want {
				return fmt.Errorf("%d %s; status here:\n%s\nin the other cluster:\n%s", got.status, got.body, here.penstock("status"), east.penstock("status"))
			}
			return nil
		})
	}
	const export = `inference.networking.x-k8s.io/export: ClusterSet`
	east.write("pool.yaml", exportedPool(export))
	served("the pool of the other cluster serves", true)
	exported := regexp.MustCompile(`default/chat +InferencePoolImport chat +- +- +True`)
	eventually(t, "Exported is True", func() error {
		if text := east.penstock("status"); !exported.MatchString(text) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	eventually(t, "the endpoint has arrived, which is in no object", func() error {
		raw, err := os.ReadFile(filepath.Join(here.state, "cluster", "records", "east.jsonl"))
		if err == nil && !strings.Contains(string(raw), `"endpoints":[{"address":"127.0.0.1"`) {
			err = fmt.Errorf("%s", raw)
		}
		return err
	})
	eventually(t, "the hub shows its members", func() error {
		var page struct{ Relayed []federation.RelayedStatus }
		resp, err := http.Get("http://" + h.args[3] + "/members")
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		want := []federation.RelayedStatus{{Name: "east", Connected: true, Exports: 1}, {Name: "here", Connected: true}}
		if err := json.NewDecoder(resp.Body).Decode(&page); err != nil || !slices.Equal(page.Relayed, want) {
			return fmt.Errorf("%+v %w", page, err)
		}
		return nil
	})
	traffic := sendTraffic(t, local(port))
	h.stop()
	connected := func(is string) {
		t.Helper()
		line := regexp.MustCompile(`(?m)^east +(Ready|Unreachable) +` + is)
		eventually(t, "connected: "+is, func() error {
			if text := here.penstock("clusters", "list"); !line.MatchString(text) {
				return errors.New(text)
			}
			return nil
		})
	}
	connected("no")
	eventually(t, "the lost hub is named", func() error {
		if text := here.penstock("status"); !strings.Contains(text, "member hub: this cluster is not connected to the hub") {
			return errors.New(text)
		}
		return nil
	})
	traffic.flows(t, 50)
	h.hub()
	connected("yes")
	eventually(t, "the hub is back", func() error {
		if text := here.penstock("status"); strings.Contains(text, "not connected to the hub") {
			return errors.New(text)
		}
		return nil
	})
	traffic.flows(t, 50)
	traffic.end(t)
	east.write("pool.yaml", poolYAML("chat"))
	served("what is withdrawn after the hub is back takes no request", false)
}
