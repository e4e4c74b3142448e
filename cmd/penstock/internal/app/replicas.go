package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// Peers are the other processes that serve the same Envoys, and how they find this one.
type Peers struct {
	// Addresses are where they serve; this process's own may be among them. On Kubernetes they are found behind the Service.
	Addresses []string
	// Listener is where they read what this process knows; nil: on the port of ADS.
	Listener net.Listener
	// TLS is by which they know each other, on Listener; nil: where fleets run here, by certificates of their authority; else
	// whoever reaches the port is told.
	TLS *MutualTLS
}

// MutualTLS is a connection on which both sides show a certificate.
type MutualTLS struct{ Server, Client *tls.Config }

// peerTLS is how processes know each other; nil: they do not.
func (p *App) peerTLS() *MutualTLS {
	if p.cfg.Peers.TLS != nil || p.cluster == nil || p.cluster.fleets == nil {
		return p.cfg.Peers.TLS
	}
	server, client := p.cluster.fleets.authority.Mutual(p.cluster.fleets.cfg.Names[0])
	return &MutualTLS{Server: server, Client: client}
}

// dialPeers is how the others are dialled; nil: in cleartext.
func (p *App) dialPeers() credentials.TransportCredentials {
	if t := p.peerTLS(); t != nil {
		return credentials.NewTLS(t.Client)
	}
	return nil
}

// guardPeers are the options of the server on Peers.Listener.
func (p *App) guardPeers() []grpc.ServerOption {
	if t := p.peerTLS(); t != nil {
		return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(t.Server))}
	}
	return nil
}

// askPatience is how long a process that starts waits for what the others know: one that is frozen must not keep it from
// serving.
const askPatience = 500 * time.Millisecond

// replicas is this process among those that serve the same Envoys: it knows which of them serves how many, and what their
// pickers name (named.go).
type replicas struct {
	channel *channel.Channel
	proxies *channel.Topic
	names   *channel.Topic
	log     *slog.Logger
	moved   func(gateway string) // told when a gateway has more or fewer Envoys; set before anything runs; nil: nobody is told

	mu      sync.Mutex
	own     map[string]int               // gateway -> streams
	others  map[string]map[string]int    // peer -> the same
	named   map[string]map[string]string // peer -> pool -> naming.digest
	late    map[string]bool              // peers that forgotten does not wait for
	changed chan struct{}                // closed and replaced
}

func newReplicas(c channel.Config) *replicas {
	r := &replicas{
		channel: channel.New(c), log: c.Log, own: map[string]int{}, others: map[string]map[string]int{},
		named: map[string]map[string]string{}, late: map[string]bool{}, changed: make(chan struct{}),
	}
	r.proxies = r.channel.Topic("proxies", r.hear)
	r.names = r.channel.Topic("names", r.hearNames)
	return r
}

// ask returns when all other processes that can be reached have told what they know, or take too long.
func (r *replicas) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	if err := r.channel.Asked(ctx); err != nil && ctx.Err() == context.DeadlineExceeded {
		r.log.Warn("serving without what another penstock process knows: it does not answer", "error", err)
	}
}

// count is told how many Envoys of a gateway this process serves. See server.Config.Count.
func (r *replicas) count(gateway string, streams int) {
	defer r.tell(gateway)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own[gateway] = streams; streams == 0 {
		delete(r.own, gateway)
		r.proxies.Withdraw(gateway)
	} else {
		r.proxies.Tell(channel.Fact{Name: gateway, Body: []byte(strconv.Itoa(streams))})
	}
	r.move()
}

// move wakes reachable. mu is held.
func (r *replicas) move() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *replicas) tell(gateways ...string) {
	if r.moved == nil {
		return
	}
	for _, gw := range gateways {
		r.moved(gw)
	}
}

// of is how many Envoys of a gateway this process serves, and each other one.
func (r *replicas) of(gateway string) (own int, others map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	others = map[string]int{}
	for peer, gateways := range r.others {
		if n := gateways[gateway]; n > 0 {
			others[peer] = n
		}
	}
	return r.own[gateway], others
}

// hear takes in how many Envoys another process serves.
func (r *replicas) hear(_ context.Context, n channel.News) error {
	var touched []string
	defer func() { r.tell(touched...) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.All || r.others[n.Peer] == nil {
		for name := range r.others[n.Peer] {
			touched = append(touched, name)
		}
		r.others[n.Peer] = map[string]int{}
	}
	for _, name := range n.Gone {
		touched = append(touched, name)
		delete(r.others[n.Peer], name)
	}
	for _, f := range n.Facts {
		streams, err := strconv.Atoi(string(f.Body))
		if err != nil {
			return fmt.Errorf("gateway %s: %w", f.Name, err)
		}
		touched = append(touched, f.Name)
		r.others[n.Peer][f.Name] = streams
	}
	r.move()
	return nil
}

// served is how many Envoys other processes serve.
func (r *replicas) served() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.elsewhere()
}

func (r *replicas) elsewhere() (n int) {
	for _, gateways := range r.others {
		for _, streams := range gateways {
			n += streams
		}
	}
	return n
}

// reachable returns when this process or another one serves an Envoy.
func (r *replicas) reachable(ctx context.Context) (waited bool, err error) {
	for {
		r.mu.Lock()
		is, changed := len(r.own) > 0 || r.elsewhere() > 0, r.changed
		r.mu.Unlock()
		if is {
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
