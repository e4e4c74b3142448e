package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

const (
	lowest  = 10000
	blocks  = 100
	inBlock = 200
)

// This process chooses ports from block. It listens on the first port, so that no other process
// takes the block.
var block struct {
	mu    sync.Mutex
	first net.Listener
	full  []net.Listener // first ports of used-up blocks
	last  int            // port chosen last
}

// Find returns a port of 127.0.0.1 without a listener, or an error if no block has any.
func Find() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	return portOf(l), l.Close()
}

// Listen is Find, but holds the port until the listener closes.
func Listen() (net.Listener, error) {
	block.mu.Lock()
	defer block.mu.Unlock()
	for range blocks {
		if block.first == nil && !takeBlock() {
			break
		}
		for range inBlock - 1 {
			first := portOf(block.first)
			if block.last++; block.last >= first+inBlock {
				block.last = first + 1
			}
			if l, err := listen(block.last); err == nil {
				return l, nil
			}
		}
		block.full, block.first = append(block.full, block.first), nil
	}
	return nil, fmt.Errorf("no free port of 127.0.0.1 from %d to %d", lowest, lowest+blocks*inBlock-1)
}

// The caller holds block.mu.
func takeBlock() bool {
	for _, n := range rand.Perm(blocks) {
		if l, err := listen(lowest + n*inBlock); err == nil {
			block.first, block.last = l, portOf(l)
			return true
		}
	}
	return false
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// Free reports whether a port of 127.0.0.1 has no listener.
func Free(port int) bool {
	l, err := listen(port)
	return err == nil && l.Close() == nil
}
