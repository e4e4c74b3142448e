package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

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
	return lines[:len(lines)-1]
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

// No penstock runs for the folder: names are completed from its files.
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

// Keys and values of flags are completed, too. A shell would list files instead.
func TestCompletion_NamesKeysAndValues(t *testing.T) {
	dir := t.TempDir()
	const key = `
apiVersion: penstock.dev/v1alpha1
kind: APIKey
metadata: {name: NAME, namespace: NAMESPACE}
spec: {hashes: ["0000000000000000000000000000000000000000000000000000000000000000"]}
`
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, object := range []string{"alice default", "bob default", "carol team"} {
		name, namespace, _ := strings.Cut(object, " ")
		write(string(rune('a'+i))+".yaml", strings.NewReplacer("NAMESPACE", namespace, "NAME", name).Replace(key))
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(`{apiVersion: v1, kind: Config, contexts: [
		{name: east, context: {cluster: a, user: a}}, {name: west, context: {cluster: a, user: a}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"keys revoke -f DIR |", "alice bob"},
		{"keys rotate -f DIR b|", "bob"},
		{"keys rotate -f DIR -n team |", "carol"},
		{"keys revoke -f DIR alice |", ""},
		{"keys create -f DIR |", ""},
		{"explain -f DIR --key |", "default/alice default/bob team/carol"},
		{"usage -o |", "table json"},
		{"translate --output |", "yaml json"},
		{"diff -o |", "diff names json"},
		{"debug store show HTTPRoute -o |", "name yaml"},
		{"usage --by |", "owner model pool hour"},
		{"usage --by owner,|", "owner,model owner,pool owner,hour"},
		{"usage --by owner,m|", "owner,model"},
		{"status --kubeconfig CONFIG --context |", "east west"},
		{"status --kubeconfig CONFIG --context w|", "west"},
	} {
		args := strings.Split(strings.NewReplacer("|", "", "DIR", dir, "CONFIG", config).Replace(c.args), " ")
		if got := strings.Join(suggested(t, args...), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}

// The process accepts the connection and does not respond.
func TestCompletion_EndsWithoutAnAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
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

func TestArguments_ErrorsNameWhatToWrite(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"metrics dashboards":   "0 arguments are given: write penstock metrics dashboards FOLDER",
		"keys create -f x":     "0 arguments are given: write penstock keys create NAME",
		"keys import -f x":     "0 arguments are given: write penstock keys import FILE",
		"keys rotate a b -f x": "2 arguments are given: write penstock keys rotate NAME",
		"keys revoke -f x":     "0 arguments are given: write penstock keys revoke NAME",
		"debug -f x": "unknown shorthand flag: 'f' in -f: penstock debug takes it only after a command: choose " +
			"one of graph why, picker show, store show, store watch, xds d",
		"keys --file x": "unknown flag: --file: penstock keys takes it only after a command: choose one of create, ",
		"status --nope": "unknown flag: --nope",
	} {
		root := newRoot()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(strings.Fields(args))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("penstock %s: the error is %v, want %s", args, err, want)
		}
	}
}
