package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/supervisor"
)

// penstock runs the command as a user would, and returns what it printed.
func penstock(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommand_HasExamples(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && !strings.Contains(cmd.Example, "penstock ") {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its line in the list is %q, want one without a full stop", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestVersion_NamesTheEnvoyThatUpStarts(t *testing.T) {
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := penstock(t, "version", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var v versions
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Envoy != envoy.Version || v.Path != envoy.Path || v.NoEnvoy != "" || v.Penstock == "" {
		t.Errorf("%v: %s", err, out)
	}
	if out, err = penstock(t, "version"); err != nil || !strings.HasPrefix(out, "penstock ") || !strings.Contains(out, envoy.Version+" ("+envoy.Path+")") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestVersion_WithoutEnvoyNamesTheCause(t *testing.T) {
	t.Setenv("ENVOY", "/no/such/envoy")
	out, err := penstock(t, "version")
	if err != nil || !strings.Contains(out, "/no/such/envoy") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestVersion_UnknownOutputIsAnError(t *testing.T) {
	if out, err := penstock(t, "version", "-o", "xml"); err == nil || !strings.Contains(err.Error(), "text or json") {
		t.Errorf("got %v: %s", err, out)
	}
}

func TestSim_InvalidFlagIsAnError(t *testing.T) {
	if _, err := penstock(t, "sim", "--listen", "127.0.0.1:0", "--fail-rate", "2"); err == nil || !strings.Contains(err.Error(), "between 0 and 1") {
		t.Errorf("got %v", err)
	}
}
