package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/hub/decide"
)

var chat = objectid.Pool{Namespace: "ns", Name: "chat"}

// world is a decide.Hub with members, which have every namespace except "missing".
type world struct {
	*decide.Hub
	t       *testing.T
	members map[string]decide.Member

	mu      sync.Mutex
	changed []string // changed imports since the last call of dirty, "MEMBER POOL"
}

func newWorld(t *testing.T, names ...string) *world {
	w := &world{t: t, members: map[string]decide.Member{}}
	w.Hub = decide.New(decide.Config{Never: func(ip netip.Addr) string {
		if ip.IsLinkLocalUnicast() {
			return "a link-local address"
		}
		return ""
	}, Imports: func(member string, pools []objectid.Pool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range pools {
			w.changed = append(w.changed, member+" "+p.Name)
		}
	}})
	for _, n := range names {
		w.members[n] = decide.Member{Name: n, Allow: v1alpha1.ClusterSetAllow{Namespaces: []string{"ns"}},
			Store: store.New(), Namespace: func(ns string) bool { return ns != "missing" },
			Own: func(objectid.Pool) []string { return nil }}
	}
	w.set()
	for _, n := range names {
		w.Restore(n, nil)
	}
	return w
}

func (w *world) set() {
	var list []decide.Member
	for _, m := range w.members {
		list = append(list, m)
	}
	w.SetMembers(list, false)
}

func (w *world) dirty() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.changed)
	out := strings.Join(slices.Compact(w.changed), ", ")
	w.changed = nil
	return out
}

// exports makes a member export the pool chat at an address to some members. The address ""
// withdraws the export.
func (w *world) exports(member, address string, to ...string) {
	var list []export.Decision
	if address != "" {
		list = append(list,
			export.Decision{Pool: chat, Asked: true,
				Export: &export.Export{Pool: chat, To: to, Entry: inferenceapi.ImportedCluster{
					Name: member, RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
					EndpointPicker: &inferenceapi.EndpointPickerImport{
						Service: inferenceapi.ServiceImports{{Addresses: []string{address}}},
					},
					Endpoints: []inferenceapi.ImportedEndpoint{{Address: "10.0.0.1"}},
				}}})
	}
	w.Exports(member, "uid-"+member, list)
}

// imports describes the wanted import of chat at a member.
func (w *world) imports(member string) string {
	s, ok := w.Import(member, chat, 1)
	if !ok {
		return ""
	}
	var out []string
	for _, c := range s.Clusters {
		text := c.Name
		if c.EndpointPicker != nil {
			text += " " + c.EndpointPicker.Service[0].Addresses[0]
		}
		for _, condition := range c.Conditions {
			if condition.Type == "Ready" && condition.Status != metav1.ConditionTrue {
				text += fmt.Sprintf(" %s/%s", condition.Status, condition.Reason)
			}
		}
		if len(c.Endpoints) > 0 {
			text += " with endpoints"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func (w *world) has(member, want string) {
	w.t.Helper()
	if got := w.imports(member); got != want {
		w.t.Errorf("at %s: %q, want %q", member, got, want)
	}
}

func (w *world) condition(member, want string) {
	w.t.Helper()
	condition, asked, known := w.Condition(member, chat)
	got := "not known"
	switch {
	case known && !asked:
		got = "not asked"
	case known:
		got = fmt.Sprintf("%s/%s", condition.Status, condition.Reason)
	}
	if got != want {
		w.t.Errorf("Exported of %s: %s, want %s (%s)", member, got, want, condition.Message)
	}
}

func TestHub_ExportsReachTheMembersThatTheyAreFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "east", "west", "north")
		for _, m := range []string{"west", "north"} {
			w.exports(m, "")
		}
		w.exports("east", "192.0.2.1")
		if got := w.dirty(); got != "north chat, west chat" {
			t.Errorf(`imports to write: %s, want "north chat, west chat"`, got)
		}
		w.has("west", "east 192.0.2.1")
		w.has("east", "")
		w.condition("east", "not known")
		w.Written("west", chat, decide.Writing{Clusters: []string{"east"}})
		w.condition("east", "not known")
		w.Written("north", chat, decide.Writing{Reason: "Conflict", Message: "of a person"})
		w.condition("east", "False/Conflict")
		w.Written("north", chat, decide.Writing{Clusters: []string{"east"}})
		w.condition("east", "True/Exported")

		w.dirty()
		w.exports("east", "192.0.2.1")
		if got := w.dirty(); got != "" {
			t.Errorf("the same once more: got %s, want nothing", got)
		}
		w.exports("east", "192.0.2.1", "west")
		w.has("north", "east 192.0.2.1 False/Draining")
		w.condition("east", "True/Exported")
		w.exports("east", "")
		w.has("west", "east 192.0.2.1 False/Draining")
		w.condition("east", "not asked")
		w.exports("east", "192.0.2.1")
		w.has("west", "east 192.0.2.1")
	})
}

func TestHub_DeadMemberDelaysNoOtherAndKeepsItsEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "east", "west", "dead")
		go func() { _ = w.Run(t.Context()) }()
		w.Restore("west", map[objectid.Pool][]inferenceapi.ImportedCluster{
			chat: {{Name: "dead", RoutingMode: inferenceapi.ParentMode}},
		})
		w.exports("west", "")
		w.exports("east", "192.0.2.1")
		w.has("west", "dead Unknown/Unreachable, east 192.0.2.1")
		if !w.Settled("east") || w.Settled("dead") {
			t.Error("a member that was not read yet is settled, or one that was is not")
		}
		w.condition("east", "not known")
		w.Written("west", chat, decide.Writing{Clusters: []string{"dead", "east"}})
		time.Sleep(10 * time.Second)
		w.Contact("east", "uid-east")
		w.Contact("west", "uid-west")
		w.condition("east", "not known")
		time.Sleep(6 * time.Second)
		if !w.Settled("dead") {
			t.Error("a member is waited for without end")
		}
		w.condition("east", "False/MemberUnreachable")
		w.has("west", "dead Unknown/Unreachable, east 192.0.2.1")
		time.Sleep(10 * time.Second)
		w.Lost("east")
		w.has("west", "dead Unknown/Unreachable, east 192.0.2.1 Unknown/Unreachable")
		w.Contact("east", "uid-east")
		w.has("west", "dead Unknown/Unreachable, east 192.0.2.1")
		delete(w.members, "dead")
		w.set()
		w.has("west", "dead False/Draining, east 192.0.2.1")
		w.condition("east", "True/Exported")
	})
}

func TestHub_ClusterThatWasMadeAnewTakesItsNameOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "east", "west")
		go func() { _ = w.Run(t.Context()) }()
		w.exports("east", "192.0.2.1")
		list := []export.Decision{}
		w.Exports("east", "another", list)
		w.has("west", "east 192.0.2.1") // the lease of the first cluster east still runs
		time.Sleep(20 * time.Second)
		w.Contact("east", "another")
		w.has("west", "east 192.0.2.1 False/Draining")
	})
}

func TestHub_MemberExportsWithinWhatItIsAllowed(t *testing.T) {
	w := newWorld(t, "east", "west")
	w.exports("west", "")
	for _, c := range []struct {
		allow     v1alpha1.ClusterSetAllow
		address   string
		condition string
	}{
		{v1alpha1.ClusterSetAllow{Addresses: []string{"192.0.2.0/24"}}, "198.51.100.1", "False/NotAllowed"},
		{v1alpha1.ClusterSetAllow{Addresses: []string{"192.0.2.0/24"}}, "epp.example.com", "False/NotAllowed"},
		{v1alpha1.ClusterSetAllow{Namespaces: []string{"other"}}, "192.0.2.1", "False/NotAllowed"},
		{v1alpha1.ClusterSetAllow{}, "192.0.2.1", "False/NotAllowed"},
		{v1alpha1.ClusterSetAllow{Pools: []string{"ns/chat"}}, "169.254.169.254", "False/NotAllowed"},
		{v1alpha1.ClusterSetAllow{Namespaces: []string{"ns"}, Exports: new(int32)}, "192.0.2.1", "False/NotAllowed"},
		{
			v1alpha1.ClusterSetAllow{Pools: []string{"ns/chat"}, Addresses: []string{"192.0.2.0/24"},
				PodCIDRs: []string{"10.1.0.0/16"}}, "192.0.2.1", "True/Exported",
		},
	} {
		m := w.members["east"]
		m.Allow = c.allow
		w.members["east"] = m
		w.set()
		w.exports("east", c.address)
		if c.condition == "True/Exported" {
			w.Written("west", chat, decide.Writing{Clusters: []string{"east"}})
		}
		w.condition("east", c.condition)
	}
	if s, _ := w.Import("west", chat, 1); len(s.Clusters) != 1 ||
		!slices.Equal(s.Clusters[0].PodCIDRs, []string{"10.1.0.0/16"}) {
		t.Errorf("the import: got %+v, want one cluster with 10.1.0.0/16", s.Clusters)
	}
}

// With `imports: All`, a member's own pool is also an entry of its import.
func TestHub_ImportsAllHasTheOwnPoolToo(t *testing.T) {
	w := newWorld(t, "east", "west")
	var list []decide.Member
	for _, m := range w.members {
		list = append(list, m)
	}
	w.SetMembers(list, true)
	w.exports("west", "192.0.2.2")
	w.exports("east", "192.0.2.1")
	w.has("east", "east 192.0.2.1, west 192.0.2.2")
	for member, local := range map[string]string{"east": "[true false]", "west": "[false true]"} {
		var got []bool
		s, _ := w.Import(member, chat, 1)
		for _, c := range s.Clusters {
			got = append(got, c.Local)
		}
		if fmt.Sprint(got) != local {
			t.Errorf("at %s, local is %v of %s, want %s", member, got, w.imports(member), local)
		}
	}
	w.Written("west", chat, decide.Writing{Clusters: []string{"east", "west"}})
	w.condition("east", "True/Exported")
	w.set() // sets the same members again
	w.has("east", "east 192.0.2.1 False/Draining, west 192.0.2.2")
}

// An export that was withdrawn while no hub ran still drains after the hub starts. The hub may read
// the exporter and the importer in any order.
func TestHub_ExportWithdrawnWhileNoHubRanDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "east")
		w.members["west"] = decide.Member{Name: "west", Store: store.New(),
			Namespace: func(string) bool { return true },
			Own:       func(objectid.Pool) []string { return nil }}
		w.set()
		w.exports("east", "")
		w.has("west", "")
		w.Restore("west", map[objectid.Pool][]inferenceapi.ImportedCluster{
			chat: {{Name: "east", RoutingMode: inferenceapi.ParentMode}},
		})
		w.exports("west", "")
		w.has("west", "east False/Draining")
		w.exports("east", "192.0.2.1")
		w.has("west", "east 192.0.2.1")
	})
}

// Without the permission cleartext, no import sends prompts in cleartext to a member's gateways.
func TestHub_GatewaysInCleartextAreExportedOnlyIfAllowed(t *testing.T) {
	w := newWorld(t, "east", "west")
	w.exports("west", "")
	gateway := func(address, appProtocol string) inferenceapi.ParentImport {
		return inferenceapi.ParentImport{Service: inferenceapi.ServiceImports{{
			Addresses: []string{address}, Ports: []inferenceapi.Port{{Number: 80, AppProtocol: appProtocol}},
		}}}
	}
	for _, c := range []struct {
		cleartext bool
		parents   []inferenceapi.ParentImport
		want      int
	}{
		{false, []inferenceapi.ParentImport{gateway("192.0.2.1", "")}, 0},
		{false, []inferenceapi.ParentImport{gateway("192.0.2.1", "http"), gateway("192.0.2.2", "https")}, 1},
		{true, []inferenceapi.ParentImport{gateway("192.0.2.1", "http"), gateway("192.0.2.2", "https")}, 2},
	} {
		m := w.members["east"]
		m.Allow.Cleartext = c.cleartext
		w.members["east"] = m
		w.set()
		w.Exports("east", "uid-east",
			[]export.Decision{{Pool: chat, Asked: true,
				Export: &export.Export{Pool: chat, Entry: inferenceapi.ImportedCluster{
					Name: "east", RoutingMode: inferenceapi.ParentMode, TargetPortNumber: 8000, Parents: c.parents,
				}}}})
		got := 0
		if s, ok := w.Import("west", chat, 1); ok && len(s.Clusters) == 1 {
			got = len(s.Clusters[0].Parents)
		}
		if got != c.want {
			t.Errorf("cleartext allowed %t: %d of %d gateways are in the import, want %d", c.cleartext, got,
				len(c.parents), c.want)
		}
	}
}
