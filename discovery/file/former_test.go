package file_test

import (
	"fmt"
	"strings"
	"testing"
)

func policyFor(gateway string) string {
	return "apiVersion: penstock.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {name: p}\n" +
		"spec: {targetRefs: [{kind: Gateway, name: " + gateway + "}], apiKeys: {}}\n"
}

// After a policy's target is mistyped, its former target stays closed, even over a restart.
func TestFolder_FormerTargetsOfAPolicySurviveRestarts(t *testing.T) {
	f := newFolder(t)
	const gateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: %s}\n" +
		"spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}\n"
	expect := func(step, want string) {
		t.Helper()
		if got := fmt.Sprint(f.former("default/p")); got != want {
			t.Errorf("%s: former targets %s, want %s", step, got, want)
		}
	}
	f.write("gw.yaml", fmt.Sprintf(gateway, "gw"))
	f.write("p.yaml", policyFor("gw"))
	f.load()
	expect("at first", "[]")
	f.write("p.yaml", policyFor("gww"))
	f.load()
	const former = "[{default { Gateway gw } false}]"
	expect("mistyped", former)
	for range 2 {
		f.restart()
		f.load()
		expect("after a restart", former)
	}
	f.write("p.yaml", policyFor("gw"))
	f.load()
	expect("corrected", "[]")
	f.restart()
	f.load()
	expect("corrected, after a restart", "[]")
}

// After a targeted listener is renamed, the policy still applies to it, even over restarts. The
// same holds if the listener is renamed, or the target is mistyped, while no process runs.
func TestFolder_RenamedTargetsOfAPolicySurviveRestarts(t *testing.T) {
	gateway := func(listeners ...string) string {
		text := "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gw}\nspec:\n  listeners:\n"
		for i, name := range listeners {
			text += fmt.Sprintf("  - {name: %s, port: %d, protocol: HTTP}\n", name, 80+i)
		}
		return text
	}
	const renamed = "[{default { Gateway gw http} false} {default { Gateway gw web} false}]"
	for name, c := range map[string]struct {
		change func(f *folder)
		want   string
	}{
		"renamed while running": {func(f *folder) {
			f.write("gw.yaml", gateway("web", "alt"))
			f.load()
			f.restart()
		}, renamed},
		"renamed while stopped": {func(f *folder) {
			f.restart()
			f.write("gw.yaml", gateway("web", "alt"))
		}, renamed},
		"mistyped while stopped": {func(f *folder) {
			f.restart()
			f.write("p.yaml", policyFor("gw, sectionName: htp"))
		}, "[{default { Gateway gw http} false}]"},
		"corrected while stopped": {func(f *folder) {
			f.write("gw.yaml", gateway("web", "alt"))
			f.load()
			f.restart()
			f.write("p.yaml", policyFor("gw, sectionName: web"))
		}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.write("gw.yaml", gateway("http", "alt"))
			f.write("p.yaml", policyFor("gw, sectionName: http"))
			f.load()
			c.change(f)
			for range 2 {
				f.load()
				if got := fmt.Sprint(f.former("default/p")); got != c.want {
					t.Errorf("former targets %s, want %s", got, c.want)
				}
				f.restart()
			}
		})
	}
}

// A policy that was never valid also keeps its former targets closed while its target is mistyped.
func TestFolder_FormerTargetsOfAnInvalidPolicyStayClosed(t *testing.T) {
	f := newFolder(t)
	invalid := func(gateway string) string {
		return strings.Replace(policyFor(gateway), "apiKeys: {}", "apiKeys: 7", 1)
	}
	expect := func(step, want string) {
		t.Helper()
		if got := fmt.Sprint(f.former("default/p")); got != want {
			t.Errorf("%s: former targets %s, want %s", step, got, want)
		}
	}
	f.write("gw.yaml", "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gw}\n"+
		"spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}\n")
	f.write("p.yaml", invalid("gw"))
	f.load()
	expect("at first", "[]")
	const former = "[{default { Gateway gw } false}]"
	for _, text := range []string{invalid("gww"), strings.Replace(invalid("gww"), "7", "8", 1)} {
		f.write("p.yaml", text)
		f.load()
		expect("mistyped", former)
	}
	for range 2 {
		f.restart()
		f.load()
		expect("after a restart", former)
	}
	f.write("p.yaml", invalid("gw"))
	f.load()
	expect("corrected", "[]")
	f.restart()
	f.write("p.yaml", invalid("gww"))
	f.load()
	expect("mistyped while stopped", former)
	f.restart()
	f.write("p.yaml", policyFor("gww"))
	f.load()
	expect("valid, but mistyped", former)
	f.restart()
	f.remove("p.yaml")
	f.load()
	f.write("p.yaml", policyFor("gww"))
	f.load()
	expect("removed and written again", "[]")
}
