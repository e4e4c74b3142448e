package prefix

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// A server has room for 60 % of equally popular documents. By Che's approximation, one token that
// is read costs ln(1/(1-0.6)) = 0.92 other tokens.
func TestEvicts_AreTokensThatAreReadAgain(t *testing.T) {
	x := New(Config{})
	s := x.Server(netip.MustParseAddrPort("10.0.0.1:8000"))
	const documents, blocks = 100, 20
	s.SetCapacity(documents * blocks * pieceTokens * 6 / 10)
	random := rand.New(rand.NewPCG(1, 2))
	use := func(n, documents int) {
		for range n {
			c := make(Chain, blocks)
			document := random.IntN(documents)
			for i := range c {
				c[i] = uint64(1 + document*blocks + i)
			}
			x.Add(s, c)
		}
	}
	use(1000, documents/2)
	if got := s.Evicts(); got != 0 {
		t.Errorf("with room for all documents: %.2f, want 0", got)
	}
	use(1000, documents)
	sum := 0.0
	for range 1000 {
		use(1, documents)
		sum += s.Evicts() / 1000
	}
	if sum < 0.7 || sum > 1.2 {
		t.Errorf("mean of 1000 picks: %.2f, want about 0.92", sum)
	}
	s.SetCapacity(documents * blocks * pieceTokens * 2)
	use(200, documents)
	if got := s.Evicts(); got != 0 {
		t.Errorf("with room for all documents again: %.2f, want 0", got)
	}
}
