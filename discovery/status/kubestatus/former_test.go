package kubestatus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

func gatewayWith(listeners ...string) string {
	text := "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {namespace: default, name: gw}\n" +
		"spec:\n  gatewayClassName: penstock\n  listeners:\n"
	for i, name := range listeners {
		text += fmt.Sprintf("  - {name: %s, port: %d, protocol: HTTP}\n", name, 80+i)
	}
	return text
}

func policyFor(target string) string {
	return "apiVersion: penstock.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {namespace: default, name: p}\n" +
		"spec: {targetRefs: [" + target + "], apiKeys: {}}\nstatus: {observedGeneration: -1}\n"
}

// formerRig returns a rig whose API server has the objects that prepare creates: the Gateway gw and
// the AccessPolicy p.
func formerRig(t *testing.T, prepare func(*kubetest.Server)) *rig {
	t.Helper()
	r := newRig(t, func(api *kubetest.Server) {
		api.Install(store.AccessPolicies.Group(), "accesspolicies", "v1alpha1")
		prepare(api)
	})
	r.board.Set("translation", report.Report{Owner: store.RefOf(store.AccessPolicies, "default/p"),
		Conditions: accepted("True")})
	return r
}

func (r *rig) former(want string) {
	r.Helper()
	r.Eventually(func() string {
		p, _ := store.AccessPolicies.Get(r.Store.View(), "default/p")
		var names []string
		for _, f := range p.Spec.Former {
			names = append(names, strings.TrimSpace(f.Namespace+" "+f.Kind+" "+f.Name+" "+f.SectionName))
		}
		if got := strings.Join(names, ", "); got != want {
			return fmt.Sprintf("former targets %q, want %q", got, want)
		}
		return ""
	})
}

func (r *rig) targets(want string) {
	r.Helper()
	r.observe()
	r.Eventually(func() string {
		status, _ := r.API.Get(store.AccessPolicies.Group(), "accesspolicies", "default/p")["status"].(map[string]any)
		if raw, _ := json.Marshal(status["targets"]); string(raw) != want {
			return fmt.Sprintf("status.targets %s, want %s", raw, want)
		}
		return ""
	})
}

// After a policy's target was mistyped or renamed, only the policy's status has the former target.
// A restarted process must read it from there, and keep the former target closed.
func TestAccessPolicy_FormerTargetsSurviveARestart(t *testing.T) {
	const gw, http = "{kind: Gateway, name: gw}", "{kind: Gateway, name: gw, sectionName: http}"
	before := func(target string) func(*kubetest.Server) {
		return func(api *kubetest.Server) {
			api.Apply(t, "gateways", gatewayWith("http", "alt"))
			api.Apply(t, "accesspolicies", policyFor(target))
		}
	}
	for name, c := range map[string]struct {
		target   string
		running  func(r *rig) // what happens while the first process runs
		targets  string       // the targets in the status after running
		gateway  string       // the Gateway after the restart
		after    string       // the target that is gated after the restart
		restored string
	}{
		"mistyped": {gw, func(r *rig) {
			r.API.Apply(t, "accesspolicies", policyFor("{kind: Gateway, name: gww}"))
			r.former("default Gateway gw")
		}, `[{"kind":"Gateway","name":"gw"}]`, gatewayWith("http", "alt"), "{kind: Gateway, name: gww}",
			"default Gateway gw"},
		"renamed listener": {http, func(r *rig) {
			r.API.Apply(t, "gateways", gatewayWith("web", "alt"))
			r.former("default Gateway gw http, default Gateway gw web")
		}, `[{"kind":"Gateway","missing":true,"name":"gw","sectionName":"http"},` +
			`{"kind":"Gateway","name":"gw","sectionName":"web"}]`, gatewayWith("web", "alt"), http,
			"default Gateway gw http, default Gateway gw web"},
		"mistyped while stopped": {gw, func(*rig) {}, `[{"kind":"Gateway","name":"gw"}]`, gatewayWith("http", "alt"),
			"{kind: Gateway, name: gww}", "default Gateway gw"},
		// The listener's new name is unknown, so the policy applies to the whole Gateway.
		"renamed listener while stopped": {http, func(*rig) {},
			`[{"kind":"Gateway","name":"gw","sectionName":"http"}]`, gatewayWith("web", "alt"), http,
			"default Gateway gw http, default Gateway gw"},
		"corrected": {gw, func(r *rig) {
			r.API.Apply(t, "accesspolicies", policyFor("{kind: Gateway, name: gww}"))
			r.former("default Gateway gw")
			r.API.Apply(t, "accesspolicies", policyFor(http))
			r.former("")
		}, `[{"kind":"Gateway","name":"gw","sectionName":"http"}]`, gatewayWith("http", "alt"), http, ""},
		"written before its listener": {"{kind: Gateway, name: gw, sectionName: later}", func(*rig) {}, "null",
			gatewayWith("http", "alt"), "{kind: Gateway, name: gw, sectionName: later}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := formerRig(t, before(c.target))
			if c.targets != "null" { // wait until the status has the lost target
				r.observe()
				r.Eventually(func() string {
					status := r.API.Get(store.AccessPolicies.Group(), "accesspolicies", "default/p")["status"]
					if raw, _ := json.Marshal(status); !strings.Contains(string(raw), `"targets"`) {
						return string(raw)
					}
					return ""
				})
			}
			c.running(r)
			r.targets(c.targets)
			status := r.API.Get(store.AccessPolicies.Group(), "accesspolicies", "default/p")["status"]
			again := formerRig(t, func(api *kubetest.Server) {
				api.Apply(t, "gateways", c.gateway)
				p := kubetest.Parse(t, policyFor(c.after))
				p["status"] = status
				api.Put("accesspolicies", p)
			})
			again.former(c.restored)
		})
	}
}

// While all of a policy's targets exist, its status has no effect.
func TestAccessPolicy_StatusGatesNothingWhileAllTargetsExist(t *testing.T) {
	r := formerRig(t, func(api *kubetest.Server) {
		api.Apply(t, "gateways", gatewayWith("http", "alt"))
		p := kubetest.Parse(t, policyFor("{kind: Gateway, name: gw, sectionName: http}"))
		p["status"] = map[string]any{"observedGeneration": int64(1),
			"targets": []any{map[string]any{"kind": "Gateway", "name": "gw"}}}
		api.Put("accesspolicies", p)
	})
	r.former("")
	r.targets(`[{"kind":"Gateway","name":"gw","sectionName":"http"}]`)
}
