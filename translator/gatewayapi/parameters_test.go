package gatewayapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

func TestEnvoyFleet_OfTheGatewayWinsOverTheClass(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/parameters.txtar")
	if err != nil {
		t.Fatal(err)
	}
	v := view(t, operations(t, string(archive.Files[0].Data)))
	three, four := int32(3), int32(4)
	want := &v1alpha1.EnvoyFleetSpec{Image: "envoy:shared", Replicas: &three, Concurrency: &four}
	if diff := cmp.Diff(want, gatewayapi.Gateway(v, gatewayapi.Config{}, "default/both").Fleet); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lost := gatewayapi.Gateway(v, gatewayapi.Config{}, "default/lost"); lost.Fleet != nil ||
		lost.Listeners[0].Chain == "" {
		t.Errorf("a lost reference must leave what runs: fleet %v, chain %q", lost.Fleet, lost.Listeners[0].Chain)
	}
}

func TestGatewayAddresses_BehindAServiceAreNotBound(t *testing.T) {
	v := view(t,
		operations(t,
			"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec:\n  addresses: "+
				"[{value: 192.0.2.1}]\n  listeners: [{name: http, port: 80, protocol: HTTP}]\n"))
	for behind, want := range map[bool]string{false: "192.0.2.1", true: "0.0.0.0"} {
		g := gatewayapi.Gateway(v, gatewayapi.Config{AnyClass: true, BehindService: behind}, "default/g")
		if len(g.Addresses) != 1 || g.Addresses[0] != want {
			t.Errorf("behind a Service %v: binds %v, want %s", behind, g.Addresses, want)
		}
	}
}

func TestListener_OnTheProxiesOwnPortIsPortUnavailable(t *testing.T) {
	v := view(t, operations(t, `
apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: theirs}
spec: {mode: external}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: managed}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP},
  {name: ready, port: 19003, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: external}
spec:
  gatewayClassName: penstock
  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: theirs}}
  listeners: [{name: ready, port: 19003, protocol: HTTP}]
`))
	for _, c := range []struct {
		gateway  string
		reserved uint16
		free     bool
	}{{"managed", 19003, false}, {"managed", 0, true}, {"external", 19003, true}} {
		gw := gatewayapi.Gateway(v, gatewayapi.Config{AnyClass: true, ReservedPort: c.reserved}, "default/"+c.gateway)
		l := gw.Listeners[len(gw.Listeners)-1]
		accepted := report.Find(l.Conditions, "Accepted")
		if (l.Chain != "") != c.free || !c.free &&
			(accepted.Reason != "PortUnavailable" ||
				!strings.Contains(accepted.Message, "port 19003 is taken in the proxies' pods")) {
			t.Errorf("%+v: chain %q, %+v; want a chain if the port is free, else PortUnavailable", c, l.Chain, accepted)
		}
	}
}
