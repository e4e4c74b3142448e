package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports assigns ports of 127.0.0.1, each once. The ports are below the range that the kernel
// assigns to clients, so that no client reaches a wrong server. The zero value is ready, and safe
// for concurrent use.
type Ports struct {
	lock  sync.Mutex
	given map[int]bool
}

// Free returns a port that p has not returned before and that no process uses.
func (p *Ports) Free() (int, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.given == nil {
		p.given = map[int]bool{}
	}
	for range 1000 {
		port := 10000 + rand.IntN(20000)
		if p.given[port] {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			p.given[port] = true
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}
