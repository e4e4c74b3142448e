package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func folderHub(t *testing.T) *site {
	t.Helper()
	h := prepare(t, map[string]string{"set.yaml": clusterSetYAML("hub")})
	h.exec("hub", "-f", h.dir, "--state", h.state)
	h.errs.expect(t, "this hub writes the imports of its members")
	return h
}

// A second hub would write imports under the first hub's identity.
func TestHub_SecondOneOfAStateFolderEnds(t *testing.T) {
	t.Parallel()
	h := folderHub(t)
	out, err := penstock(t, "hub", "-f", h.dir, "--state", h.state)
	if err == nil || !strings.Contains(err.Error(), "another penstock serves this state folder already ("+h.state+")") {
		t.Errorf("a second hub: got %v\n%s\nwant that another penstock serves this state folder", err, out)
	}
}

func TestHub_CommandsForItsFolderNameItsPage(t *testing.T) {
	t.Parallel()
	h := folderHub(t)
	written, err := os.ReadFile(filepath.Join(h.dir, "set.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "hub is a hub, which exports and imports no pool: its page /members (at its --admin, or its --http " +
		"on a loopback address)"
	in := []string{"-f", h.dir, "--state", h.state}
	for _, c := range []struct {
		fails bool
		args  []string
	}{{false, []string{"clusters", "list"}}, {true, []string{"clusters", "list", "--watch"}},
		{true, []string{"status"}}, {true, []string{"status", "--watch"}}, {true, []string{"clusters", "show"}},
		{true, []string{"clusters", "drain"}}} {
		out, err := penstock(t, append(c.args, in...)...)
		if (err != nil) != c.fails || !strings.Contains(fmt.Sprint(out, err), want) {
			t.Errorf("penstock %s: got %v\n%s\nwant %s", strings.Join(c.args, " "), err, out, want)
		}
	}
	if now, err := os.ReadFile(filepath.Join(h.dir, "set.yaml")); err != nil || string(now) != string(written) {
		t.Errorf("the ClusterSet has changed, want it as before: %v\n%s", err, now)
	}
}
