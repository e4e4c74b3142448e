package schedule

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

func document(n int) prefix.Chain {
	c := make(prefix.Chain, 20)
	for i := range c {
		c[i] = uint64(1000*n + i + 1)
	}
	return c
}

// fill records prompts about five documents at a server, until the server's cache counts as too
// small for them.
func fill(prefixes *prefix.Index, server *prefix.Server, first int) {
	random := rand.New(rand.NewPCG(1, 2))
	for uses := 0; uses < 200 || server.Evicts() == 0; uses++ {
		prefixes.Add(server, document(first+random.IntN(5)))
	}
}

// fullCaches returns servers whose caches have room for three documents and are full of documents
// in use.
func fullCaches(t *testing.T, n int) (*prefix.Index, []endpoint.Endpoint) {
	t.Helper()
	prefixes := prefix.New(prefix.Config{})
	registry := endpoint.NewRegistry(endpoint.Config{Jitter: func() float64 { return 0.5 }, Prefixes: prefixes})
	var specs []endpoint.Spec
	for i := range n {
		specs = append(specs, endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)})
	}
	list := registry.Snapshot(endpoint.Metrics{Off: true}, nil, specs).Endpoints
	for i := range list {
		server := list[i].Load().Prefixes()
		server.SetCapacity(3 * 20 * 64)
		fill(prefixes, server, 10*(i+1))
	}
	return prefixes, list
}

// An evicted prompt returns to its former server, except if another server would finish it much
// sooner: there it would evict a further prompt, which would then also move.
func TestLoad_EvictedPromptReturnsToItsServer(t *testing.T) {
	prefixes, list := fullCaches(t, 4)
	s := strategy(t, Options{Name: "load", Prefixes: prefixes})
	r := Request{Tokens: 1280, Stream: true, Chain: document(1)}
	s.Rank(&r, epoch, list, nil, 1, &Scratch{}) // this pick reads that the caches are full
	const home = 2
	counts := func() (at [4]int) {
		for range 40 {
			at[number(&s.Rank(&r, epoch, list, nil, 1, &Scratch{})[0])]++
		}
		return at
	}
	if at := counts(); at[home] == 40 {
		t.Fatalf("before any server had the prompt: %v, want several servers", at)
	}
	prefixes.Add(list[home].Load().Prefixes(), document(1))
	fill(prefixes, list[home].Load().Prefixes(), 90)
	if at := counts(); at[home] != 40 {
		t.Errorf("after its server has evicted it: %v, want all 40 at server 2", at)
	}
	for i, v := range s.Describe(&r, epoch, list, nil) {
		if evicted := v.Costs["evicted"]; v.Cached != 0 || (evicted == 0) != (i == home) {
			t.Errorf("server %d has %d tokens cached, and would evict for %g s; want 0, and 0 s at home only",
				i, v.Cached, evicted)
		}
	}
	leases := endpoint.NewLeases("test", time.Hour)
	for range 200 { // so many requests that another server is done sooner
		leases.Open(&list[home], endpoint.Holder{}, endpoint.Work{Tokens: 500, Rate: defaultRate}, 0, epoch)
	}
	if at := counts(); at[home] != 0 {
		t.Errorf("while its server is busy: %v, want none at server 2", at)
	}
	prefixes.Add(list[0].Load().Prefixes(), document(1))
	for i, v := range s.Describe(&r, epoch, list, nil) {
		if evicted := v.Costs["evicted"]; (evicted == 0) != (i == 0) {
			t.Errorf("while server 0 has it, server %d would evict for %g s, want 0 s at server 0 only", i, evicted)
		}
	}
}
