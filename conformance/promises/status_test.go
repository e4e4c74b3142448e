//go:build lab && linux

package promises

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

const attached = `
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: mine}
---
apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: gw}
spec: {mode: external, external: {serviceAccounts: [mine], addresses: [192.0.2.1]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: gw}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
  allowedListeners: {namespaces: {from: Same}}
`

// A Gateway or ListenerSet becomes Programmed only after its proxies have sent their ACKs, even if
// they are connected to a process that does not write statuses.
func programmedAfterACKs(p place) {
	p.apply(chat + attached)
	follower := p.processes()[1].Status.PodIP + ":18000"
	proxy := func(name string, silent ...resource.Type) *xdstest.Fake {
		return xdstest.StartFake(p, xdstest.FakeConfig{
			Address: follower, Node: name, Gateway: p.Namespace + "/gw", Silent: silent,
			Dial: p.as(p.token("mine", "penstock.dev")),
		})
	}
	p.Until("the process serves the Gateway", func(context.Context) error {
		_, err := p.ask(follower, p.token("mine", "penstock.dev"), resource.Cluster)
		return err
	})
	slow := proxy("slow", resource.Listener)
	p.Until("the Gateway reports the missing ACK", func(ctx context.Context) error {
		gw, err := p.gateway(ctx, "gw")
		if err != nil {
			return err
		}
		return unacknowledged(gw.Status.Conditions)
	})
	p.commandReports("192.0.2.1", "not acknowledged")
	slow.Disconnect()
	proxy("prompt")
	p.programmed("gw")

	late := proxy("late", resource.Listener)
	late.Wait("it has a listener", func() bool { return len(late.Names(resource.Listener)) > 0 })
	p.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more}
spec: {parentRef: {name: gw}, listeners: [{name: more, port: 8080, protocol: HTTP}]}
`)
	set := func(ctx context.Context) (*gatewayv1.ListenerSet, error) {
		u, err := p.dynamic.Resource(kindOf(gatewayv1.GroupName, "v1", "listenersets")).Namespace(p.Namespace).
			Get(ctx, "more", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		s := &gatewayv1.ListenerSet{}
		return s, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, s)
	}
	p.Until("the ListenerSet reports the missing ACK", func(ctx context.Context) error {
		s, err := set(ctx)
		if err != nil {
			return err
		}
		return unacknowledged(s.Status.Conditions)
	})
	late.Disconnect()
	p.Until("the ListenerSet is programmed", func(ctx context.Context) error {
		s, err := set(ctx)
		if err != nil {
			return err
		}
		return holds(s.Status.Conditions, "Programmed", metav1.ConditionTrue, s.Generation)
	})
}

// commandReports waits until `penstock status`, without a folder, prints a line about the Gateway
// with these texts. Any process may lead.
func (p place) commandReports(texts ...string) {
	p.Helper()
	p.Until("penstock status reports what the Gateway's own status has", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, "../../bin/penstock", "status", "--kubeconfig", running.Kubeconfig()).
			CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, p.Namespace+"/gw ") && !slices.ContainsFunc(texts,
				func(text string) bool { return !strings.Contains(line, text) }) {
				return nil
			}
		}
		return fmt.Errorf("want %q: %v\n%s", texts, err, out)
	})
}

func unacknowledged(conditions []metav1.Condition) error {
	for _, c := range conditions {
		if c.Type != "Programmed" {
			continue
		}
		if c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "acknowledged") {
			return nil
		}
		return fmt.Errorf("got %+v, want False and not acknowledged", c)
	}
	return errors.New("there is no condition Programmed")
}

// The condition of the object at fault quotes Envoy's NACK, and all other objects serve.
func nackInStatus(p place) {
	p.apply(chat + plainGateway + `
---
apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: gw}
spec:
  replicas: 1
  resources: {requests: {cpu: 10m, memory: 32Mi}}
  bootstrap: # this Envoy rejects large expressions, which Penstock cannot know
    layered_runtime: {layers: [{name: small, static_layer: {re2.max_program_size.error_level: 50}}]}
`)
	address := p.programmed("gw")[0]
	p.answers("http://" + address + "/health")
	large := func(pattern string) {
		p.Helper()
		p.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: large}
spec:
  parentRefs: [{name: gw}]
  hostnames: [large.example.com]
  rules:
  - matches: [{path: {type: RegularExpression, value: "` + pattern + `"}}]
    backendRefs: [{name: chat, port: 80}]
`)
	}
	programmed := func(status metav1.ConditionStatus, words string) {
		p.Helper()
		p.Until("the route's condition Programmed: "+string(status), func(ctx context.Context) error {
			route, err := p.route(ctx, "large")
			if err != nil {
				return err
			}
			if len(route.Status.Parents) != 1 {
				return errors.New("its status has no parent")
			}
			rejected := false
			for _, c := range route.Status.Parents[0].Conditions {
				if c.Type == "Programmed" && c.Status == metav1.ConditionFalse {
					rejected = strings.Contains(c.Message, words)
				}
			}
			if rejected != (status == metav1.ConditionFalse) {
				return fmt.Errorf("got %+v, want Programmed False with %q: %t", route.Status.Parents[0].Conditions,
					words, !rejected)
			}
			return holds(route.Status.Parents[0].Conditions, "Accepted", metav1.ConditionTrue, route.Generation)
		})
	}
	large("/[a-z]{100,200}/[0-9]{100,200}")
	programmed(metav1.ConditionFalse, "max program size")
	p.answers("http://" + address + "/health")
	large("/a+")
	programmed(metav1.ConditionTrue, "")
}

// A NACK at a process that does not write statuses also reaches the status. The NACK disappears
// from the status when the proxy accepts the resource.
func nackReachesLeader(p place) {
	p.apply(chat + attached)
	follower := p.processes()[1].Status.PodIP + ":18000"
	p.Until("the process serves the Gateway", func(context.Context) error {
		_, err := p.ask(follower, p.token("mine", "penstock.dev"), resource.Cluster)
		return err
	})
	rejecting := xdstest.StartFake(p, xdstest.FakeConfig{
		Address: follower, Node: "rejecting", Gateway: p.Namespace + "/gw", Dial: p.as(p.token("mine", "penstock.dev")),
		Rejects: func(ref resource.Ref) string {
			if ref.Type == resource.Listener {
				return "this proxy cannot listen"
			}
			return ""
		},
	})
	p.Until("the Gateway's condition quotes the NACK", func(ctx context.Context) error {
		gw, err := p.gateway(ctx, "gw")
		if err != nil {
			return err
		}
		for _, c := range gw.Status.Conditions {
			if c.Type == "Programmed" && c.Status == metav1.ConditionFalse &&
				strings.Contains(c.Message, "this proxy cannot listen") {
				return nil
			}
		}
		return fmt.Errorf("got %+v, want Programmed False, as this proxy cannot listen", gw.Status.Conditions)
	})
	rejecting.Disconnect()
	xdstest.StartFake(p,
		xdstest.FakeConfig{Address: follower, Node: "rejecting", Gateway: p.Namespace + "/gw",
			Dial: p.as(p.token("mine", "penstock.dev"))})
	p.programmed("gw")
}
