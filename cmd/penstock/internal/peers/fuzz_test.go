package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

// FuzzFacts_HostileValuesAreBounded publishes any item on all topics of a peer. Nothing may panic,
// counts must stay counts, and retracted items must be gone.
func FuzzFacts_HostileValuesAreBounded(f *testing.F) {
	for _, s := range [][2]string{
		{"default/gw", "3"}, {"default/gw", "-3"}, {"default/gw", "9223372036854775807"}, {"10.0.0.1:80", "4"},
		{"10.0.0.1:80", "-4"}, {"10.0.0.1:80", "99999999999"}, {"[fe80::1%x]:80", "1"}, {"owner", "me"},
		{"default/gw node", `[{"owner":{"kind":"Gateway","name":"a"},"conditions":[{"type":"Programmed"}]}]`},
		{"default/gw node", `[null]`}, {"pool", `{"owner":{},"findings":[{}]}`},
		{"1", `[{"Lease":"a.1","Open":true,"Served":"10.0.0.1:80","Status":-1,"FirstByte":-5}]`}, {"1", `[{}]`},
		{"default/gw", "7 abc"}, {"default/gw", "-9223372036854775808 "}, {"", ""},
		{"default/gw", strings.Repeat("9", 500)},
		{"10.0.0.1:80", "4 1000 10 900 20 4000"}, {"headers 10.0.0.1:80", "h1 1000" + strings.Repeat(" 20000", 20)},
		{"headers 10.0.0.1:80", "h1 99"}, {"10.0.0.1:80", "4 -1 0 0 0 0"},
		{"10.0.0.1:80", "1 1099511627776 1099511627776 4611686018427 4611686018427 9"},
		{"10.0.0.1:80", strings.Repeat("\x01", 9)},
		{"2", "\x04\x0a\x00\x00\x01\x50\x00\x07\x00\x00\x00\x00\x00\x00\x00\x04\x01\x00abcdefgh"},
		{"2", "\x04\x0a\x00\x00\x01\x50\x00\x07\x00\x00\x00\x00\x00\x00\x00\x04\xff\xff"}, {"2", "\x10"},
		{"q", `{"last":-1,"pool":"a"}`}, {"q", `[null]`},
		{"3", `[{"a":"10.0.0.1:80","p":1,"r":{"Queue":-1,"KV":1e300}}]`}, {"3", `[{"a":"","p":-1}]`},
		{"gpu.example", `["10.0.0.1","2001:db8::1"]`}, {"gpu.example", `["10.0.0.1%x",""]`},
		{
			"3",
			fmt.Sprintf(`[{"a":"10.0.0.1:80","p":%d,"r":{"Queue":-1,"Adapters":{"running":[""]}}}]`,
				uint64(math.MaxUint64)),
		},
	} {
		f.Add(s[0], []byte(s[1]))
	}
	w := newFuzzWorld(f)
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		key = strings.ToValidUTF8(key, "?") // protobuf sends only valid UTF-8
		w.publish(t, channel.Item{Key: key, Value: value})
		if n := w.proxies.Elsewhere(); n < 0 || n > math.MaxInt32 {
			t.Errorf("%d Envoys elsewhere, want at least 0 and at most %d", n, math.MaxInt32)
		}
		if n := w.endpoint.State().InFlight; n < 0 || n > math.MaxInt32 {
			t.Errorf("%d requests in flight elsewhere, want at least 0 and at most %d", n, math.MaxInt32)
		}
		for _, e := range w.entries {
			if raw, err := json.Marshal(e); err != nil || len(raw) > 10*len(value)+200 {
				t.Errorf("an entry of %d bytes from %d: %v, want at most %d",
					len(raw), len(value), err, 10*len(value)+200)
			}
		}
		for _, s := range w.counter.learned {
			if len(s.Chain) > prefix.MaxBlocks || len(s.Chain) > len(value)/8 || s.Slots < 0 || !s.Server.IsValid() {
				t.Errorf("got %+v from %d bytes, want at most %d blocks, all valid", s, len(value), prefix.MaxBlocks)
			}
		}
		if n := len(w.counter.sessions); n > len(value)/2 {
			t.Errorf("%d sessions from %d bytes, want at most %d", n, len(value), len(value)/2)
		}
		for name, addresses := range w.counter.hosts {
			for _, a := range addresses {
				if _, err := netip.ParseAddr(a); err != nil || len(addresses) > maxHostAddresses {
					t.Errorf("%q has %d addresses, such as %q, want at most %d",
						name, len(addresses), a, maxHostAddresses)
				}
			}
		}
		if s := w.endpoint.State(); s.Queue < 0 || s.KV < 0 || s.KV > 1e15 {
			t.Errorf("a page shows %+v, want Queue at least 0, KV at least 0, KV at most 1e15", s)
		}
		if n := w.endpoint.State().Unread; n < 0 {
			t.Errorf("%d tokens unread elsewhere, want at least 0", n)
		}
		w.retract(t, key)
		if n := w.proxies.Elsewhere(); n != 0 {
			t.Errorf("%d Envoys elsewhere after the retraction, want 0", n)
		}
		if n := w.endpoint.State().InFlight; n != 0 {
			t.Errorf("%d requests in flight elsewhere after the retraction, want 0", n)
		}
		if list := w.board.List(nil); len(list) > 0 {
			t.Errorf("reported after the retraction: %v, want none", list)
		}
		named, _ := objectid.ParseTarget(key)
		if behind := w.names.Behind(named, "other"); len(behind) > 0 {
			t.Errorf("%v are waited for after the retraction, want none", behind)
		}
	})
}

var fuzzedAddress = netip.MustParseAddrPort("10.0.0.1:80")

type fuzzWorld struct {
	peer     publisher
	topics   []*channel.Topic
	board    *status.Board
	proxies  *Proxies
	names    *Names
	endpoint *endpoint.Endpoint // at fuzzedAddress
	entries  []accesslog.Entry
	counter  *fuzzCounter
}

type fuzzCounter struct {
	loads    *endpoint.Registry
	index    *prefix.Index
	learned  []picker.Sent // their chains must not be read later
	sessions []picker.Session
	hosts    hostRecorder
}

func (*fuzzCounter) Owner() string               { return "this" }
func (c *fuzzCounter) Loads() *endpoint.Registry { return c.loads }

func (c *fuzzCounter) Learn(s picker.Sent) { c.learned = append(c.learned, s) }

func (*fuzzCounter) Snapshot(int, func(netip.AddrPort, []byte)) {}

func (c *fuzzCounter) Restore(server netip.AddrPort, snapshot []byte) error {
	return c.index.Restore(server, snapshot)
}

func (c *fuzzCounter) LearnSession(s picker.Session) { c.sessions = append(c.sessions, s) }

func (*fuzzCounter) Sessions(func(picker.Session) bool) {}

func newFuzzWorld(f *testing.F) *fuzzWorld {
	w := &fuzzWorld{peer: startPublisher(f), board: status.NewBoard(nil)}
	counter := &fuzzCounter{loads: endpoint.NewRegistry(endpoint.Config{}), index: prefix.New(prefix.Config{}),
		hosts: hostRecorder{}}
	w.counter = counter
	w.endpoint = &counter.loads.Snapshot(endpoint.Metrics{}, nil, []endpoint.Spec{{Addr: fuzzedAddress}}).Endpoints[0]
	for _, name := range []string{"proxies", "loads", "nacks", "relays", "names", "acked", "entries", "picks", "pages",
		"sessions", "hosts", "questions", "answers", "unrouted"} {
		w.topics = append(w.topics, w.peer.Topic(name))
	}
	c := channel.New(channel.Config{Peers: []string{w.peer.address},
		OnPanic: func(_ string, value any, _ []byte) { panic(value) }})
	w.proxies = NewProxies(c, nil)
	w.names = NewNames(c)
	NewLoads(c).Publish(counter)
	NewNACKs(w.board, c)
	NewAnswers(w.board, c)
	NewRelays(w.board, c, nil)
	NewPicks(c, func() Caches { return counter })
	NewPages(c, func() PageReader { return counter.loads })
	NewSessions(c, func() SessionKeeper { return counter })
	NewHosts(c, func() HostLearner { return counter.hosts })
	NewAsked(c, func(picker.Picks) []*picker.Record { return nil })
	NewEntries(c, func(e accesslog.Entry) { w.entries = append(w.entries, e) })
	NewProgrammed(ProgrammedConfig{Channel: c, Proxies: w.proxies, Changed: func(string) {}})
	subscribed(f, c)
	if err := c.Synced(f.Context()); err != nil {
		f.Fatal(err)
	}
	return w
}

// publish returns once an item is in effect on every topic.
func (w *fuzzWorld) publish(t *testing.T, it channel.Item) {
	w.entries, w.counter.learned, w.counter.sessions = nil, nil, nil
	clear(w.counter.hosts)
	for _, topic := range w.topics {
		topic.Publish(it)
	}
	w.wait(t)
}

func (w *fuzzWorld) retract(t *testing.T, key string) {
	for _, topic := range w.topics {
		topic.Retract(key)
	}
	w.wait(t)
}

func (w *fuzzWorld) wait(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, topic := range w.topics {
		if err := topic.Acknowledged(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
