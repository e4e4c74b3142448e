package peers

import (
	"context"
	"strconv"
	"sync"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// Proxies counts the Envoys connected to each process, by Gateway.
type Proxies struct {
	topic     *channel.Topic
	elsewhere *channel.Mirror[int]
	observe   func(gateway string)

	mu      sync.Mutex
	own     map[string]int
	changed chan struct{}
}

// NewProxies makes a Proxies. changed is called when a gateway's number of Envoys changes; may be
// nil.
func NewProxies(c *channel.Channel, changed func(gateway string)) *Proxies {
	p := &Proxies{topic: c.Topic("proxies"), observe: changed, own: map[string]int{}, changed: make(chan struct{})}
	p.elsewhere = channel.NewMirror(p.topic, channel.MirrorConfig[int]{
		Decode: func(value []byte) (int, error) {
			n, err := strconv.ParseUint(string(value), 10, 16)
			return int(n), err
		},
		Changed: func(changes []channel.Change[int]) {
			for _, ch := range changes {
				p.notify(ch.Key)
			}
		},
	})
	return p
}

// Count sets the number of a gateway's Envoys connected to this process.
func (p *Proxies) Count(gateway string, streams int) {
	p.mu.Lock()
	if p.own[gateway] = streams; streams == 0 {
		delete(p.own, gateway)
		p.topic.Retract(gateway)
	} else {
		p.topic.Publish(channel.Item{Key: gateway, Value: []byte(strconv.Itoa(streams))})
	}
	p.mu.Unlock()
	p.notify(gateway)
}

func (p *Proxies) notify(gateway string) {
	p.mu.Lock()
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if p.observe != nil {
		p.observe(gateway)
	}
}

// Of returns how many of a gateway's Envoys are connected to this process, and to each peer.
func (p *Proxies) Of(gateway string) (own int, elsewhere map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own[gateway], p.elsewhere.ByKey(gateway)
}

// Elsewhere returns the number of Envoys connected to peers.
func (p *Proxies) Elsewhere() (n int) {
	for streams := range p.elsewhere.Values() {
		n += streams
	}
	return n
}

// Reachable returns once an Envoy is connected to any process. waited reports whether it had to
// wait.
func (p *Proxies) Reachable(ctx context.Context) (waited bool, err error) {
	for {
		p.mu.Lock()
		own, changed := len(p.own), p.changed
		p.mu.Unlock()
		if own > 0 || p.Elsewhere() > 0 {
			return waited, nil
		}
		waited = true
		select {
		case <-ctx.Done():
			return waited, ctx.Err()
		case <-changed:
		}
	}
}
