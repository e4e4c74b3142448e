package management

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// without is a cluster that runs no Penstock, as a member with a kubeconfig.
func (m *management) without(name string) *kubetest.Server {
	m.t.Helper()
	api := kubetest.New(m.t)
	api.Install("inference.networking.k8s.io", "inferencepools", "v1")
	api.Install("inference.networking.x-k8s.io", "inferencepoolimports", "v1alpha1")
	for _, ns := range []string{"kube-system", "ns"} {
		api.Apply(m.t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}")
	}
	if err := os.WriteFile(filepath.Join(m.kubeconfigs, name+".yaml"), fmt.Appendf(nil,
		"{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}", api.Config().Host), 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.more = append(m.more, v1alpha1.ClusterSetMember{Name: name, Kubeconfig: &v1alpha1.ClusterSetKubeconfig{File: name + ".yaml"}})
	return api
}

// annotated makes the pool chat with a picker at an address, exported with more annotations, and pods.
func annotated(t *testing.T, api *kubetest.Server, address, annotations string, pods ...string) {
	t.Helper()
	api.Apply(t, "services", fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: ns, name: epp}, spec: {type: LoadBalancer, ports: [{port: 9002}]}, status: {loadBalancer: {ingress: [{ip: %s}]}}}", address))
	api.Apply(t, "inferencepools", fmt.Sprintf(`{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool,
  metadata: {namespace: ns, name: chat, annotations: {inference.networking.x-k8s.io/export: ClusterSet%s}},
  spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: epp, port: {number: 9002}}}}`, annotations))
	for _, ip := range pods {
		api.Apply(t, "pods", fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {namespace: ns, name: pod-%s, labels: {app: chat}}, status: {podIP: %s, conditions: [{type: Ready, status: 'True'}]}}", ip, ip))
	}
}

// condition waits until the condition Exported of the pool chat has some texts.
func condition(t *testing.T, api *kubetest.Server, texts ...string) {
	t.Helper()
	poll.NoError(t, "the pool has "+strings.Join(texts, ", "), poll.Limit, func() error {
		raw, err := json.Marshal(api.Get("inference.networking.k8s.io", "inferencepools", "ns/chat")["status"])
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(string(raw), text) {
				return fmt.Errorf("%s", raw)
			}
		}
		return nil
	})
}

// endpoints waits until the cluster has some of the pool of another one.
func (o *other) endpoints(cluster string, want ...string) {
	o.t.Helper()
	poll.NoError(o.t, fmt.Sprintf("%s has the endpoints %v of %s", o.name, want, cluster), poll.Limit, func() error {
		for _, e := range o.registry.Exports(nil, chat) {
			var got []string
			for _, at := range e.Entry.Endpoints {
				got = append(got, at.Address)
			}
			if e.Cluster == cluster && !e.Draining && slices.Equal(got, want) {
				return nil
			}
		}
		return fmt.Errorf("%+v", o.registry.Exports(nil, chat))
	})
}

// places has a cluster report where the export of another one stands, of the incarnation that it has.
func (o *other) places(cluster, reason string) {
	o.t.Helper()
	for _, e := range o.registry.Exports(nil, chat) {
		if e.Cluster != cluster {
			continue
		}
		if err := o.SetPlaced([]registry.Pool{chat}, []registry.Placement{{Member: cluster, Pool: chat, Reason: reason, Incarnation: e.Incarnation}}); err != nil {
			o.t.Fatal(err)
		}
		return
	}
	o.t.Fatalf("%s has nothing of %s", o.name, cluster)
}

// A cluster that runs no Penstock exports a pool. Penstocks behind the hub receive it with its pods, as far as it is for them, and the pool's condition
// has where it stands there. While its API server is silent, and after the hub has been replaced, nothing of it is withdrawn.
func TestHub_PenstocksReceiveWhatClustersWithoutPenstockExport(t *testing.T) {
	north, south := newOther(t, "north"), newOther(t, "south")
	m := newManagement(t)
	east := m.without("east")
	annotated(t, east, "192.0.2.1", "", "10.0.0.1", "10.0.0.2")
	m.set(north, south)
	first, end := m.hub("first")
	behind(m.member(), []string{"east"}, north, south)
	north.has("east", "192.0.2.1")
	north.endpoints("east", "10.0.0.1", "10.0.0.2")
	south.endpoints("east", "10.0.0.1", "10.0.0.2")
	north.places("east", "")
	south.places("east", "NamespaceNotFound")
	condition(t, east, `"NamespaceNotFound"`, "imported by 1 member, and not by others: NamespaceNotFound: south")
	south.places("east", "")
	condition(t, east, `"Exported"`, "imported by 2 members")

	annotated(t, east, "192.0.2.1", ", penstock.dev/export-to: north", "10.0.0.3")
	north.endpoints("east", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	poll.Until(t, "south has no request for it", func() bool { list := south.registry.Exports(nil, chat); return len(list) == 1 && list[0].Draining })
	condition(t, east, "imported by 1 member")
	annotated(t, east, "192.0.2.2", ", penstock.dev/export-to: stranger")
	condition(t, east, `stranger`, "is no member of the ClusterSet")
	poll.Until(t, "north has it no more", func() bool { return north.registry.Exports(nil, chat)[0].Draining })
	annotated(t, east, "192.0.2.2", ", penstock.dev/export-to: north")
	north.endpoints("east", "10.0.0.1", "10.0.0.2", "10.0.0.3")

	// Its API server answers nothing. The hub is replaced by another one, which has nothing of it.
	east.Fail(func(string, string) int { return http.StatusServiceUnavailable })
	east.Cut()
	poll.Until(t, "the hub notices", func() bool { is := first.status().Members; return len(is) == 1 && !is[0].Connected })
	north.endpoints("east", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	end()
	second, _ := m.hub("second")
	poll.Until(t, "the second hub leads and has its members", func() bool {
		is := second.status()
		return is.Leading && len(is.Relayed) == 2 && is.Relayed[0].Connected && is.Relayed[1].Connected
	})
	north.exports("10.2.0.1")
	south.has("north", "10.2.0.1")
	north.endpoints("east", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	east.Fail(nil)
	annotated(t, east, "192.0.2.3", ", penstock.dev/export-to: north")
	north.has("east", "192.0.2.3")
	east.Delete("inferencepools", east.Get("inference.networking.k8s.io", "inferencepools", "ns/chat"))
	poll.Until(t, "the export is withdrawn", func() bool { return north.registry.Exports(nil, chat)[0].Draining })
}

// imported waits until the import of the pool chat has some clusters, each with its picker's address and the condition Ready.
func imported(t *testing.T, api *kubetest.Server, want string) {
	t.Helper()
	poll.NoError(t, "the import has "+want, poll.Limit, func() error {
		raw, err := json.Marshal(api.Get("inference.networking.x-k8s.io", "inferencepoolimports", "ns/chat"))
		if err != nil {
			return err
		}
		var is inferenceapi.InferencePoolImport
		if err := json.Unmarshal(raw, &is); err != nil {
			return err
		}
		var got []string
		for _, c := range is.Status.Clusters {
			text := c.Name + " " + c.EndpointPicker.Service[0].Addresses[0]
			for _, on := range c.Conditions {
				if on.Type == "Ready" {
					text += " " + on.Reason
				}
			}
			if len(c.Endpoints) > 0 {
				text += " with endpoints"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != want {
			return fmt.Errorf("%q of %s", text, raw)
		}
		return nil
	})
}

// stands waits until the cluster has where its export stands at another one.
func (o *other) stands(member, reason string) {
	o.t.Helper()
	poll.NoError(o.t, fmt.Sprintf("%s has %q of %s", o.name, reason, member), poll.Limit, func() error {
		list := o.registry.Placements(nil, chat)
		for _, p := range list {
			if p.Member == member && p.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("%+v", list)
	})
}

// A Penstock behind a hub exports a pool. Clusters that run no Penstock get an import of it, without endpoints, as far as it is for them, and the
// exporter has where it stands there. A hub that is replaced, and reaches the exporter no more, removes and writes nothing.
func TestHub_ClustersWithoutPenstockImportWhatPenstocksExport(t *testing.T) {
	north, south := newOther(t, "north"), newOther(t, "south")
	m := newManagement(t)
	east, west := m.without("east"), m.without("west")
	west.Delete("namespaces", west.Get("", "namespaces", "ns"))
	m.set(north, south)
	_, end := m.hub("first")
	behind(m.member(), []string{"east", "west"}, north, south)
	north.exports("10.0.0.1")
	imported(t, east, "north 10.0.0.1 Ready")
	north.stands("east", "")
	north.stands("west", "NamespaceNotFound")
	west.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: ns}}")
	imported(t, west, "north 10.0.0.1 Ready")
	north.stands("west", "")

	south.exports("10.1.0.1")
	annotated(t, west, "192.0.2.1", "")
	imported(t, east, "north 10.0.0.1 Ready, south 10.1.0.1 Ready, west 192.0.2.1 Ready")
	imported(t, west, "north 10.0.0.1 Ready, south 10.1.0.1 Ready")
	south.has("west", "192.0.2.1")

	north.exports("10.0.0.2")
	imported(t, west, "north 10.0.0.2 Ready, south 10.1.0.1 Ready")
	end()
	if err := south.SetExports(nil, false); err != nil {
		t.Fatal(err)
	}
	north.peer.Address = "127.0.0.1:1" // it is away from now on
	m.set(north, south)
	m.hub("second")
	imported(t, west, "north 10.0.0.2 Unreachable, south 10.1.0.1 Draining")
	north.stands("west", "")
}
