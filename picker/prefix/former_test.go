package prefix

import "testing"

func tiny(servers, blocks int) (*Index, []*Server) {
	x := New(Config{})
	all := make([]*Server, servers)
	for i := range all {
		all[i] = x.Server(key(i))
		all[i].SetCapacity(blocks * pieceTokens)
	}
	return x, all
}

func document(document, blocks int) Chain {
	c := make(Chain, blocks)
	for i := range c {
		c[i] = uint64(1000*document + i + 1)
	}
	return c
}

func TestFormer_IsTheServerThatHadAPromptLast(t *testing.T) {
	x, servers := tiny(3, 10)
	c := document(1, 8)
	home := func(tokens int) [2]int {
		server, until, ok := x.Former(c, tokens, servers)
		if !ok {
			return [2]int{-1, 0}
		}
		return [2]int{server, until}
	}
	x.Add(servers[0], c)
	x.Add(servers[2], c)
	x.Add(servers[0], document(2, 10))
	if got := home(0); got != [2]int{-1, 0} {
		t.Errorf("while a server has the prompt: %v, want %v", got, [2]int{-1, 0})
	}
	x.Add(servers[2], document(3, 6)) // evicts the last four blocks of the prompt
	if got := home(End(3)); got != [2]int{2, End(7)} {
		t.Errorf("of the end: got %v, want server 2 until %d", got, End(7))
	}
	x.Add(servers[2], document(4, 10))
	if got := home(0); got != [2]int{2, End(7)} {
		t.Errorf("of all: got %v, want server 2 until %d", got, End(7))
	}
	longer := append(document(1, 8), 77, 78)
	if server, until, ok := x.Former(longer, 0, servers); !ok || server != 2 || until != End(7) {
		t.Errorf("of a longer prompt: got %d %d %v, want server 2 until %d", server, until, ok, End(7))
	}
	if _, _, ok := x.Former(c, 0, servers[:2]); ok {
		t.Error("a server that is no candidate is returned")
	}
	x.Add(servers[1], c)
	x.Add(servers[1], document(5, 10))
	if got := home(0); got != [2]int{1, End(7)} {
		t.Errorf("after another server had it: got %v, want server 1 until %d", got, End(7))
	}
}

func TestFormer_IsNoServerThatDeniedThePrompt(t *testing.T) {
	x, servers := tiny(1, 10)
	c := document(1, 8)
	x.Add(servers[0], c)
	x.Forget(servers[0], c)
	if _, _, ok := x.Former(c, 0, servers); ok {
		t.Error("the server that denied the prompt is its former home")
	}
}

func TestFormer_TakesNoMoreThanItsBound(t *testing.T) {
	x, servers := tiny(2, 10)
	x.Add(servers[0], document(1, 8))
	if x.former.table.Load() != nil {
		t.Error("a table without an eviction")
	}
	for i := range 1000 {
		x.Add(servers[i%2], document(2+i, 8))
	}
	if n := len(*x.former.table.Load()); n != minFormer {
		t.Errorf("%d entries for 20 blocks, want %d", n, minFormer)
	}
	var f former
	f.add(1, 1, 1<<40)
	if n := len(*f.table.Load()); n != maxFormer {
		t.Errorf("%d entries, want at most %d", n, maxFormer)
	}
	f.add(2, formerIDs, 1) // too large for an entry
	if _, ok := f.home(2); ok {
		t.Error("an ID that does not fit is recorded")
	}
	if id, ok := f.home(1); !ok || id != 1 {
		t.Errorf("got %d %v, want 1", id, ok)
	}
}

func TestBlocksIn_IsTheInverseOfEnd(t *testing.T) {
	for i := range MaxBlocks {
		if got := blocksIn(End(i)); got != i+1 {
			t.Fatalf("%d tokens have %d blocks, want %d", End(i), got, i+1)
		}
		if got := blocksIn(End(i) - 1); got != i {
			t.Fatalf("%d tokens have %d blocks, want %d", End(i)-1, got, i)
		}
	}
	if blocksIn(MaxTokens+9999) != MaxBlocks || blocksIn(0) != 0 {
		t.Error("at the bounds")
	}
}
