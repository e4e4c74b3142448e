package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/penstock-project/penstock/picker"
)

// Peers are the other processes that serve the same Envoys, and how they reach this one.
type Peers struct {
	// Addresses are where they serve; this process's own may be among them. On Kubernetes they are found behind the Service.
	Addresses []string
	// Listener serves peers; nil: the port of ADS does.
	Listener net.Listener
	// TLS identifies peers on Listener; nil: where fleets run here, the certificates of their authority do; else every client
	// that reaches the port is admitted.
	TLS *MutualTLS
}

// MutualTLS is a connection on which both sides show a certificate.
type MutualTLS struct{ Server, Client *tls.Config }

// peerTLS identifies peers; nil: cleartext.
func (p *App) peerTLS() *MutualTLS {
	if p.cfg.Peers.TLS != nil || p.cluster == nil || p.cluster.fleets == nil {
		return p.cfg.Peers.TLS
	}
	server, client := p.cluster.fleets.authority.Mutual(p.cluster.fleets.cfg.Names[0])
	return &MutualTLS{Server: server, Client: client}
}

// dialPeers are the credentials with which peers are dialled; nil: cleartext.
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

// syncTimeout is how long a process that starts waits for what its peers publish: a frozen one must not keep it from serving.
const syncTimeout = 500 * time.Millisecond

// syncPeers returns when what all reachable peers publish is in effect here, or after syncTimeout.
func (p *App) syncPeers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := p.channel.Synced(ctx); err != nil && ctx.Err() == context.DeadlineExceeded {
		p.log.Warn("serving without what a peer publishes: it does not answer", "error", err)
	}
}

// namesTimeout is how long a process waits for its peers' pickers to drop endpoints: they read the same objects within
// milliseconds.
const namesTimeout = 300 * time.Millisecond

// naming is what a picker names of a pool.
type naming struct {
	digest string
	fewer  bool // than before
}

// names describes what the picker names of a pool, compared to what it did before.
func names(next picker.Pool, before picker.Pool) naming {
	addrs := func(p picker.Pool) (out []string) {
		for _, e := range p.Endpoints {
			if !e.Draining {
				out = append(out, e.Addr.String())
			}
		}
		out = append(out, p.Spill...)
		slices.Sort(out)
		return out
	}
	is := addrs(next)
	h := fnv.New64a()
	for _, a := range is {
		fmt.Fprintln(h, a)
	}
	return naming{
		digest: fmt.Sprintf("%016x", h.Sum64()),
		fewer:  slices.ContainsFunc(addrs(before), func(a string) bool { return !slices.Contains(is, a) }),
	}
}

// forgotten publishes what the picker of this process names. It returns when no peer's picker names more of the pools that
// have become smaller, or after namesTimeout.
func (p *App) forgotten(ctx context.Context, pools map[string]naming) {
	digests := map[string]string{}
	for name, is := range pools {
		digests[name] = is.digest
	}
	p.names.Publish(digests)
	timeout := time.NewTimer(namesTimeout)
	defer timeout.Stop()
	for {
		var behind []string
		for name, is := range pools {
			if is.fewer {
				behind = append(behind, p.names.Behind(name, is.digest)...)
			}
		}
		if len(behind) == 0 {
			return
		}
		select {
		case <-p.names.Changed():
		case <-ctx.Done():
			return
		case <-timeout.C:
			p.names.MarkLate(behind...)
			return
		}
	}
}
