package file_test

import (
	"fmt"
	"testing"
)

func policyFor(gateway string) string {
	return "apiVersion: penstock.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {name: p}\n" +
		"spec: {targetRefs: [{kind: Gateway, name: " + gateway + "}], apiKeys: {}}\n"
}

// A restart would otherwise open the target that the policy had before its target was mistyped.
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
	const former = "[{default { Gateway gw }}]"
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
