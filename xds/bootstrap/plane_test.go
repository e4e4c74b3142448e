package bootstrap_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// plane is a control plane that records the credentials of connections.
type plane struct {
	cache   *cache.Cache
	address string

	mu    sync.Mutex
	cert  *tls.Certificate
	conns map[net.Conn]struct{}
	last  string // credentials of the newest stream; "-" without streams
}

func startPlane(t *testing.T, secure bool) *plane {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{cache: cache.New(cache.Config{}), address: l.Addr().String(), conns: map[net.Conn]struct{}{}, last: "-"}
	xds, err := server.New(server.Config{Cache: p.cache, Authenticate: p.note})
	if err != nil {
		t.Fatal(err)
	}
	options := server.Options()
	if secure {
		options = append(options, grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert,
			SessionTicketsDisabled: true, // resuming would skip the verification
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.cert, nil
			},
		})))
	}
	g := grpc.NewServer(options...)
	xds.Register(g)
	go func() { _ = g.Serve(tracked{l, p}) }()
	t.Cleanup(g.Stop)
	return p
}

func (p *plane) note(ctx context.Context) (server.Proxy, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	proof := ""
	for _, v := range md.Get("authorization") {
		proof = v
	}
	if from, ok := peer.FromContext(ctx); ok {
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
			proof = info.State.PeerCertificates[0].DNSNames[0]
		}
	}
	p.mu.Lock()
	p.last = proof
	p.mu.Unlock()
	return server.TrustNode(ctx)
}

func (p *plane) certify(c issued) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cert = &c.Certificate
	p.drop()
}

// drop closes all connections. The caller holds p.mu.
func (p *plane) drop() {
	p.last = "-"
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *plane) expect(t *testing.T, proof string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("a proxy with the credentials %q", proof), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.last == proof {
			return true
		}
		if p.last != "-" {
			p.drop() // Envoy presents a reloaded file only on a new connection
		}
		return false
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

type tracked struct {
	net.Listener
	p *plane
}

func (l tracked) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.p.mu.Lock()
		l.p.conns[c] = struct{}{}
		l.p.mu.Unlock()
	}
	return c, err
}

// volume changes like a volume of a ConfigMap or token: each file is a link through ..data, which
// is replaced in one step.
type volume struct {
	t   *testing.T
	dir string
	n   int
}

func newVolume(t *testing.T) *volume { return &volume{t: t, dir: t.TempDir()} }

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }

func (v *volume) write(files map[string][]byte) {
	v.t.Helper()
	v.n++
	generation := fmt.Sprintf("..generation-%d", v.n)
	check := func(err error) {
		if err != nil {
			v.t.Fatal(err)
		}
	}
	check(os.Mkdir(v.path(generation), 0o700))
	for name, content := range files {
		check(os.WriteFile(filepath.Join(v.dir, generation, name), content, 0o600))
	}
	check(os.Symlink(generation, v.path("..data_tmp")))
	check(os.Rename(v.path("..data_tmp"), v.path("..data")))
	for name := range maps.Keys(files) {
		if v.n == 1 {
			check(os.Symlink(filepath.Join("..data", name), v.path(name)))
		}
	}
}

func startWithSecrets(t *testing.T, c bootstrap.Config, p *plane) *envoytest.Envoy {
	t.Helper()
	c.Gateway, c.ADS, c.Secrets = "a/b", []string{p.address}, t.TempDir()
	files, err := bootstrap.SecretFiles(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(c.Secrets, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return envoytest.StartGateway(t, c)
}
