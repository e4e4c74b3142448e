package federation

import (
	"fmt"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// represents makes sites members of each other through a hub, which publishes for other members, too.
func represents(hub *site, names []string, sites ...*site) {
	var members []Member
	all := sites
	for _, n := range names {
		members, all = append(members, Member{Name: n}), append(all, &site{name: n})
	}
	for _, s := range sites {
		members = append(members, Member{Name: s.name, Address: s.listener.Addr().String(), Bundle: s.bundle})
		s.behind(hub, all...)
	}
	hub.SetMembers(members)
}

// represent publishes for a member that answers, as a process of an epoch.
func (s *site) represent(name string, epoch uint64, list ...export.Export) {
	s.t.Helper()
	if err := s.Represent(name, Represented{UID: "uid-of-" + name + "@h", Epoch: epoch, Exports: list, Alive: true}); err != nil {
		s.t.Fatal(err)
	}
}

// A member that runs no Penstock exports to others through the hub: endpoints included, to those alone that an export is for, and where it stands
// there comes back.
func TestHub_PublishesForAMemberThatRunsNoPenstock(t *testing.T) {
	h, b, c := newHub(t, "h"), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	var mu sync.Mutex
	reported := 0
	h.cfg.Reported = func(exporter string, pools []registry.Pool) {
		if mu.Lock(); exporter == "e" && len(pools) == 1 && pools[0] == chat {
			reported++
		}
		mu.Unlock()
	}
	represents(h, []string{"e"}, b, c)
	large := exported("10.0.0.1")
	for i := range 3 * maxInline { // its endpoints have parts
		large.Entry.Endpoints = append(large.Entry.Endpoints, inferenceapi.ImportedEndpoint{Address: fmt.Sprintf("10.9.0.%d", i)})
	}
	h.represent("e", 1, large)
	h.represent("stranger", 1, large)
	b.has("e=10.0.0.1")
	c.has("e=10.0.0.1")
	if list := b.registry.Exports(nil, chat)[0].Entry.Endpoints; len(list) != 3*maxInline {
		t.Errorf("b has %d endpoints", len(list))
	}
	if m, _ := b.registry.Member("e"); m.UID != "uid-of-e@h" || m.State != registry.Ready {
		t.Errorf("b has %+v", m)
	}
	if err := b.SetPlaced([]registry.Pool{chat}, []registry.Placement{{Member: "e", Pool: chat, Reason: "NotAllowed", Incarnation: 7}}); err != nil {
		t.Fatal(err)
	}
	poll.NoError(t, "the hub has where the export stands", poll.Limit, func() error {
		mu.Lock()
		defer mu.Unlock()
		if list := h.Placements("e", chat); len(list) != 1 || list[0].Member != "b" || list[0].Reason != "NotAllowed" || list[0].Incarnation != 7 || reported == 0 {
			return fmt.Errorf("%+v, %d calls", list, reported)
		}
		return nil
	})
	h.represent("e", 1, exported("10.0.0.2", "c"))
	c.has("e=10.0.0.2")
	b.has("e=10.0.0.1, draining")
	h.represent("e", 1, exported("10.0.0.2"))
	b.has("e=10.0.0.2")
	h.represent("e", 1)
	b.has("e=10.0.0.2, draining")
	c.has("e=10.0.0.2, draining")
}

// Neither a hub that has just started, nor one that does not have the member any more, nor an older process of it withdraws or revives what was
// published for a member.
func TestHub_OlderProcessOfItNeitherRevivesNorWithdraws(t *testing.T) {
	h, b := newHub(t, "h"), newSite(t, "b", id("b"))
	represents(h, []string{"e"}, b)
	h.represent("e", 5, exported("10.0.0.5"))
	b.has("e=10.0.0.5")
	unreached := func(text string) {
		t.Helper()
		poll.Until(t, text, func() bool { m, _ := b.registry.Member("e"); return !m.Connected() })
		b.has("e=10.0.0.5")
	}
	h.SetMembers([]Member{{Name: "b", Address: b.listener.Addr().String(), Bundle: b.bundle}})
	unreached("the hub does not have the member any more")

	h.stop()
	again := newSiteAt(t, h.listener.Addr().String(), "h", id("h"), h.authority, true)
	represents(again, []string{"e"}, b)
	poll.Until(t, "b is connected again", func() bool { return b.channel.Connected(again.listener.Addr().String()) })
	unreached("the hub has not read the member yet")
	again.represent("e", 4, exported("10.0.0.4"))
	again.represent("e", 4)
	poll.Until(t, "b has received it", func() bool {
		b.Federation.mu.Lock()
		defer b.Federation.mu.Unlock()
		return b.missed[relayedFrom(h.listener.Addr().String(), "e")]
	})
	b.has("e=10.0.0.5")
	again.represent("e", 6, exported("10.0.0.6"))
	b.has("e=10.0.0.6")
	again.represent("e", 6)
	b.has("e=10.0.0.6, draining")
}

// What is published for a member that does not answer renews no lease: its importers notice that it is away.
func TestHub_MemberThatDoesNotAnswerIsNotRenewed(t *testing.T) {
	h := newHub(t, "h")
	h.SetMembers([]Member{{Name: "e"}})
	of := h.relayOf(h.Federation.exports).of
	e := Represented{UID: "u", Epoch: 3, Exports: []export.Export{exported("10.0.0.1")}}
	before, at := uint64(0), new(byte)
	for i, c := range []struct {
		change            func()
		renewed, sequence bool
	}{
		{func() {}, true, true},
		{func() {}, false, false},
		{func() { e.Alive = true }, true, false},
		{func() { e.Alive, e.Draining = false, true }, true, true},
		{func() {}, false, false},
		{func() { e.Draining = false }, true, true},
		{func() { e.Exports = nil }, true, true},
	} {
		c.change()
		if err := h.Represent("e", e); err != nil {
			t.Fatal(err)
		}
		value := of["e"].items[stateKey]
		is, err := decodeCluster(value)
		if err != nil || (is.Sequence > before) != c.sequence || (&value[0] != at) != c.renewed || is.Epoch != 3 || is.UID != "u" || is.Draining != e.Draining {
			t.Errorf("step %d, after %d: %+v %v", i, before, is, err)
		}
		before, at = is.Sequence, &value[0]
	}
	e.Exports = []export.Export{exported("10.0.0.1")}
	for _, uid := range []string{"u", "v"} { // a cluster that was made anew has nothing of the one before
		if e.UID = uid; uid == "v" {
			e.Exports = nil
		}
		if err := h.Represent("e", e); err != nil {
			t.Fatal(err)
		}
		if n, want := len(of["e"].items), 1+len(e.Exports); n != want {
			t.Errorf("%d items of %s, want %d", n, uid, want)
		}
	}
}

// What a member exports is passed on for members that the hub represents: without endpoints, with its own stamps and those that it is for, all of it once
// the first such member is there. Where it stands there reaches the exporter.
func TestHub_MembersThatRunNoPenstockReceiveWhatOthersExport(t *testing.T) {
	h, b, c := newHub(t, "h"), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	var mu sync.Mutex
	got := registry.New(registry.Config{})
	whom := map[string][]string{}
	got.SetMembers(map[string]string{"b": "hub", "c": "hub"})
	h.cfg.Passed = func(u registry.Update, to map[registry.Pool][]string) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range u.Exports {
			if whom[u.Member] = to[e.Pool]; len(e.Entry.Endpoints) > 0 {
				t.Errorf("%s is passed on with endpoints", u.Member)
			}
		}
		got.Apply(u)
	}
	h.cfg.Connected = func(member string, is bool) { got.Connected(member, is) }
	has := func(want string) {
		t.Helper()
		poll.NoError(t, "the hub has "+want, poll.Limit, func() error {
			mu.Lock()
			defer mu.Unlock()
			text := ""
			for _, e := range got.Exports(nil, chat) {
				if text += e.Cluster + "=" + e.Entry.EndpointPicker.Service[0].Addresses[0]; e.Draining {
					text += " draining"
				}
				text += fmt.Sprint(whom[e.Cluster]) + " "
			}
			if text != want {
				return fmt.Errorf("it has %s", text)
			}
			return nil
		})
	}
	represents(h, nil, b, c)
	large := exported("10.0.0.1")
	for i := range 3 * maxInline {
		large.Entry.Endpoints = append(large.Entry.Endpoints, inferenceapi.ImportedEndpoint{Address: fmt.Sprintf("10.9.0.%d", i)})
	}
	b.exports(large)
	c.has("b=10.0.0.1")
	has("")
	represents(h, []string{"e", "f"}, b, c)
	has("b=10.0.0.1[c] ")
	b.exports(large) // which members it is for has changed
	has("b=10.0.0.1[c e f] ")
	if m, _ := got.Member("b"); m.UID != "uid-of-b" || m.State != registry.Ready {
		t.Errorf("%+v", m)
	}
	c.exports(exported("10.1.0.1", "e"))
	has("b=10.0.0.1[c e f] c=10.1.0.1[e] ")
	b.exports(exported("10.0.0.1", "f", "c"))
	has("b=10.0.0.1[c f] c=10.1.0.1[e] ")
	b.exports(exported("10.0.0.1", "c"))
	has("b=10.0.0.1[c] c=10.1.0.1[e] ")
	c.exports()
	has("b=10.0.0.1[c] c=10.1.0.1 draining[e] ")
	c.exports(exported("10.1.0.2", "e"))
	has("b=10.0.0.1[c] c=10.1.0.2[e] ")

	stands := func(want string) {
		t.Helper()
		poll.NoError(t, "c has "+want, poll.Limit, func() error {
			text := ""
			for _, p := range c.registry.Placements(nil, chat) {
				text += fmt.Sprintf("%s:%s %d %v", p.Member, p.Reason, p.Incarnation, p.Any)
			}
			if text != want {
				return fmt.Errorf("it has %q", text)
			}
			return nil
		})
	}
	report := func(is registry.Placement, pending ...registry.Placement) {
		t.Helper()
		is.Member, is.Pool = "c", chat
		var placed []registry.Placement
		if len(pending) == 0 {
			placed = append(placed, is)
		}
		if err := h.RepresentPlaced("e", placed, pending); err != nil {
			t.Fatal(err)
		}
	}
	report(registry.Placement{Reason: "Conflict", Incarnation: 5})
	stands("e:Conflict 5 false")
	report(registry.Placement{Any: true})
	stands("e: 0 true")
	report(registry.Placement{}, registry.Placement{Member: "c", Pool: chat})
	if err := h.RepresentPlaced("f", []registry.Placement{{Member: "c", Pool: chat}}, nil); err != nil { // c does not export to f
		t.Fatal(err)
	}
	stands("e: 0 true")
	if err := h.RepresentPlaced("e", nil, nil); err != nil {
		t.Fatal(err)
	}
	stands("")
	c.stop()
	poll.Until(t, "the hub has no connection to c", func() bool { m, _ := got.Member("c"); return !m.Connected() })
	has("b=10.0.0.1[c] c=10.1.0.2[e] ")
}
