package federation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// newHub makes a hub, of a name.
func newHub(t *testing.T, name string) *site {
	return newSiteAt(t, "127.0.0.1:0", name, id(name), newAuthority(t), true)
}

// around makes sites members of each other through a hub.
func around(hub *site, sites ...*site) {
	var members []Member
	for _, s := range sites {
		members = append(members, Member{Name: s.name, Address: s.listener.Addr().String(), Bundle: s.bundle})
		s.behind(hub, sites...)
	}
	hub.SetMembers(members)
}

// behind has a site use a hub for other sites.
func (s *site) behind(hub *site, others ...*site) {
	members := []Member{{Name: hub.name, Address: hub.listener.Addr().String(), Bundle: hub.bundle, Hub: true}}
	sources := map[string]string{}
	for _, o := range others {
		if o != s {
			members = append(members, Member{Name: o.name})
			sources[o.name] = "hub"
		}
	}
	s.registry.SetMembers(sources)
	s.SetMembers(members)
}

// Members that name the hub alone receive what others export to them, endpoints included, and report back where it stands.
func TestHub_MembersReceiveThroughItWhatIsExportedToThem(t *testing.T) {
	h, a, b, c := newHub(t, "h"), newSite(t, "a", id("a")), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	around(h, a, b, c)
	large := exported("10.0.0.1")
	for i := range 3 * maxInline { // its endpoints have parts
		large.Entry.Endpoints = append(large.Entry.Endpoints, inferenceapi.ImportedEndpoint{Address: fmt.Sprintf("10.9.0.%d", i)})
	}
	a.exports(large)
	b.has("a=10.0.0.1")
	c.has("a=10.0.0.1")
	if list := b.registry.Exports(nil, chat)[0].Entry.Endpoints; len(list) != 3*maxInline {
		t.Errorf("b has %d endpoints", len(list))
	}
	if m, _ := b.registry.Member("a"); m.UID != "uid-of-a" || m.State != registry.Ready || len(m.Bundle) > 0 {
		t.Errorf("b has %+v: want the UID of a, and no bundle by way of the hub", m)
	}
	b.exports()
	if err := b.SetPlaced([]registry.Pool{chat}, []registry.Placement{{Member: "a", Pool: chat, Reason: "NotAllowed"}}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a has where its export stands at b", func() bool {
		list := a.registry.Placements(nil, chat)
		return len(list) == 1 && list[0].Member == "b" && list[0].Reason == "NotAllowed"
	})
	if len(c.registry.Placements(nil, chat)) > 0 {
		t.Error("c receives what is reported to a")
	}
	b.Want([]MemberPool{{"a", chat}})
	poll.Until(t, "a is asked for its load", func() bool { return len(a.Wanted()) == 1 && a.Wanted()[0].Member == "b" })
	if err := a.PublishLoad(MemberPool{"b", chat}, Load{Servers: 7}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "b has the load", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		list := b.loaded[MemberPool{"a", chat}]
		return len(list) == 1 && list[0].Servers == 7
	})
	a.exports(exported("10.0.0.2", "c"))
	c.has("a=10.0.0.2")
	b.has("a=10.0.0.1, draining")
	a.exports(exported("10.0.0.2")) // the record stays as it is
	b.has("a=10.0.0.2")
	a.exports()
	b.has("a=10.0.0.2, draining")
	c.has("a=10.0.0.2, draining")
}

// A hub that is lost, or starts again and does not reach a member, withdraws nothing of it. What was withdrawn meanwhile is withdrawn once it does.
func TestHub_LostOrRestartedWithdrawsNothing(t *testing.T) {
	h, a, b := newHub(t, "h"), newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	around(h, a, b)
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	h.stop()
	poll.Until(t, "b notices", func() bool { return !b.channel.Connected(h.listener.Addr().String()) })
	b.has("a=10.0.0.1")
	again := newSiteAt(t, h.listener.Addr().String(), "h", id("h"), h.authority, true)
	// The hub has b alone at first. It has none of what it published of a before.
	again.SetMembers([]Member{{Name: "b", Address: b.listener.Addr().String(), Bundle: b.bundle}})
	poll.Until(t, "b is connected again", func() bool { return b.channel.Connected(again.listener.Addr().String()) })
	b.exports(exported("10.1.0.1"))
	poll.Until(t, "b has received of the hub that it has nothing of a", func() bool {
		m, _ := b.registry.Member("a")
		return !m.Connected()
	})
	b.has("a=10.0.0.1")
	a.exports()
	around(again, a, b)
	b.has("a=10.0.0.1, draining")
	a.exports(exported("10.0.0.3"))
	b.has("a=10.0.0.3")
}

// The authorities of a hub and of a member renew, and the ClusterSets keep the first bundles: no connection fails in either direction.
func TestHub_AuthorityRenewsWithoutAFailedConnection(t *testing.T) {
	h, a, b := newHub(t, "h"), newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	around(h, a, b)
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	poll.Until(t, "all are connected", func() bool {
		at := func(s *site) string { return s.listener.Addr().String() }
		return h.channel.Connected(at(a)) && h.channel.Connected(at(b)) && a.channel.Connected(at(h)) && b.channel.Connected(at(h))
	})
	for _, s := range []*site{h, a, b} { // one that does not know the other yet denies it
		s.logs.mu.Lock()
		s.logs.text.Reset()
		s.logs.mu.Unlock()
	}
	for _, of := range []*site{h, a} {
		next, by := newAuthority(t), map[*site][]*site{h: {a, b}, a: {h}}[of]
		trusted := func() {
			t.Helper()
			poll.NoError(t, "the bundle of "+of.name+" arrives", poll.Limit, func() (err error) {
				for _, s := range by {
					err = errors.Join(err, s.trust.check(t, next.issue(t, id(of.name))))
				}
				return err
			})
		}
		of.presents(of.presented, slices.Concat(of.bundle, next.bundle))
		trusted()
		of.presents(next.issue(t, id(of.name)), next.bundle)
		around(h, a, b) // what was published stays
		trusted()
	}
	for _, s := range []*site{h, a, b} {
		s.channel.SetPeers()
	}
	around(h, a, b)
	a.exports(exported("10.0.0.2"))
	b.has("a=10.0.0.2")
	if text := h.logs.String() + a.logs.String() + b.logs.String(); strings.Contains(text, "certificate") || strings.Contains(text, "handshake") {
		t.Errorf("a connection failed:\n%s", text)
	}
}

// A member has an address in the ClusterSet: its own stream counts, and a hub that publishes under its name, or that of the importer, or of a
// stranger, is not received from.
func TestHub_PublishesForNoMemberWithAStreamOfItsOwn(t *testing.T) {
	b := newSite(t, "b", id("b"))
	a, h := newSite(t, "a", id("a")), newHub(t, "h")
	b.registry.SetMembers(map[string]string{"a": "peer", "b": "peer", "c": "hub", "h": "peer"}) // more than a ClusterSet can have
	b.SetMembers([]Member{{Name: "a", Address: a.listener.Addr().String(), Bundle: a.bundle}, {Name: "h", Address: h.listener.Addr().String(), Bundle: h.bundle, Hub: true}, {Name: "c"}})
	a.registry.SetMembers(map[string]string{"b": "peer"})
	a.SetMembers([]Member{{Name: "b", Address: b.listener.Addr().String(), Bundle: b.bundle}})
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	// A hostile hub publishes what it likes.
	h.exports(exported("10.6.6.6"))
	h.channel.Topic(exportsTopic).Visible(func(string, string) bool { return true })
	h.SetMembers([]Member{{Name: "b", Address: b.listener.Addr().String(), Bundle: b.bundle}})
	record := []byte(`{"epoch":9,"sequence":9,"entry":{"routingMode":"EndpointMode","endpointPicker":{"service":[{"addresses":["10.6.6.6"]}]}}}`)
	var items []channel.Item
	for _, name := range []string{"a", "b", "c", "d", "h", "", "a/x"} {
		items = append(items, channel.Item{Key: name + "/", Value: []byte(`{"uid":"uid-of-a","epoch":9,"sequence":9}`)}, channel.Item{Key: name + "/ns/chat", Value: record})
	}
	h.channel.Topic(exportsTopic).Publish(append(items, channel.Item{Value: []byte(`{"uid":"uid-of-h","epoch":9,"sequence":9}`)}, channel.Item{Key: "ns/chat", Value: record})...)
	b.has("a=10.0.0.1; c=10.6.6.6")
}

// What a member publishes does not fill the memory of a hub, and what it publishes wrongly harms no other item.
func TestHub_WhatAMemberPublishesIsBounded(t *testing.T) {
	r := &relay{exports: true, of: map[string]*relayedMember{}}
	state := channel.Item{Value: []byte(`{"uid":"u","epoch":1,"sequence":3}`)}
	take := func(snapshot bool, items ...channel.Item) (n int, err error) {
		out, _, _, err := r.take("m", channel.Update{Snapshot: snapshot, Items: items})
		return len(out), err
	}
	if n, err := take(true, channel.Item{Key: "ns/chat", Value: []byte(`{}`)}); n != 0 || err == nil || len(r.of) > 0 || r.bytes != 0 {
		t.Errorf("without a state: %d items, %v, %d bytes", n, err, r.bytes)
	}
	for _, bad := range []channel.Item{{Key: "chat"}, {Key: "ns/../x"}, {Key: "other/ns/chat"}, {Key: "ns/large", Value: make([]byte, maxRecord+1)}, {Key: "ns/chat#to", Value: []byte(`{`)}, {Key: "#to", Value: []byte(`["x"]`)}} {
		if n, err := take(true, state, bad); n != 1 || err == nil {
			t.Errorf("%q: %d items are relayed, %v", bad.Key, n, err)
		}
	}
	if (&relay{}).shows("c", "b/a/ns/chat") || !(&relay{}).shows("a", "b/a/ns/chat") {
		t.Error("what b reports to a is not for a alone")
	}
	full := 0
	for i := range maxRelayed/maxRecord + 1 {
		if n, _ := take(false, channel.Item{Key: fmt.Sprintf("ns/p%d", i), Value: []byte(strings.Repeat("x", maxRecord-1000))}); n == 0 {
			full++
		}
	}
	if full == 0 || r.bytes > maxRelayed {
		t.Errorf("the hub has %d bytes", r.bytes)
	}
	if _, err := take(true, state); err != nil || r.bytes != len(state.Value) {
		t.Errorf("after a snapshot without them, the hub has %d bytes, %v", r.bytes, err)
	}
}

func FuzzRelay_HandlersReceiveNoMoreThanAHubPublished(f *testing.F) {
	f.Add("c/", "c/ns/chat", "c/ns/chat", true)
	f.Add("a/", "", "c", false)
	f.Fuzz(func(t *testing.T, one, two, gone string, snapshot bool) {
		fed := New(Config{})
		fed.members["hub"] = Member{Name: "h", Address: "hub", Hub: true}
		fed.members[relayedFrom("hub", "c")] = Member{Name: "c"}
		began := false
		handle := fed.relayed(func(_ context.Context, u channel.Update) error {
			if u.Peer != relayedFrom("hub", "c") {
				t.Errorf("an update of %q", u.Peer)
			}
			began = began || u.Snapshot
			if !u.Disconnected && !began {
				t.Errorf("%+v before all of the member is there", u)
			}
			return nil
		})
		for _, s := range []bool{snapshot, false} {
			_ = handle(t.Context(), channel.Update{Peer: "hub", Snapshot: s, Items: []channel.Item{{Key: one, Value: []byte("x")}, {Key: two}}, Retracted: []string{gone}})
		}
	})
}
