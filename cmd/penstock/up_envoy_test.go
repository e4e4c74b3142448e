package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/xds/supervisor"
)

func (s *site) movableEnvoy() (remove, restore func()) {
	s.t.Helper()
	envoy, err := supervisor.Find(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	link := filepath.Join(s.t.TempDir(), "envoy")
	do := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	restore = func() { do(os.Symlink(envoy.Path, link)) }
	restore()
	s.env = []string{"ENVOY=" + link}
	return func() { do(os.Remove(link)) }, restore
}

func TestEnvoy_ThatCannotBeStartedIsTriedAgainWhileOthersServe(t *testing.T) {
	t.Parallel()
	first, second := freePort(t), freePort(t)
	files := chatFiles(first, serverNamed(t, "pod-1"))
	files["second.yaml"] = gatewayYAML("also", second) + "---\n" +
		strings.ReplaceAll(routeYAML("also", "/", toPool("chat")), "name: gw", "name: also")
	s := prepare(t, files)
	remove, restore := s.movableEnvoy()
	s.start()
	for _, name := range []string{"gw", "also"} {
		s.out.expect(t, "Gateway default/"+name+" serves at")
	}
	answers(t, local(first), http.StatusOK)
	answers(t, local(second), http.StatusOK)
	remove()
	if err := syscall.Kill(s.envoyOf("default/also"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.errs.expect(t, "Gateway default/also Envoy cannot be started")
	requests := sendTraffic(t, local(first))
	requests.flows(t, 10)
	if out := s.penstock("status"); !strings.Contains(out, "NoResources") {
		t.Errorf("status: got\n%s\nwant NoResources", out)
	}
	third := freePort(t)
	s.write("third.yaml",
		strings.ReplaceAll(strings.ReplaceAll(files["second.yaml"], "also", "third"), fmt.Sprint(second),
			fmt.Sprint(third)))
	s.errs.expect(t, "Gateway default/third Envoy cannot be started")
	restore()
	answers(t, local(second), http.StatusOK)
	answers(t, local(third), http.StatusOK)
	s.errs.expect(t, "all errors and warnings are resolved")
	requests.end(t)
}

func (s *site) envoyOf(gateway string) (pid int) {
	s.t.Helper()
	for line := range strings.Lines(s.errs.String()) {
		if _, at, ok := strings.Cut(line, " pid="); ok && strings.Contains(line, "Envoy started") &&
			strings.Contains(line, gateway) {
			_, _ = fmt.Sscanf(at, "%d", &pid)
		}
	}
	if pid == 0 {
		s.t.Fatalf("no Envoy of %s:\n%s", gateway, s.errs)
	}
	return pid
}

// While the state folder cannot be written, new files are served. They are saved later.
func TestStateFolder_ThatTakesNoFilesEndsNothing(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := up(t, chatFiles(port, serverNamed(t, "pod-1")))
	answers(t, local(port), http.StatusOK)
	requests := sendTraffic(t, local(port))
	aside := s.state + "-aside"
	t.Cleanup(func() { _ = os.RemoveAll(aside) })
	if err := os.Rename(s.state, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.state, nil, 0o600); err != nil { // a file in place of the folder
		t.Fatal(err)
	}
	for _, path := range []string{"/one", "/two"} {
		s.write("more.yaml", routeYAML("more", path, toPool("chat")))
		answers(t, local(port)+path, http.StatusOK)
	}
	s.errs.expect(t, "last-good.jsonl")
	requests.flows(t, 10)
	if n := strings.Count(s.errs.String(), "cannot write state; the state in memory stays in use\" file="+
		filepath.Join(s.state, "last-good.jsonl")); n != 1 {
		t.Errorf("the journal's failure is logged %d times, want 1", n)
	}
	if err := os.Remove(s.state); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, s.state); err != nil {
		t.Fatal(err)
	}
	s.write("other.yaml", routeYAML("other", "/other", toPool("chat")))
	s.errs.expect(t, "state is written again")
	requests.end(t)
	// The version that was saved after the failure survives a restart.
	if code := s.stop(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	s.write("more.yaml", "[")
	s.start()
	answers(t, local(port)+"/two", http.StatusOK)
}
