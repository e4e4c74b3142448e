package federation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// authority is the CA of a cluster.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	bundle []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) issue(t *testing.T, id string) func() (*tls.Certificate, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	uri, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return func() (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}
}

// site is a cluster with a Federation, and a registry that applies the received updates.
type site struct {
	*Federation
	*authority
	t        *testing.T
	name     string
	listener net.Listener
	registry *registry.Registry
	stop     func()
	logs     *lines

	bytes     atomic.Int64 // bytes received on the topic exports
	mu        sync.Mutex
	presented func() (*tls.Certificate, error)
	published []byte
	loaded    map[objectid.Member][]Load
	hold      chan struct{} // while it is not nil, the site is frozen
}

// presents makes a site use a certificate and publish a bundle.
func (s *site) presents(certificate func() (*tls.Certificate, error), bundle []byte) {
	s.mu.Lock()
	s.presented, s.published = certificate, bundle
	s.mu.Unlock()
	s.Renewed()
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func newSite(t *testing.T, name, id string) *site {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, name: name, authority: newAuthority(t), listener: l, registry: registry.New(registry.Config{}),
		loaded: map[objectid.Member][]Load{}, logs: &lines{}}
	s.presented, s.published = s.issue(t, id), s.bundle
	s.Federation = New(Config{
		Certificate: func() (*tls.Certificate, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.presented()
		},
		Bundle: func() []byte {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.published
		},
		Log:       slog.New(slog.NewTextHandler(s.logs, nil)),
		Apply:     func(u ...registry.Update) bool { _, no := s.registry.Apply(u...); return len(no) == 0 },
		Connected: func(member string, value bool) { s.registry.Connected(member, value) },
		Placed:    s.registry.Place,
		Load: func(from objectid.Member, value Load) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.loaded[from] = append(s.loaded[from], value)
		},
	})
	s.Federation.exports.Subscribe(func(ctx context.Context, u channel.Update) error {
		s.waits(ctx)
		for _, it := range u.Items {
			s.bytes.Add(int64(len(it.Value)))
		}
		return nil
	})
	s.Publish("uid-of-"+name, 1, time.Now())
	server := grpc.NewServer(s.ServerOptions()...)
	s.Register(server)
	go func() { _ = server.Serve(l) }()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		server.Stop()
		<-done
	})
	t.Cleanup(s.stop)
	return s
}

// join makes sites members of each other.
func join(sites ...*site) {
	for _, s := range sites {
		var members []Member
		var names []string
		for _, o := range sites {
			if o != s {
				members = append(members, Member{Name: o.name, Address: o.listener.Addr().String(), Bundle: o.bundle})
				names = append(names, o.name)
			}
		}
		s.registry.SetMembers(names)
		s.SetMembers(members)
	}
}

func id(name string) string { return "spiffe://" + name + ProcessPath }

func exported(address string, to ...string) export.Export {
	return export.Export{Pool: chat, To: to,
		Entry: inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
			EndpointPicker: &inferenceapi.EndpointPickerImport{
				Service: inferenceapi.ServiceImports{{Addresses: []string{address}}},
			}}}
}

// has polls until the description of the exports in a site's registry is want.
func (s *site) has(want string) {
	s.t.Helper()
	poll.NoError(s.t, fmt.Sprintf("%s has %q", s.name, want), poll.Limit, func() error {
		if got := s.got(); got != want {
			return fmt.Errorf("it has %q, want %q", got, want)
		}
		return nil
	})
}

func (s *site) got() string {
	var out []string
	for _, e := range s.registry.Exports(nil, chat) {
		text := e.Cluster + "=" + e.Entry.EndpointPicker.Service[0].Addresses[0]
		if e.Draining {
			text += ", draining"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func (s *site) exports(list ...export.Export) {
	s.t.Helper()
	if err := s.SetExports(list, false); err != nil {
		s.t.Fatal(err)
	}
}
