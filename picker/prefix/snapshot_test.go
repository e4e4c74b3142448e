package prefix

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func sharedChains(n int) (chains []Chain) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		var c Chain
		if i > 0 {
			from := chains[random.IntN(i)]
			c = append(c, from[:random.IntN(len(from)+1)]...)
		}
		for len(c) < 1+random.IntN(40) || len(c) == 0 {
			c = append(c, random.Uint64()|1)
		}
		chains = append(chains, c)
	}
	return chains
}

func restored(t *testing.T, from *Index, limit int, servers ...netip.AddrPort) (*Index, int) {
	t.Helper()
	x, size := New(Config{}), 0
	for i, key := range servers {
		if i%2 == 0 { // the odd servers are added after their snapshots
			x.Server(key)
		}
	}
	from.Snapshot(limit, func(key netip.AddrPort, snapshot []byte) {
		size += len(snapshot)
		if err := x.Restore(key, snapshot); err != nil {
			t.Error(err)
		}
	})
	x.restore()
	for _, key := range servers {
		x.Server(key)
	}
	if x.restore() || x.pendingBytes != 0 {
		t.Error("a snapshot waits for a server that there is")
	}
	return x, size
}

func cachedAt(x *Index, c Chain, key netip.AddrPort) int32 {
	cached := make([]int32, 1)
	x.Match(c, []*Server{x.Server(key)}, cached)
	return cached[0]
}

func TestSnapshot_AnotherProcessMatchesTheSame(t *testing.T) {
	x, servers, chains := New(Config{}), []netip.AddrPort{key(1), key(2), key(3)}, sharedChains(300)
	for i, c := range chains {
		x.Add(x.Server(servers[i%len(servers)]), c)
	}
	y, size := restored(t, x, 1<<20, servers...)
	for _, c := range chains {
		for _, s := range servers {
			if got, want := cachedAt(y, c, s), cachedAt(x, c, s); got != want {
				t.Fatalf("%d tokens are cached, want %d", got, want)
			}
		}
	}
	// A part of a snapshot has the last used blocks, each with all preceding blocks.
	y, part := restored(t, x, size/3, servers...)
	if part > size/3 || part < size/4 {
		t.Errorf("%d bytes of %d, want at most %d, and at least a quarter of all", part, size, size/3)
	}
	if last := chains[len(chains)-1]; cachedAt(y, last,
		servers[(len(chains)-1)%len(servers)]) != int32(End(len(last)-1)) {
		t.Error("the prompt that was sent last is not in a part of the snapshot")
	}
	for _, s := range servers {
		closed(t, y.Server(s), chains)
	}
}

func closed(t *testing.T, s *Server, chains []Chain) {
	t.Helper()
	for _, c := range chains {
		for i := 1; i < len(c); i++ {
			if s.find(c[i]) != 0 && s.find(c[i-1]) == 0 {
				t.Fatalf("block %d is there without the one before it, want both or neither", i)
			}
		}
	}
}

func TestSnapshot_EvictsNothing(t *testing.T) {
	x, chains := New(Config{}), sharedChains(200)
	for _, c := range chains[:150] {
		x.Add(x.Server(key(1)), c)
	}
	y := New(Config{})
	s := y.Server(key(1))
	for _, c := range chains[100:] {
		y.Add(s, c)
	}
	s.SetCapacity(s.tokens + 20*pieceTokens)
	x.Snapshot(1<<20, func(key netip.AddrPort, snapshot []byte) { _ = y.Restore(key, snapshot) })
	y.restore()
	for _, c := range chains[100:] {
		if got := cachedAt(y, c, key(1)); got != int32(End(len(c)-1)) {
			t.Fatalf("%d tokens of a chain of its own are left, want %d", got, End(len(c)-1))
		}
	}
	if s.tokens > s.capacity || s.tokens < s.capacity-8*pieceTokens {
		t.Errorf("%d tokens, want about %d, for which there is room", s.tokens, s.capacity)
	}
	closed(t, s, chains)
}

func TestSnapshot_BoundedAndChecked(t *testing.T) {
	x := New(Config{})
	for _, bad := range [][]byte{make([]byte, 9), make([]byte, 8), {1, 0, 0, 0, 0, 0, 0, 0, 3}} {
		if x.Restore(key(1), bad) == nil {
			t.Errorf("%v is restored, want an error", bad)
		}
	}
	block := []byte{1, 0, 0, 0, 0, 0, 0, 0, 9}
	large := make([]byte, 0, maxPending/2)
	for len(large)+len(block) <= cap(large) {
		large = append(large, block...)
	}
	for i := range 4 {
		if err := x.Restore(key(i), large); err != nil {
			t.Fatal(err)
		}
	}
	if len(x.pending) != 2 || x.pendingBytes > maxPending {
		t.Errorf("%d snapshots with %d bytes wait for servers, want 2 and at most %d",
			len(x.pending), x.pendingBytes, maxPending)
	}
	x.dropPending()
	if len(x.pending) != 0 || x.pendingBytes != 0 {
		t.Error("they wait forever")
	}
}
