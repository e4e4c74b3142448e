package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/proxy"
	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// attach starts an Envoy of one's own for the site's Gateway, which ends with the test.
func (s *site) attach(xds string) {
	t := s.t
	t.Helper()
	envoy, err := proxy.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := penstock(t, "bootstrap", "--gateway", "default/gw", "--xds", xds, "--concurrency", "1", "--admin", "unix:"+filepath.Join(s.state, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.state, "envoy.yaml")
	if err := os.WriteFile(file, []byte(boot), 0o600); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(boot, "\n")
	args := strings.Fields(strings.TrimPrefix(first, "# envoy arguments: "))
	said := newTranscript()
	own := exec.Command(envoy.Path, append([]string{"-c", file, "--log-level", "warning"}, args...)...)
	own.Stdout, own.Stderr = said, said
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = own.Process.Signal(syscall.SIGKILL)
		_ = own.Wait()
		if t.Failed() {
			t.Logf("Envoy said:\n%s", said)
		}
	})
}

// What the help of serve and bootstrap says can be typed: the owner of an Envoy attaches it.
func TestAnEnvoyOfYourOwnAttachesByItsBootstrap(t *testing.T) {
	t.Parallel()
	port, xds := freePort(t), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	s := prepare(t, chatFiles(port, modelServer(t, sim.Config{Name: "pod-1"})))
	s.run("serve", "--xds", xds, "--picker", "127.0.0.1:0")
	s.out.expect(t, "ADS at "+xds)
	s.attach(xds)
	if got := answers(t, local(port), http.StatusOK); got.header.Get("x-served-by") != "pod-1" {
		t.Errorf("served by %q", got.header.Get("x-served-by"))
	}
	// Penstock is gone for a while: what was configured goes on, without picks; a change is taken in when it is back.
	requests := sendTraffic(t, local(port))
	if code := s.stop(); code != 0 {
		t.Errorf("serve ended with exit status %d", code)
	}
	requests.flows(t, 20)
	s.write("more.yaml", routeYAML("more", "/more", toPool("chat")))
	s.run("serve", "--xds", xds, "--picker", "127.0.0.1:0")
	answers(t, local(port)+"/more", http.StatusOK)
	requests.flows(t, 20)
	requests.end(t)
}
