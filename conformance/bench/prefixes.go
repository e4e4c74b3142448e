package main

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"runtime"

	"github.com/penstock-project/penstock/picker/prefix"
)

// measurePickMemory fills an Index as a process has it: each of 1,000 endpoints with its share of
// all blocks, and no prompt that begins like another one.
func measurePickMemory(_ context.Context, _ config, out report) error {
	const endpoints, blocks = 1000, 64
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := heap()
	index := prefix.New(prefix.Config{})
	servers := make([]*prefix.Server, endpoints)
	for i := range servers {
		servers[i] = index.Server(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8000))
		servers[i].SetCapacity(1 << 30) // so that the number of blocks is the bound
	}
	hashes := rand.New(rand.NewPCG(1, 1))
	chain := make(prefix.Chain, blocks)
	for range prefix.DefaultBlocks / endpoints / blocks * 5 / 4 { // a quarter more than there is room for
		for _, s := range servers {
			for i := range chain {
				chain[i] = hashes.Uint64() | 1
			}
			index.Add(s, chain)
		}
	}
	out("pick_memory", "", float64(heap()-before)/(1<<20))
	runtime.KeepAlive(index)
	return nil
}
