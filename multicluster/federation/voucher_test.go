package federation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// behindWith is behind, with the bundles of the other sites.
func (s *site) behindWith(hub *site, others ...*site) {
	members := []Member{{Name: hub.name, Address: hub.listener.Addr().String(), Bundle: hub.bundle, Hub: true}}
	sources := map[string]string{}
	for _, o := range others {
		members = append(members, Member{Name: o.name, Bundle: o.bundle})
		sources[o.name] = "hub"
	}
	s.registry.SetMembers(sources)
	s.SetMembers(members)
}

// The authority of a member behind a hub renews twice, and the ClusterSet of another one keeps the first bundle: this one trusts the last.
func TestHub_MembersTrustEachOthersNextAuthorities(t *testing.T) {
	h, a, b := newHub(t, "h"), newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	around(h, a, b)
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	b.behindWith(h, a) // while it runs
	b.knows(a)
	signing := a.renewsTwice(func() { b.knows(a) })
	m, _ := b.registry.Member("a")
	trusted := newTrust(nil, b.trust.now, nil)
	trusted.set([]Member{{Name: "a", Address: "192.0.2.1:1", Bundle: a.bundle, Published: m.Bundle}})
	if err := trusted.check(t, signing.issue(t, id("a"))); err != nil {
		t.Errorf("the last authority is not trusted: %v", err)
	}
	if err := b.trust.check(t, signing.issue(t, id("a"))); err == nil || !strings.Contains(err.Error(), "it is reached through the hub") {
		t.Errorf("a member that the ClusterSet has behind the hub connects itself: %v", err)
	}
	a.exports(exported("10.0.0.2"))
	b.has("a=10.0.0.2")
}

// What a hub relays as a member's bundle, and the member has not signed, is not trusted, named, and what was trusted stays.
func TestHub_VouchesForNoBundle(t *testing.T) {
	b, a, evil := newSite(t, "b", id("b")), newAuthority(t), newAuthority(t)
	member := Member{Name: "a", Bundle: a.bundle}
	other := newAuthority(t)
	b.trust.set([]Member{member, {Name: "c", Bundle: other.bundle}})
	sign := func(by *authority, as, bundle string) *voucher {
		f := New(Config{Certificate: by.issue(t, as)})
		v, err := f.sign(bundle)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	next := string(a.bundle) + string(newAuthority(t).bundle)
	kept, err := b.trust.accept(&member, cluster{Bundle: next, Voucher: sign(a, id("a"), next)})
	if err != nil || !strings.HasSuffix(string(kept), next) {
		t.Fatalf("signed by the member: %q %v", kept, err)
	}
	forged := string(a.bundle) + string(evil.bundle)
	damaged := sign(a, id("a"), forged)
	damaged.Signature[len(damaged.Signature)-1] ^= 1
	large := sign(a, id("a"), forged)
	for range 32 {
		large.Chain = append(large.Chain, large.Chain[0])
	}
	for what, c := range map[string]struct {
		v    *voucher
		want string
	}{
		"no signature":                      {nil, "has no signature"},
		"signed by what it brings":          {sign(evil, id("a"), forged), "certificate"},
		"a signature of the bundle before":  {sign(a, id("a"), next), "signature"},
		"another member's signature":        {sign(other, id("c"), forged), "is that of member c"},
		"another member in the member's ID": {sign(other, id("a"), forged), "certificate"},
		"the key of a Gateway":              {sign(a, "spiffe://a/gateway", forged), "its path is not /penstock"},
		"a damaged signature":               {damaged, "signature"},
		"no certificate":                    {&voucher{Signature: damaged.Signature}, "no certificate"},
		"no DER":                            {&voucher{Chain: [][]byte{{1}}}, "signature"},
		"a chain without an end":            {large, "more than 4096 bytes"},
	} {
		got, err := b.trust.accept(&member, cluster{Bundle: forged, Voucher: c.v})
		if err == nil || !strings.Contains(err.Error(), c.want) || string(got) != string(kept) {
			t.Errorf("%s: %q %v", what, got, err)
		}
	}
	if got, err := b.trust.accept(&member, cluster{Bundle: string(a.bundle)}); err != nil || string(got) != string(kept) {
		t.Errorf("an older release has the bundle that is trusted: %q %v", got, err)
	}
}

// The problem of a bundle that is not signed reaches people, and harms nothing else.
func TestHub_UnsignedBundleIsNamed(t *testing.T) {
	b, a := newSite(t, "b", id("b")), newAuthority(t)
	hub := Member{Name: "h", Address: "127.0.0.1:1", Bundle: a.bundle, Hub: true}
	b.registry.SetMembers(map[string]string{"a": "hub"})
	b.SetMembers([]Member{hub, {Name: "a", Bundle: a.bundle}})
	problems := make(chan string, 1)
	b.cfg.Problem = func(member, problem string) { problems <- member + ": " + problem }
	value, err := json.Marshal(cluster{UID: "u", Epoch: 1, Sequence: 1, Bundle: string(newAuthority(t).bundle)})
	if err != nil {
		t.Fatal(err)
	}
	items := []channel.Item{{Key: "a/" + stateKey, Value: value}, {Key: "a/" + poolKey(chat), Value: fmt.Appendf(nil, `{"epoch":1,"sequence":1,"entry":{"name":"a","routingMode":"EndpointMode","endpointPicker":{"name":"p","pool":"x/y","service":[{"addresses":["10.0.0.5"]}]}}}`)}}
	_ = b.relayed(b.receive)(t.Context(), channel.Update{Peer: hub.Address, Snapshot: true, Items: items})
	if got := <-problems; !strings.HasPrefix(got, "a: its bundle has no signature") {
		t.Error(got)
	}
	poll.Until(t, "its export counts", func() bool { return len(b.registry.Exports(nil, chat)) == 1 })
}
