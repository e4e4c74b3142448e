package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// suggested returns what a shell would suggest after some arguments.
func suggested(t *testing.T, args ...string) []string {
	t.Helper()
	root := newRoot()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last one is a directive
}

const completed = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: team}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 8080, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: team}
spec:
  parentRefs: [{name: gw}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: qwen}]}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: qwen, namespace: team}
spec: {selector: {matchLabels: {app: vllm}}, targetPorts: [{number: 8000}]}
---
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far, namespace: team}
`

// Names are of the files if no penstock runs for them.
func TestCompletion_NamesObjectsOfAFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(completed), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"debug store show -f DIR HTTPRoute |", "team/chat"},
		{"debug store show -f DIR Inference|Pool", "InferencePool InferencePoolImport"},
		{"debug store watch -f DIR Gateway|Cl", "GatewayClass"},
		{"debug xds dump -f DIR |", "team/gw"},
		{"debug picker show -f DIR |", "team/far team/qwen"},
		{"debug picker show -f DIR team/q|", "team/qwen"},
		{"debug picker show -f DIR team/qwen |", ""},
		{"debug xds diff -f DIR |", ""},
		{"explain -f DIR --last 3 --pool |", "team/far@ team/qwen"},
		{"explain -f DIR --gateway |", "team/gw"},
	} {
		args := strings.Split(strings.ReplaceAll(strings.ReplaceAll(c.args, "|", ""), "DIR", dir), " ")
		if got := strings.Join(suggested(t, args...), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}

// A shell does not hang while a process is.
func TestCompletion_EndsWithoutAnAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and does not answer
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	done := make(chan []string, 1)
	go func() { done <- suggested(t, "debug", "picker", "show", "--http", l.Addr().String(), "") }()
	select {
	case got := <-done:
		if len(got) != 0 {
			t.Errorf("suggests %q, want nothing", got)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for an answer")
	}
}

// As a plugin of kubectl the program names itself as users call it.
func TestPlugin_HelpNamesKubectl(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"/usr/local/bin/kubectl-penstock": "kubectl penstock", `kubectl-penstock.exe`: "kubectl penstock",
		"/usr/bin/penstock": "penstock",
	} {
		root := newRoot()
		asPlugin(root, program)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{"status", "--help"})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, "\n  "+want+" status [flags]") ||
			!strings.Contains(text, "\n  "+want+" status -f ./config\n") {
			t.Errorf("%s: help is\n%s\nwant %s status", program, text, want)
		}
		root.SetArgs([]string{"debug", "xds", "dump"})
		root.SilenceErrors = true
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "write "+want+" debug xds dump") {
			t.Errorf("%s: the error is %v, want to write %s debug xds dump", program, err, want)
		}
	}
}
