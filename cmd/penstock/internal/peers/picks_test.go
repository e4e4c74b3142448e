package peers

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func eight() picker.Pool {
	pool := picker.Pool{ID: objectid.MustParseTarget("ns/pool"), Strategy: "load", Body: picker.BodyPrompts,
		Metrics: endpoint.Metrics{Off: true}}
	for i := range 8 {
		pool.Endpoints = append(pool.Endpoints, endpoint.Spec{
			Addr: netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:80", i+1)),
		})
	}
	return pool
}

// prompt returns a request with a prompt of 4,096 tokens, which differs for each number.
func prompt(number int) *extproc.Request {
	const tokens = 4096
	r := &extproc.Request{Pool: "ns/pool", Headers: &extproc.Message{},
		Facts: request.Facts{Size: 4 * tokens, Tokens: tokens, Stream: true}}
	for i := 0; prefix.End(i) <= tokens; i++ {
		r.Facts.Chain = append(r.Facts.Chain, xxhash.Sum64String(fmt.Sprint(number, i)))
	}
	return r
}

type view struct {
	InFlight, Unread int64
	Blocks           string // sorted
}

func viewOf(p *picker.Picker) map[string]view {
	out := map[string]view{}
	for _, v := range p.Explain("ns/pool", nil).Verdicts {
		out[v.Address] = view{InFlight: v.State.InFlight, Unread: v.State.Unread}
	}
	p.Snapshot(1<<30, func(server netip.AddrPort, snapshot []byte) {
		blocks := slices.SortedFunc(slices.Chunk(snapshot, 9), slices.Compare)
		v := out[server.String()]
		v.Blocks = fmt.Sprintf("%x", blocks)
		out[server.String()] = v
	})
	return out
}

func agree(t *testing.T, what string, pickers ...*picker.Picker) map[string]view {
	t.Helper()
	var want map[string]view
	defer func() {
		if t.Failed() {
			for _, p := range pickers {
				t.Log(cmp.Diff(want, viewOf(p)))
			}
		}
	}()
	poll.Until(t, what, func() bool {
		want = viewOf(pickers[0])
		return !slices.ContainsFunc(pickers, func(p *picker.Picker) bool { return !maps.Equal(viewOf(p), want) })
	})
	return want
}

func TestPeers_EachPickerCountsWhatAllHaveSent(t *testing.T) {
	pickers, _, _ := startPools(t, 2, eight())
	served, leases := map[int]string{}, []string{}
	for i := range 40 {
		a := pickers[0].Pick(t.Context(), prompt(i))
		served[i], leases = a.Endpoints.String(), append(leases, a.Lease.String())
	}
	for server, v := range agree(t, "both count the same", pickers...) {
		if v.InFlight != 5 || v.Unread != 5*4096 {
			t.Errorf("%s: %d requests and %d tokens; 40 prompts are 5 for each of 8 servers, want 5 and %d",
				server, v.InFlight,
				v.Unread, 5*4096)
		}
	}
	// The other picker prefers the server with the cached prompt. By load, one in eight would go
	// there.
	same := 0
	for i := range 40 {
		a := pickers[1].Pick(t.Context(), prompt(i))
		pickers[1].LogOwn(accesslog.Entry{Lease: a.Lease.String(), Served: a.Endpoints.String(), Status: 200})
		if a.Endpoints.String() == served[i] {
			same++
		}
	}
	if same < 38 {
		t.Errorf("%d of 40 prompts went to the server that has them cached, want at least 38", same)
	}
	// A first token ends a backlog, and an end ends a request in flight.
	for i, lease := range leases {
		pickers[0].LogOwn(accesslog.Entry{Lease: lease, Open: i%2 == 0, Body: true, Served: served[i], Status: 200})
	}
	requests, tokens := int64(0), int64(0)
	for _, v := range agree(t, "both count the ends", pickers...) {
		requests, tokens = requests+v.InFlight, tokens+v.Unread
	}
	if requests != 20 || tokens != 0 {
		t.Errorf("%d requests and %d tokens; 20 requests are in flight, all with a first token, want 20 and 0",
			requests, tokens)
	}
}

func TestPeers_DeniedPromptCountsNowhere(t *testing.T) {
	pickers, _, _ := startPools(t, 2, eight())
	deny := func(number int) {
		a := pickers[0].Pick(t.Context(), prompt(number))
		agree(t, "both count the prompt", pickers...)
		pickers[0].LogOwn(accesslog.Entry{Lease: a.Lease.String(), Served: a.Endpoints.String(), Status: 400})
	}
	deny(1)
	poll.Until(t, "no process takes a denied prompt to be cached", func() bool {
		blocks := ""
		for _, p := range pickers {
			for _, v := range viewOf(p) {
				blocks += v.Blocks
			}
		}
		return blocks == ""
	})
	a := pickers[1].Pick(t.Context(), prompt(2))
	want := agree(t, "both count another prompt", pickers...)[a.Endpoints.String()].Blocks
	deny(2)
	if got := agree(t, "both count the denial", pickers...)[a.Endpoints.String()].Blocks; got != want {
		t.Error("a prompt that another request was served with is gone")
	}
}

func TestPeers_ProcessThatStartsHasWhatTheOthersKnow(t *testing.T) {
	listeners, addresses := make([]net.Listener, 2), make([]string, 2)
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i], addresses[i] = l, l.Addr().String()
	}
	first, _, _ := startPicker(t, listeners[0], addresses, eight())
	served := map[int]string{}
	for i := range 200 { // before a peer exists
		served[i] = first.Pick(t.Context(), prompt(i)).Endpoints.String()
	}
	second, _, stop := startPicker(t, listeners[1], addresses, eight())
	agree(t, "the second has a snapshot", first, second)
	for i := range 40 {
		second.Pick(t.Context(), prompt(1000+i))
	}
	agree(t, "both count new ones", first, second)
	stop()
	for i := range 200 {
		first.Pick(t.Context(), prompt(2000+i))
	}
	l, err := net.Listen("tcp", addresses[1])
	if err != nil {
		t.Fatal(err)
	}
	restarted, _, _ := startPicker(t, l, addresses, eight())
	agree(t, "the restarted one has a snapshot", first, restarted)
	same := 0
	for i := range 200 {
		a := restarted.Pick(t.Context(), prompt(i))
		restarted.LogOwn(accesslog.Entry{Lease: a.Lease.String(), Served: a.Endpoints.String(), Status: 200})
		if a.Endpoints.String() == served[i] {
			same++
		}
	}
	if same < 190 {
		t.Errorf("%d of 200 prompts went to the server that has them cached, want at least 190", same)
	}
}

func TestPeers_PicksThatArePublishedAreBounded(t *testing.T) {
	caches := &fuzzCounter{}
	c := channel.New(channel.Config{})
	p := NewPicks(c, func() Caches { return caches })
	s := picker.Sent{Server: netip.MustParseAddrPort("[2001:db8::1]:80"), Chain: make(prefix.Chain, prefix.MaxBlocks)}
	if p.Add(s); len(p.waiting) != 0 || p.Missed() != 0 {
		t.Error("a pick waits although no other process subscribes")
	}
	address, _ := serve(t, c)
	subscriber := channel.New(channel.Config{Peers: []string{address}})
	subscriber.Topic("picks")
	subscribed(t, subscriber)
	poll.Until(t, "subscribed", p.topic.Subscribed)
	const n = 1000
	for range n {
		p.Add(s)
	}
	if published := len(p.waiting) / sizeOfSent(s); len(p.waiting) > maxBatch || len(p.waiting) < maxBatch/2 ||
		int(p.Missed()) != n-published {
		t.Errorf("%d bytes wait, and %d picks are not published, want at most %d bytes, at least half, and %d",
			len(p.waiting), p.Missed(), maxBatch, n-published)
	}
}

func TestPeers_KeyOfABatchIsNotTakenForAServers(t *testing.T) {
	for key, want := range map[string]pickItem{
		"17": {batch: true}, "10.0.0.1:80": {server: netip.MustParseAddrPort("10.0.0.1:80")},
		"[fd00::1]:80": {server: netip.MustParseAddrPort("[fd00::1]:80")},
	} {
		if got, err := parsePickItem(key); err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", key, got, err, want)
		}
	}
	for _, key := range []string{"", "x", "17x", "-1", "10.0.0.1", "10.0.0.1:80x"} {
		if got, err := parsePickItem(key); err == nil {
			t.Errorf("%q is %+v, want an error", key, got)
		}
	}
}
