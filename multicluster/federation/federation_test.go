package federation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation/wiretest"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

var chat = objectid.Pool{Namespace: "ns", Name: "chat"}

func TestFederation_MembersReceiveWhatIsExportedToThem(t *testing.T) {
	a, b, c := newSite(t, "a", id("a")), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	join(a, b, c)
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	c.has("a=10.0.0.1")
	a.exports(exported("10.0.0.2", "c"))
	c.has("a=10.0.0.2")
	b.has("a=10.0.0.1, draining")
	b.exports(exported("10.1.0.1"))
	c.has("a=10.0.0.2; b=10.1.0.1")
	a.has("b=10.1.0.1")
	a.exports()
	c.has("a=10.0.0.2, draining; b=10.1.0.1")
}

func TestFederation_ExporterReceivesWhereItsExportsStand(t *testing.T) {
	a, b, c := newSite(t, "a", id("a")), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	join(a, b, c)
	at := func(reason string) []registry.Placement {
		return []registry.Placement{{Member: "a", Pool: chat, Reason: reason, Message: strings.Repeat("x", 600)}}
	}
	placed := func(want string) {
		t.Helper()
		poll.NoError(t, "a has "+want, poll.Limit, func() error {
			var got string
			for _, p := range a.registry.Placements(nil, chat) {
				got += fmt.Sprintf("%s %q %d ", p.Member, p.Reason, len(p.Message))
			}
			if got != want {
				return fmt.Errorf("it has %s, want %s", got, want)
			}
			return nil
		})
	}
	a.exports(exported("10.0.0.1"))
	b.exports()
	if err := b.SetPlaced([]objectid.Pool{chat}, at("NotAllowed")); err != nil {
		t.Fatal(err)
	}
	placed(`b "NotAllowed" 512 `)
	if err := c.SetPlaced([]objectid.Pool{chat}, at("")); err != nil {
		t.Fatal(err)
	}
	placed(`b "NotAllowed" 512 c "" 512 `)
	if len(b.registry.Placements(nil, chat)) > 0 {
		t.Error("b receives what is reported to a")
	}
}

// A pool is exported, withdrawn and exported again. A member's report on the first export must not
// count for the second export. A member's report on a pool that is not exported to it must not
// count either.
func TestFederation_PoolThatIsExportedAgainIsNotImportedBeforeItsMemberReportsIt(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	other := objectid.Pool{Namespace: "ns", Name: "other"}
	place := func(pools []objectid.Pool, incarnation uint64) {
		t.Helper()
		var list []registry.Placement
		for _, p := range pools {
			list = append(list, registry.Placement{Member: "a", Pool: p, Incarnation: incarnation})
		}
		if err := b.SetPlaced([]objectid.Pool{chat, other}, list); err != nil {
			t.Fatal(err)
		}
	}
	condition := func(e export.Export) string {
		condition := export.Exported(export.Decision{Asked: true, Pool: chat, Export: &e}, []string{"b"},
			a.registry.Placements(nil, chat))
		return string(condition.Status) + " " + condition.Reason
	}
	until := func(what string, e export.Export, want string) {
		t.Helper()
		poll.NoError(t, what, poll.Limit, func() error {
			if got := condition(e); got != want {
				return fmt.Errorf("the condition is %s, want %s", got, want)
			}
			return nil
		})
	}
	first := exported("10.0.0.1")
	place([]objectid.Pool{chat, other}, 0) // b reports before a's first SetExports
	a.exports(first)
	until("the first export", first, "True Exported")
	if got := a.registry.Placements(nil, other); len(got) > 0 {
		t.Errorf("b reports on a pool that is not exported: got %v, want none", got)
	}
	a.exports()
	again := first
	again.Incarnation = 7
	a.exports(again)
	if got := condition(again); got != "False MemberUnreachable" {
		t.Errorf(`exported again, before b reports: got %s, want "False MemberUnreachable"`, got)
	}
	poll.Until(t, "b has the second export", func() bool {
		list := b.registry.Exports(nil, chat)
		return len(list) == 1 && list[0].Incarnation == 7
	})
	place([]objectid.Pool{chat}, 7)
	until("the second export", again, "True Exported")
	place(nil, 0)
	until("b has nothing of it any more", again, "False MemberUnreachable")
}

func TestFederation_SilentMemberWithdrawsNothing(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	a.stop()
	poll.Until(t, "b notices", func() bool {
		// A disconnected member is Ready until its lease expires.
		return !b.channel.Connected(a.listener.Addr().String())
	})
	b.has("a=10.0.0.1")
}

func TestFederation_OnlyMembersTakePart(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	for what, certificate := range map[string]func() (*tls.Certificate, error){
		"a stranger":                          newAuthority(t).issue(t, id("stranger")),
		"a stranger with a member's name":     newAuthority(t).issue(t, id("b")),
		"a member with another member's name": b.issue(t, id("a")),
		"another process of a member":         b.issue(t, "spiffe://b/ns/default/sa/default"),
	} {
		got := make(chan channel.Update, 10)
		f := New(Config{Certificate: certificate, Apply: func(...registry.Update) bool { return true },
			Connected: func(string, bool) {}})
		f.exports.Subscribe(func(_ context.Context, u channel.Update) error {
			got <- u
			return nil
		})
		f.SetMembers([]Member{{Name: "a", Address: a.listener.Addr().String(), Bundle: a.bundle}})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_ = f.Run(ctx)
		cancel()
		if len(got) > 0 {
			t.Errorf("%s receives %v, want nothing", what, <-got)
		}
	}
}

func TestFederation_ImpostorAtAMembersAddressIsNotReceivedFrom(t *testing.T) {
	a, b, c := newSite(t, "a", id("a")), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	join(a, b, c)
	a.exports(exported("10.0.0.1"))
	b.exports(exported("10.6.6.6"))
	c.has("a=10.0.0.1; b=10.6.6.6")
	// c connects to b at the address of a.
	d := newSite(t, "d", id("d"))
	b.SetMembers([]Member{{Name: "d", Address: d.listener.Addr().String(), Bundle: d.bundle}})
	d.registry.SetMembers([]string{"a"})
	d.SetMembers([]Member{{Name: "a", Address: b.listener.Addr().String(), Bundle: a.bundle},
		{Name: "b", Address: "127.0.0.1:1", Bundle: b.bundle}})
	poll.Until(t, "d has tried", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return d.channel.Synced(ctx) == nil
	})
	if got := d.got(); got != "" {
		t.Errorf("d has %q, want nothing", got)
	}
}

func TestRecord_WrongOnesHarmNoOther(t *testing.T) {
	for key, value := range map[string]string{
		"":             `{}`,
		"chat":         `{"entry":{"routingMode":"EndpointMode"}}`,
		"ns/Chat":      `{"entry":{"routingMode":"EndpointMode"}}`,
		"ns/../../x":   `{"entry":{"routingMode":"EndpointMode"}}`,
		"ns/mode":      `{"entry":{"routingMode":"Other"}}`,
		"ns/truncated": `{"entry":{"routing`,
		"ns/large":     `{"entry":{"routingMode":"EndpointMode"},"more":"` + strings.Repeat(" ", maxRecord) + `"}`,
		"ns/twice":     "\xa2\x65entry\xa1\x6broutingMode\x6aParentMode\x65entry\xa1\x6broutingMode\x6aParentMode",
		"ns/tagged":    "\xa1\x65entry\xa1\x6broutingMode\xc0\x6aParentMode",
		"ns/endless":   "\xbf\x65entry\xa1\x6broutingMode\x6aParentMode\xff",
		"ns/trailing":  "\xa1\x65entry\xa1\x6broutingMode\x6aParentMode\x00",
		"ns/case":      `{"entry":{"RoutingMode":"ParentMode"}}`,
		"ns/deep": `{"entry":{"routingMode":"ParentMode"},"x":` + strings.Repeat("[", maxDepth) +
			strings.Repeat("]", maxDepth) + `}`,
	} {
		pools := assemblies{pools: map[objectid.Pool]*assembly{}, share: 64 << 20}
		if e, _, err := pools.receive(key, wiretest.Value(value)); err == nil {
			t.Errorf("%s is %v, want an error", key, e)
		}
	}
	for _, stamp := range []string{`"epoch":9223372036854775808`, `"sequence":18446744073709551615`,
		`"epoch":18446744073709551616`} {
		if c, err := decodeCluster(wiretest.Value(`{"uid":"u",`+stamp+`}`), ""); err == nil {
			t.Errorf("%s is %v, want an error", stamp, c)
		}
		if e, _, err := decodeRecord(chat, wiretest.Value(`{"entry":{"routingMode":"ParentMode"},`+stamp+`}`)); err ==
			nil {
			t.Errorf("%s is %v, want an error", stamp, e)
		}
	}
	for _, value := range []string{`{}`, `[`, `{"uid":"` + strings.Repeat("x", maxUID+1) + `"}`,
		`{"uid":"x","more":"` + strings.Repeat(" ", maxState) + `"}`} {
		if c, err := decodeCluster(wiretest.Value(value), ""); err == nil {
			t.Errorf("%.20s is %v, want an error", value, c)
		}
	}
	f := New(Config{Certificate: func() (*tls.Certificate, error) { return nil, nil },
		Connected: func(string, bool) {}})
	var got []registry.Update
	f.cfg.Apply = func(u ...registry.Update) bool { got = append(got, u...); return true }
	f.members["at"] = Member{Name: "m"}
	items := []channel.Item{{Key: "ns/bad", Value: wiretest.Value(`{`)},
		{Key: "ns/chat", Value: wiretest.Value(`{"sequence":3,"entry":{"routingMode":"ParentMode"}}`)}}
	if err := f.receive(t.Context(), channel.Update{Peer: "at", Snapshot: true, Items: items}); err == nil ||
		len(got) != 0 {
		t.Errorf("without a state: got %v, %v, want an error and no update", err, got)
	}
	err := f.receive(t.Context(),
		channel.Update{Peer: "at", Snapshot: true,
			Items: append(items, channel.Item{Value: wiretest.Value(`{"uid":"u","epoch":1,"sequence":3}`)})})
	if err != nil || len(got) != 1 || len(got[0].Exports) != 1 ||
		got[0].Unread[objectid.Pool{Namespace: "ns", Name: "bad"}] == "" ||
		got[0].Stamp != (registry.Stamp{Epoch: 1, Sequence: 3}) {
		t.Errorf("got %v, %+v, want one export at 1.3, and ns/bad unread", err, got)
	}
}

func TestRecord_KeyOfOneKindIsNotTakenForAnother(t *testing.T) {
	for key, want := range map[string]exportKey{
		"": {kind: stateKind}, "ns/chat": {kind: recordKind, pool: chat},
		"ns/chat#7": {kind: partKind, pool: chat, part: 7},
	} {
		if got, err := receivedKey(key); err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", key, got, err, want)
		}
	}
	for _, key := range []string{"ns", "ns/", "ns/chat/x", "ns/Chat", "ns/chat#", "ns/chat#x", "ns/chat#-1",
		"ns/chat#07", "ns/chat#1024", "#1", "ns/chat#1#2"} {
		if got, err := receivedKey(key); err == nil {
			t.Errorf("%q is %+v, want an error", key, got)
		}
	}
}

func FuzzRecord_DecodesOrFails(f *testing.F) {
	f.Add("ns/chat",
		wiretest.Value(`{"epoch":1,"sequence":3,"entry":{"routingMode":"ParentMode","parents":[{"name":"gw"}]}}`))
	f.Add("ns/chat#7", wiretest.Value(`{"epoch":1,"sequence":3,"endpoints":[{"address":"10.0.0.1"}]}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		pools := assemblies{pools: map[objectid.Pool]*assembly{}, share: 64 << 20}
		e, whole, err := pools.receive(key, value)
		if err == nil && (e.Pool.Name == "" || whole && e.Entry.RoutingMode == "") && key != stateKey {
			t.Errorf("got %+v, want a pool's name, and a mode of a whole export", e)
		}
		at, err := parseKey(key)
		text := at.pool.String()
		if at.kind == partKind {
			text = partKey(text, at.part)
		}
		if err == nil && at.kind != stateKind && text != key {
			t.Errorf("%q reads as %+v, want the same text of it", key, at)
		}
		_, _ = decodeCluster(value, "")
	})
}

// check reports whether a certificate is trusted.
func (t *trust) check(tt *testing.T, certificate func() (*tls.Certificate, error)) error {
	tt.Helper()
	c, err := certificate()
	if err != nil {
		tt.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		tt.Fatal(err)
	}
	_, err = t.member([]*x509.Certificate{leaf}, x509.ExtKeyUsageClientAuth)
	return err
}

// A record whose lists exceed the schema's limits is rejected before it is decoded. An empty list
// element takes one byte on the wire, but a hundred bytes decoded.
func TestFederation_ListsOfAnExportAreBounded(t *testing.T) {
	many := func(what string, n int) string { return strings.TrimSuffix(strings.Repeat(what+",", n), ",") }
	for entry, good := range map[string]bool{
		`"routingMode":"EndpointMode","endpoints":[` + many(`{"address":"10.0.0.1"}`, 4096) + `]`:      true,
		`"routingMode":"EndpointMode","endpoints":[` + many(`{"address":"10.0.0.1"}`, 4097) + `]`:      false,
		`"routingMode":"EndpointMode","endpoints":[{}]`:                                                false,
		`"routingMode":"ParentMode","parents":[` + many(`{"name":"g"}`, 17) + `]`:                      false,
		`"routingMode":"ParentMode","parents":[{"service":[` + many(`{}`, 257) + `]}]`:                 false,
		`"routingMode":"EndpointMode","targetPorts":[` + many(`{"number":1}`, 17) + `]`:                false,
		`"routingMode":"EndpointMode","endpointPicker":{"service":{"ports":[` + many(`{}`, 17) + `]}}`: false,
	} {
		if _, _, err := decodeRecord(chat, wiretest.Value(`{"entry":{`+entry+`}}`)); (err == nil) != good {
			t.Errorf("%.80s: got %v, want it valid: %t", entry, err, good)
		}
	}
	pools := assemblies{pools: map[objectid.Pool]*assembly{}, share: 64 << 20}
	head := wiretest.Value(`{"parts":2,"entry":{"routingMode":"EndpointMode"}}`)
	for i := range maxAssemblies {
		if _, _, err := pools.receive(fmt.Sprint("default/p", i), head); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := pools.receive("default/more", head); err == nil {
		t.Error("heads of pools whose endpoints come in parts are not bounded")
	}
}

// If Config.Apply rejects a member's exports, Federation requests them again after the next update
// that Apply accepts. Example: the previous cluster with the member's name still had a lease.
func TestFederation_MemberIsAskedAgainForWhatHadNoEffect(t *testing.T) {
	f := New(Config{Certificate: func() (*tls.Certificate, error) { return nil, nil }})
	f.members["at"] = Member{Name: "m"}
	works := false
	f.cfg.Apply = func(...registry.Update) bool { return works }
	state := channel.Item{Value: wiretest.Value(`{"uid":"u","epoch":1,"sequence":3}`)}
	receive := func(snapshot bool) error {
		return f.receive(t.Context(), channel.Update{Peer: "at", Snapshot: snapshot, Items: []channel.Item{state}})
	}
	for i, want := range []error{errNoEffect, errNoEffect, channel.ErrSendAgain, nil, nil} {
		works = i > 1
		if err := receive(i == 0 || i == 3); !errors.Is(err, want) {
			t.Errorf("update %d: %v, want %v", i, err, want)
		}
	}
}

// Parts of a pool's endpoints were dropped because their cluster exceeded its share of memory.
// Federation requests them again once another pool of the cluster is withdrawn, or the share grows.
func TestFederation_PartsWithoutRoomAreAskedForAgain(t *testing.T) {
	endpoints := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"address":"10.0.%d.%d"}`, i/250, i%250))
		}
		return `{"epoch":1,"sequence":1,"endpoints":[` + strings.Join(list, ",") + `]}`
	}
	state := channel.Item{Value: wiretest.Value(`{"uid":"u","epoch":1,"sequence":3}`)}
	pool := func(name string, n int) []channel.Item {
		head := `{"parts":1,"stamp":{"epoch":1,"sequence":1},"entry":{"routingMode":"EndpointMode"}}`
		return []channel.Item{{Key: "default/" + name, Value: wiretest.Value(head)},
			{Key: "default/" + name + "#0", Value: wiretest.Value(endpoints(n))}}
	}
	for name, frees := range map[string]func(share *int) channel.Update{
		"another pool is withdrawn": func(*int) channel.Update {
			return channel.Update{Items: []channel.Item{state}, Retracted: []string{"default/a", "default/a#0"}}
		},
		"another pool is smaller": func(*int) channel.Update {
			return channel.Update{Items: append(pool("a", 1), state)}
		},
		"the share is larger": func(share *int) channel.Update {
			*share *= 2
			return channel.Update{Items: []channel.Item{state}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			share := 30_000
			applied := map[string]int{}
			f := New(Config{Certificate: func() (*tls.Certificate, error) { return nil, nil },
				Share: func() int { return share }})
			f.members["at"] = Member{Name: "m"}
			f.cfg.Apply = func(updates ...registry.Update) bool {
				for _, u := range updates {
					for _, e := range u.Exports {
						applied[e.Pool.Name] = len(e.Entry.Endpoints)
					}
				}
				return true
			}
			receive := func(u channel.Update) error {
				u.Peer = "at"
				return f.receive(t.Context(), u)
			}
			all := channel.Update{Snapshot: true, Items: append(append(pool("a", 300), pool("b", 300)...), state)}
			_ = receive(all)
			if applied["a"] != 300 || applied["b"] != 0 {
				t.Fatalf("the share has room for %v, want a of 300 alone", applied)
			}
			for range 3 {
				if err := receive(channel.Update{Items: []channel.Item{state}}); errors.Is(err, channel.ErrSendAgain) {
					t.Error("without more room, everything is asked for again")
				}
			}
			if err := receive(frees(&share)); !errors.Is(err, channel.ErrSendAgain) {
				t.Fatalf("with room again: got %v, want ErrSendAgain", err)
			}
			all.Items = append(pool("b", 300), state)
			_ = receive(all)
			if applied["b"] != 300 {
				t.Errorf("with room: got %v, want b of 300", applied)
			}
			if err := receive(channel.Update{Items: []channel.Item{state}}); err != nil {
				t.Errorf("with everything here: %v", err)
			}
		})
	}
}

// If a pool's record has no room, the pool's parts are dropped. The memory that this frees must not
// cause another request for the record, which would have no room again.
func TestFederation_PoolThatNeverFitsIsNotAskedForWithoutEnd(t *testing.T) {
	f := New(Config{Certificate: func() (*tls.Certificate, error) { return nil, nil },
		Share: func() int { return 400 }})
	f.members["at"] = Member{Name: "m"}
	f.cfg.Apply = func(...registry.Update) bool { return true }
	state := channel.Item{Value: wiretest.Value(`{"uid":"u","epoch":1,"sequence":3}`)}
	part := channel.Item{Key: "default/a#0", Value: wiretest.Value(`{"epoch":1,"sequence":1,"endpoints":[]}`)}
	head := channel.Item{
		Key:   "default/a",
		Value: wiretest.Value(`{"parts":1,"stamp":{"epoch":1,"sequence":1},"entry":{"routingMode":"EndpointMode"}}`),
	}
	for i := range 4 {
		u := channel.Update{Peer: "at", Items: []channel.Item{state}}
		if i == 0 {
			u.Snapshot, u.Items = true, []channel.Item{part, head, state}
		}
		if err := f.receive(t.Context(), u); errors.Is(err, channel.ErrSendAgain) {
			t.Errorf("update %d has everything sent again, want it never", i)
		}
	}
}
