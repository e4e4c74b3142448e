package fleet_test

import (
	"testing"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/identity"
)

func TestServiceAccount_ProxyReadsOnlyItsGateway(t *testing.T) {
	r := newRig(t)
	r.gateway("edge", "penstock")
	ask := func(p identity.Proof, wish, want string) {
		t.Helper()
		got, err := r.fleets.Member(p, wish)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%v wishing %q: got %q %v, want %q", p, wish, got, err, want)
		}
	}
	recheck := func(p identity.Proof, gateway string, want bool) {
		t.Helper()
		if err := r.fleets.Recheck(p, gateway); (err == nil) != want {
			t.Errorf("recheck of %v for %s: %v, want %v", p, gateway, err, want)
		}
	}
	own := identity.Proof{Namespace: "default", Account: "edge-penstock"}
	ask(own, "default/other", "default/edge")
	recheck(own, "default/edge", true)
	ask(identity.Proof{Namespace: "elsewhere", Account: "edge-penstock"}, "default/edge", "")
	ask(identity.Proof{Namespace: "default", Account: "default"}, "default/edge", "")
	ask(identity.Proof{Names: []string{"edge.example"}}, "default/edge", "")
	r.spec = &v1alpha1.EnvoyFleetSpec{Mode: v1alpha1.FleetExternal, External: &v1alpha1.FleetExternalSpec{
		ServiceAccounts: []string{"proxy"}, Subjects: []string{"edge.example"},
	}}
	r.set()
	ask(own, "default/edge", "")
	recheck(own, "default/edge", false)
	recheck(own, "default/gone", true) // proxies of a deleted Gateway drain
	ask(identity.Proof{Namespace: "default", Account: "proxy"}, "", "default/edge")
	ask(identity.Proof{Namespace: "elsewhere", Account: "proxy"}, "default/edge", "")
	ask(identity.Proof{Names: []string{"edge.example"}}, "default/other", "default/edge")
	r.spec = nil // an invalid Gateway denies no proxy
	r.set()
	ask(identity.Proof{Names: []string{"edge.example"}}, "default/edge", "default/edge")
}
