package federation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation/wiretest"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// servers returns n endpoints, beginning with first.
func servers(first, n int) (out []inferenceapi.ImportedEndpoint) {
	for i := first; i < first+n; i++ {
		out = append(out, inferenceapi.ImportedEndpoint{Address: fmt.Sprintf("10.0.%d.%d", i/200, i%200)})
	}
	return out
}

// hasEndpoints polls until a site has exactly these endpoints of the pool chat.
func (s *site) hasEndpoints(want []inferenceapi.ImportedEndpoint) {
	s.t.Helper()
	addresses := func(list []inferenceapi.ImportedEndpoint) (out []string) {
		for _, e := range list {
			out = append(out, e.Address)
		}
		slices.Sort(out)
		return out
	}
	poll.NoError(s.t, "the endpoints arrive", poll.Limit, func() error {
		if list := s.registry.Exports(nil, chat); len(list) > 0 {
			e := list[0]
			if got := addresses(e.Entry.Endpoints); !slices.Equal(got, addresses(want)) || e.Draining ||
				e.Unread != "" {
				return fmt.Errorf("got %d endpoints, draining %t, problem %q, want %d, false, none", len(got),
					e.Draining, e.Unread, len(want))
			}
			return nil
		}
		return fmt.Errorf("exports: got none, want one")
	})
}

func TestFederation_ChangeOfOneEndpointSendsItsPartAlone(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	with := func(list []inferenceapi.ImportedEndpoint, to ...string) export.Export {
		e := exported("10.9.0.1", to...)
		e.Entry.Endpoints = list
		return e
	}
	a.exports(with(servers(0, 1000)))
	b.hasEndpoints(servers(0, 1000))
	a.acknowledges("all bytes are counted", "b", true)
	all := b.bytes.Load()
	a.exports(with(servers(1, 1000)))
	b.hasEndpoints(servers(1, 1000))
	a.acknowledges("the bytes of the change are counted", "b", true)
	if change := b.bytes.Load() - all; change > all/4 { // expected: two parts of 32 endpoints, and the state
		t.Errorf("a change of two endpoints takes %d bytes, want at most a quarter of all, %d", change, all)
	}
	for _, n := range []int{300, 65, 64, 1, 0, 40, 1000, 70} {
		a.exports(with(servers(7, n)))
		b.hasEndpoints(servers(7, n))
	}
	a.exports(with(servers(7, 70), "c"))
	b.has("a=10.9.0.1, draining")
	a.exports(with(servers(7, 70)))
	b.hasEndpoints(servers(7, 70))
	a.Publish("uid-of-a", 2, time.Now()) // as a restarted process does
	a.exports(with(servers(8, 70)))
	b.hasEndpoints(servers(8, 70))
	a.exports()
	b.has("a=10.9.0.1, draining")
}

func TestParts_NumberStaysWhileTheyAreNeitherEmptyNorLarge(t *testing.T) {
	for _, c := range []struct{ n, before, want int }{
		{0, 0, 0}, {64, 0, 0}, {65, 0, 4}, {1000, 0, 32}, {1001, 32, 32}, {700, 32, 32}, {300, 32, 32}, {200, 32, 8},
		{2100, 32, 128}, {40, 4, 4}, {32, 4, 0}, {1 << 20, 0, maxParts},
	} {
		if got := partsFor(c.n, c.before); got != c.want {
			t.Errorf("%d endpoints after %d parts: %d, want %d", c.n, c.before, got, c.want)
		}
	}
}

func TestParts_MissingOnesHarmNoOther(t *testing.T) {
	f := New(Config{Certificate: nil, Connected: func(string, bool) {}})
	var got registry.Update
	f.cfg.Apply = func(u ...registry.Update) bool { got = u[0]; return true }
	f.members["at"] = Member{Name: "m"}
	item := func(key, value string) channel.Item { return channel.Item{Key: key, Value: wiretest.Value(value)} }
	head := `{"epoch":1,"sequence":3,"parts":2,"entry":{"routingMode":"EndpointMode"}}`
	err := f.receive(t.Context(), channel.Update{Peer: "at", Snapshot: true, Items: []channel.Item{
		item("", `{"uid":"u","epoch":1,"sequence":4}`),
		item("ns/whole", head), item("ns/whole#0", `{"endpoints":[{"address":"10.0.0.2"}]}`),
		item("ns/whole#1", `{"epoch":1,"sequence":4,"endpoints":[{"address":"10.0.0.1"}]}`),
		item("ns/lacks", head), item("ns/lacks#0", `{}`),
		item("ns/alone#0", `{}`), item("ns/bad#0", `{`), item("NS/x#0", `{}`),
		item("ns/many", `{"parts":5000,"entry":{"routingMode":"EndpointMode"}}`), item("ns/x#-1", `{}`),
	}})
	if err == nil || len(got.Exports) != 1 || len(got.Exports[0].Entry.Endpoints) != 2 ||
		got.Exports[0].Stamp != (registry.Stamp{Epoch: 1, Sequence: 4}) {
		t.Errorf("got %v, %+v, want an error, and 2 endpoints of one export at 1.4", err, got)
	}
	for _, name := range []string{"lacks", "alone", "bad", "many"} {
		if got.Unread[objectid.Pool{Namespace: "ns", Name: name}] == "" {
			t.Errorf("unread: got %[2]v, want %[1]s among them", name, got.Unread)
		}
	}
	if a := f.parts["at"]; len(a.pools) != 2 || a.pools[objectid.Pool{Namespace: "ns", Name: "whole"}] == nil {
		t.Errorf("pools: got %+v, want 2, whole among them", a.pools)
	}
}
