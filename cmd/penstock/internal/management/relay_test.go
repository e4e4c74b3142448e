package management

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// other is a cluster with a peer: its end of the exchange, and what it has received.
type other struct {
	*federation.Federation
	t        *testing.T
	name     string
	registry *registry.Registry
	peer     v1alpha1.ClusterSetPeer
}

var chat = registry.Pool{Namespace: "ns", Name: "chat"}

func newOther(t *testing.T, name string) *other {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &other{t: t, name: name, registry: registry.New(registry.Config{})}
	keys := clusterset.NewAuthority(name, clusterset.FileAuthority(t.TempDir()), authority.Config{})
	kubetest.Run(t, keys.Run)
	if err := keys.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return keys.GetCertificate(nil) }, Bundle: keys.Bundle,
		Apply:     func(u ...registry.Update) bool { _, no := o.registry.Apply(u...); return len(no) == 0 },
		Connected: func(member string, is bool) { o.registry.Connected(member, is) }, Placed: o.registry.Place,
	})
	o.peer = v1alpha1.ClusterSetPeer{Address: l.Addr().String(), Bundle: string(keys.Bundle())}
	o.Publish("uid-of-"+name, 1)
	server := grpc.NewServer(o.ServerOptions()...)
	o.Register(server)
	go func() { _ = server.Serve(l) }() // ends with the server
	t.Cleanup(server.Stop)
	kubetest.Run(t, o.Run)
	return o
}

// exports replaces what the cluster exports: the pool chat, whose picker has an address.
func (o *other) exports(address string) {
	o.t.Helper()
	if err := o.SetExports([]export.Export{{Pool: chat, Entry: inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
		EndpointPicker: &inferenceapi.EndpointPickerImport{Service: inferenceapi.ServiceImports{{Addresses: []string{address}}}}}}}, false); err != nil {
		o.t.Fatal(err)
	}
}

// has waits until the cluster has the pool of another one, whose picker has an address.
func (o *other) has(cluster, address string) {
	o.t.Helper()
	poll.NoError(o.t, o.name+" has the pool of "+cluster, poll.Limit, func() error {
		for _, e := range o.registry.Exports(nil, chat) {
			if e.Cluster == cluster && e.Entry.EndpointPicker.Service[0].Addresses[0] == address {
				return nil
			}
		}
		return fmt.Errorf("%+v", o.registry.Exports(nil, chat))
	})
}

// management is a management cluster with a ClusterSet, in which members of a name may be replaced.
type management struct {
	t       *testing.T
	api     *kubetest.Server
	address string // at which the hubs relay
	state   string
	// more are members without a peer, with kubeconfigs in a folder.
	more        []v1alpha1.ClusterSetMember
	kubeconfigs string
}

func newManagement(t *testing.T) *management {
	t.Helper()
	api := kubetest.New(t)
	api.Install("penstock.dev", "clustersets", "v1alpha1")
	api.Apply(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}")
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return &management{t, api, fmt.Sprintf("127.0.0.1:%d", port), t.TempDir(), nil, t.TempDir()}
}

// set writes the ClusterSet.
func (m *management) set(members ...*other) {
	m.t.Helper()
	set := v1alpha1.ClusterSet{}
	set.APIVersion, set.Kind, set.Name, set.Spec.Cluster = "penstock.dev/v1alpha1", "ClusterSet", "gpus", "hub"
	for _, o := range members {
		set.Spec.Members = append(set.Spec.Members, v1alpha1.ClusterSetMember{Name: o.name, Peer: &o.peer})
	}
	set.Spec.Members = append(set.Spec.Members, m.more...)
	raw, err := yaml.Marshal(set)
	if err != nil {
		m.t.Fatal(err)
	}
	m.api.Apply(m.t, "clustersets", string(raw))
}

// hub runs a hub until end is called, or the test ends.
func (m *management) hub(identity string) (h *Hub, end func()) {
	m.t.Helper()
	h, err := New(Config{
		REST: m.api.Config(), Namespace: "penstock-system", Identity: identity, StateDir: m.state, MembersAddress: m.address, Kubeconfigs: m.kubeconfigs,
		Listen: func(context.Context) (net.Listener, error) { return net.Listen("tcp", m.address) }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			m.t.Errorf("hub %s: %v", identity, err)
		}
	})
	m.t.Cleanup(end)
	return h, end
}

// member waits until the hub's entry of a ClusterSet is there, and returns it.
func (m *management) member() (is v1alpha1.ClusterSetMember) {
	m.t.Helper()
	poll.NoError(m.t, "the file that clusters show prints", poll.Limit, func() error {
		raw, err := os.ReadFile(clusterset.MemberFile(m.state))
		if err != nil {
			return err
		}
		var list []v1alpha1.ClusterSetMember
		if err := yaml.UnmarshalStrict(raw, &list); err != nil || len(list) != 1 {
			return fmt.Errorf("%s: %w", raw, err)
		}
		is = list[0]
		return nil
	})
	return is
}

// behind has clusters name the hub, and each other without an address, and more members of these names.
func behind(hub v1alpha1.ClusterSetMember, more []string, all ...*other) {
	for _, o := range all {
		members := []federation.Member{{Name: hub.Name, Address: hub.Peer.Address, Bundle: []byte(hub.Peer.Bundle), Hub: hub.Peer.Hub}}
		sources := map[string]string{}
		for _, of := range all {
			if of != o {
				members = append(members, federation.Member{Name: of.name})
				sources[of.name] = "hub"
			}
		}
		for _, name := range more {
			members = append(members, federation.Member{Name: name})
			sources[name] = "hub"
		}
		o.registry.SetMembers(sources)
		o.SetMembers(members)
	}
}

// Two hubs of a management cluster share a folder. The one that leads relays, and the other one does not listen. Once the first is gone, the second
// has its place, and members know it by the same keys. Members that are added, removed and added again in the ClusterSet of the cluster
// are relayed accordingly.
func TestHub_ALaterLeaderRelaysUnderTheSameKeys(t *testing.T) {
	east, west := newOther(t, "east"), newOther(t, "west")
	m := newManagement(t)
	m.set(east, west)
	first, end := m.hub("first")
	poll.Until(t, "the first hub leads", func() bool { return first.status().Leading })
	second, _ := m.hub("second") // at the same address: it would fail if it listened
	hub := m.member()
	if hub.Name != "hub" || hub.Peer == nil || !hub.Peer.Hub || hub.Peer.Address != m.address {
		t.Errorf("members join the hub with %+v", hub)
	}
	behind(hub, nil, east, west)
	east.exports("10.0.0.1")
	west.has("east", "10.0.0.1")
	if is := second.status(); is.Leading || is.Relayed != nil {
		t.Errorf("a hub that does not lead has %+v", is)
	}

	end()
	if is := first.status(); is.Relayed != nil {
		t.Errorf("a hub that does not lead any more has %+v", is)
	}
	east.exports("10.0.0.2")
	west.has("east", "10.0.0.2")
	if again := m.member(); again.Peer.Bundle != hub.Peer.Bundle {
		t.Error("the second hub has other keys")
	}
	west.exports("10.1.0.1")
	east.has("west", "10.1.0.1")

	m.set(west)
	poll.Until(t, "the hub has one member", func() bool { return len(second.status().Relayed) == 1 })
	east.exports("10.0.0.3")
	nowhere := *east
	nowhere.peer.Address = ""
	m.set(&nowhere, west)
	poll.Until(t, "a member without an address is named", func() bool {
		is := second.status().Problems["east"]
		return is != nil && strings.Contains(is.Problem, "a hub reaches each member itself")
	})
	m.set(east, west)
	west.has("east", "10.0.0.3")
	poll.Until(t, "no problem is left", func() bool { return len(second.status().Problems) == 0 })
}
