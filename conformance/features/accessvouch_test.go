package features

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The importing cluster decides, and vouches for the caller: with allow.identities the exporter's
// access log has the caller, as MEMBER:CALLER. Without it, the exporter ignores what members state.
// No server receives either.
func TestClusterSet_ExporterBelievesCallersAsFarAsItAllows(t *testing.T) {
	t.Parallel()
	far, here := newSite(t), newSite(t)
	far.server("a")
	log := filepath.Join(far.state, "access.log")
	far.flags = []string{"--access-log", log}
	far.member("far", far.peerListener(), "accessmembers.yaml", with("far"))
	here.restrict(map[string]string{"all": "owner: all, groups: [staff]"})
	here.member("here", "", "accessmembers.yaml", with("here", "gate"))
	here.join(far)
	asks := func(want string) {
		t.Helper()
		far.Eventually("the exporter's access log has the caller "+want, func() error {
			if got := here.outcome("/", secret("all")...); got != "200" {
				return fmt.Errorf("the request is answered %s", got)
			}
			text, err := os.ReadFile(log)
			if err != nil {
				return err
			}
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			last := lines[len(lines)-1]
			return because(strings.Contains(last, `"caller":`+want), last)
		})
		for name, values := range far.last("a").Headers {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-penstock-") ||
				strings.HasPrefix(lower, "penstock-peer-") {
				t.Errorf("the server receives %s: %s", name, values)
			}
		}
	}
	asks("null")
	path := filepath.Join(far.Files, "set.yaml")
	set, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	allowed := strings.Replace(string(set), "allow:\n", "allow:\n      identities: [Owner, Groups]\n", 1)
	if allowed == string(set) {
		t.Fatalf("no allow in %s", set)
	}
	far.Write("set.yaml", allowed)
	asks(`"here:default/all"`)
	far.Write("set.yaml", string(set))
	asks("null")
}
