package features

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// elsewhere does not listen. It writes to the file ASK the address where another process shall
// listen.
const elsewhere = `#!/bin/sh
echo "$1" > ASK.new && mv ASK.new ASK
exec sleep 1000000
`

const elsewhereEngine = `
apiVersion: penstock.dev/v1alpha1
kind: Engine
metadata: {name: elsewhere}
spec:
  versions:
  - version: v1
    supportedTasks: [text-generation]
    deployTemplate:
      process: {program: elsewhere, args: ['${host}:${port}']%s}
`

// An engine in a container may listen in a process that its command has not started. Here, the test
// is this process.
func TestDeployment_ListenerOfAnotherProcessServesIfTheEngineAllowsIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := t.TempDir()
	ask := filepath.Join(dir, "ask")
	s.env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	s.executable(dir, "elsewhere", strings.ReplaceAll(elsewhere, "ASK", ask))
	s.Write("engine.yaml", fmt.Sprintf(elsewhereEngine, ""))
	served := map[string]bool{}
	serve := func() error {
		address, err := os.ReadFile(ask)
		at := strings.TrimSpace(string(address))
		if err != nil || served[at] {
			return err
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		served[at] = true
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-served-by", "elsewhere")
			fmt.Fprintln(w, "{}")
		})}
		t.Cleanup(func() { _ = server.Close() })
		go func() { _ = server.Serve(l) }()
		return nil
	}
	s.deployFixture("deployments_fields.yaml", with("open"), swap("{name: sim}", "{name: elsewhere}"))
	s.Eventually("the engine asks for a listener", serve)
	s.logged("another process listens at 127.0.0.1:")
	s.Write("engine.yaml", fmt.Sprintf(elsewhereEngine, ", listener: Any"))
	s.Eventually("the listener counts", func() error { // no request is sent, because it would wait for the listener
		got := s.status()
		return errors.Join(serve(), because(strings.Contains(got, "1 of 1 servers"), got))
	})
	s.becomes("a request", "200", func() string { return s.outcome("/") })
}
