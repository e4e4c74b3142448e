//go:build upgrade

package features

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// before is the commit of the version from which users upgrade: the last release's, once there is a
// release.
//
//go:embed upgrade.txt
var before string

var earlierBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "earlier")
	if err != nil {
		return "", err
	}
	return process.Earlier(context.Background(), dir, strings.TrimSpace(before))
})

func earlier(t *testing.T) string {
	t.Helper()
	path, err := earlierBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Under load, two control planes that are peers are replaced one after the other, and back. The
// Envoy with the earlier version's bootstrap runs on.
func TestUpgrade_ControlPlanesAreReplacedUnderLoad(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"pod-1", "pod-2", "pod-3", "pod-4", "pod-5", "pod-6"} {
		s.server(name)
	}
	old := earlier(t)
	s.binary = old
	other := s.twoProcesses("peers.yaml")
	s.attach(s.ads() + "," + other.ads())
	s.answers("/", http.StatusOK)
	load := s.traffic("/")
	for round := range 5 {
		for _, version := range []string{binary, old} {
			for _, at := range []*site{s, other} {
				at.stop()
				at.binary = version
				at.serve()
				at.logged("connected to a peer")
				load.flows(50)
			}
		}
		t.Logf("round %d: %d requests", round+1, load.sent)
	}
	load.end(0)
	fmt.Printf(`{"name":"upgrade_failed","value":%d,"unit":"requests","limit":0}`+"\n", len(load.failed))
	fmt.Printf(`{"name":"upgrade_failed.of","value":%d,"unit":"requests","limit":null}`+"\n", load.sent)
}

// Under load, penstock up is replaced in place and back, and its Envoy runs on. If the earlier
// version does not support SIGUSR2, this version replaces itself.
func TestUpgrade_UpIsReplacedInPlace(t *testing.T) {
	old := earlier(t)
	help, err := exec.Command(old, "up", "--help").Output()
	if err != nil || !strings.Contains(string(help), "SIGUSR2") {
		t.Logf("the earlier version is not replaced in place: this one is, by itself (%v)", err)
		old = binary
	}
	s := newSite(t)
	s.server("a")
	s.server("b")
	s.restrict(map[string]string{"all": "owner: all"})
	s.binary = filepath.Join(t.TempDir(), "penstock")
	install := func(version string) {
		t.Helper()
		text, err := os.ReadFile(version)
		if err == nil {
			err = errors.Join(os.WriteFile(s.binary+".new", text, 0o700), os.Rename(s.binary+".new", s.binary))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	install(old)
	s.up("replaced.yaml")
	s.answers("/", http.StatusOK)
	s.becomes("a key", "200", func() string { return s.outcome("/gated", secret("all")...) })
	before, load, gated := s.children("envoy"), s.traffic("/"), s.traffic("/gated", secret("all")...)
	for round := range 5 {
		for i, version := range []string{binary, old} {
			install(version)
			s.replaced(2*round + i + 1)
			load.flows(20)
			gated.flows(20)
		}
	}
	load.end(0)
	gated.end(0)
	if after := s.children("envoy"); len(before) != 1 || !slices.Equal(before, after) {
		t.Errorf("Envoys: got %v, want %v as before", after, before)
	}
	fmt.Printf(`{"name":"upgrade_failed.up","value":%d,"unit":"requests","limit":0}`+"\n",
		len(load.failed)+len(gated.failed))
	fmt.Printf(`{"name":"upgrade_failed.up_of","value":%d,"unit":"requests","limit":null}`+"\n", load.sent+gated.sent)
}

// Each version starts with the other's state folder. It keeps the last valid version of an object
// that is invalid, and the cluster's name and certificates.
func TestUpgrade_StateFolderIsReadByBothVersions(t *testing.T) {
	s := newSite(t)
	s.server("pod-1")
	for _, name := range []string{"pod-2", "pod-3", "pod-4", "pod-5", "pod-6"} {
		s.ports[name] = s.ports["pod-1"]
	}
	s.binary = earlier(t)
	s.up("peers.yaml")
	s.answers("/", http.StatusOK)
	s.write("peers.yaml", swap("targetPorts: [{number: 8000}]", "targetPorts: [{number: 80000}]"))
	const kept = "its last good version stays in use"
	s.reports(kept)
	for _, version := range []string{binary, earlier(t), binary} {
		s.stop()
		s.binary = version
		s.run("up", "--concurrency", "1")
		s.logged("serves at")
		s.reports(kept)
		s.answers("/", http.StatusOK)
	}
}

func TestUpgrade_MembersOfTwoVersionsExchangePools(t *testing.T) {
	for name, versions := range map[string][2]string{
		"the exporter is older": {earlier(t), binary}, "the importer is older": {binary, earlier(t)},
	} {
		t.Run(name, func(t *testing.T) {
			s, east := newSite(t), newSite(t)
			s.binary, east.binary = versions[1], versions[0]
			east.server("pod")
			s.ports["pod"] = east.ports["pod"]
			east.member("east", east.peerListener(), "upgrade.yaml", with("exported"))
			s.member("west", s.peerListener(), "upgrade.yaml", with("imported"))
			s.join(east)
			s.answers("/far", http.StatusOK)
			load := s.traffic("/far")
			load.flows(50)
			s.stop() // replaces the importer and its Envoy
			load.stop()
			s.binary = versions[0]
			s.run("up", append([]string{"--concurrency", "1"}, s.flags...)...)
			s.answers("/far", http.StatusOK)
		})
	}
}

// After an upgrade, open connections drain on the earlier release's filter chain, which enforces no
// AccessPolicy. A policy that is created in this time denies their requests.
func TestUpgrade_PolicyDeniesConnectionsThatDrain(t *testing.T) {
	s := newSite(t)
	s.server("a")
	s.binary = earlier(t)
	s.write("access.yaml")
	s.serve()
	s.attach(s.ads())
	s.answers("/", http.StatusOK)
	type connection struct {
		client *http.Client
		reused bool
	}
	connections := make([]*connection, 50)
	ask := func(c *connection) int {
		ctx := httptrace.WithClientTrace(s.Context(), &httptrace.ClientTrace{
			GotConn: func(got httptrace.GotConnInfo) { c.reused = got.Reused },
		})
		req, err := request(ctx, s.url("/"), question)
		if err != nil {
			t.Fatal(err)
		}
		got, err := do(c.client, req)
		if err != nil {
			t.Fatal(err)
		}
		return got.status
	}
	for i := range connections {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		connections[i] = &connection{client: &http.Client{Transport: transport}}
		if got := ask(connections[i]); got != http.StatusOK {
			t.Fatalf("before the upgrade: %d, want %d", got, http.StatusOK)
		}
	}
	s.stop()
	s.binary = binary
	s.serve()
	s.write("access.yaml", with("gate"))
	s.answers("/", http.StatusUnauthorized)
	drain := 0
	for _, c := range connections {
		switch got := ask(c); {
		case got == http.StatusOK:
			t.Errorf("a request without a key: got 200, want it denied; its connection is an earlier one: %t", c.reused)
		case c.reused:
			drain++
		}
	}
	if drain == 0 {
		t.Error("no connection of the earlier release is left, so the test proves nothing")
	}
}
