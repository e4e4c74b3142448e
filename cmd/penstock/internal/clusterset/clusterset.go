package clusterset

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/authority"
)

// Board takes reports. *status.Board implements it.
type Board interface {
	Replace(source string, reports ...report.Report)
}

// Config is what a Set needs.
type Config struct {
	Store    *store.Store
	Board    Board
	StateDir string
	// Listener serves members; nil: this cluster imports, and no other subscribes to what it exports. The Set closes it.
	Listener net.Listener
	// Address is where members reach Listener, as HOST:PORT.
	Address string
	// Pickers are where other clusters reach this process's picker; none: they do not. Cleartext: it speaks gRPC without TLS.
	Pickers   []netip.AddrPort
	Cleartext bool
	// ServerOptions are added to those of the server for members.
	ServerOptions []grpc.ServerOption
	// Drain is how long requests of a withdrawn export may go on.
	Drain   time.Duration
	Now     func() time.Time // the clock that certificates are compared with; time.Now if nil
	Log     *slog.Logger
	OnPanic func(peer string, value any, stack []byte)
}

// Set is this cluster's part in its cluster set. Run runs it.
type Set struct {
	cfg      Config
	registry *registry.Registry
	importer *imports.Importer
	begun    chan struct{} // closed with the first ClusterSet
	wake     chan struct{} // has one element when a deadline may have changed

	// Of the goroutine that delivers changes.
	pools     map[registry.Pool]export.Pool
	annotated map[string]bool // keys of pools with an annotation about exports
	decisions map[string]export.Decision

	mu         sync.Mutex
	spec       *v1alpha1.ClusterSet // the one in use; nil: none
	name       string               // of this cluster, since the first ClusterSet
	domain     string
	federation *federation.Federation
	authority  *authority.Authority
	rejected   map[string]string // problems of members
}

// New makes a Set that does nothing until there is a ClusterSet.
func New(c Config) *Set {
	s := &Set{
		cfg: c, registry: registry.New(registry.Config{Drain: c.Drain}), begun: make(chan struct{}), wake: make(chan struct{}, 1),
		pools: map[registry.Pool]export.Pool{}, annotated: map[string]bool{}, decisions: map[string]export.Decision{}, rejected: map[string]string{},
	}
	s.importer = imports.New(imports.Config{Registry: s.registry, Store: c.Store})
	return s
}

// begin makes the parts that need to know who this cluster is. mu is held.
func (s *Set) begin(name, domain string) error {
	id, err := nextIdentity(IdentityFile(s.cfg.StateDir))
	if err != nil {
		return fmt.Errorf("the identity of this cluster: %w", err)
	}
	s.name, s.domain = name, domain
	s.authority = authority.New(authority.Config{
		Secrets: authority.File{Path: AuthorityFile(s.cfg.StateDir), Replace: statefile.Replace}, Names: []string{"penstock"},
		ID: &url.URL{Scheme: "spiffe", Host: domain, Path: federation.ProcessPath}, Changed: s.writeMember, Now: s.cfg.Now, Log: s.cfg.Log,
	})
	s.federation = federation.New(federation.Config{
		UID: id.UID, Epoch: id.Epoch, Certificate: func() (*tls.Certificate, error) { return s.authority.GetCertificate(nil) },
		Apply: s.apply, Connected: s.disconnected, Placed: s.placed, Now: s.cfg.Now, Log: s.cfg.Log, OnPanic: s.cfg.OnPanic,
	})
	close(s.begun)
	return nil
}

// writeMember writes what other clusters need to make this one a member.
func (s *Set) writeMember() {
	m := v1alpha1.ClusterSetMember{Name: s.name, Peer: &v1alpha1.ClusterSetPeer{Address: s.cfg.Address, Bundle: string(s.authority.Bundle())}}
	raw, err := yaml.Marshal([]v1alpha1.ClusterSetMember{m})
	if err == nil {
		err = statefile.Replace(MemberFile(s.cfg.StateDir), raw)
	}
	if err != nil {
		s.cfg.Log.Error("what other clusters need to make this one a member cannot be written", "error", err)
	}
}

// Run exchanges with the members until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	if s.cfg.Listener != nil {
		stop := context.AfterFunc(ctx, func() { _ = s.cfg.Listener.Close() })
		defer stop()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.begun:
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.authority.Run(ctx) })
	if err := s.authority.Ready(ctx); err != nil {
		return err
	}
	group.Go(func() error { return s.federation.Run(ctx) })
	group.Go(func() error { return s.expire(ctx) })
	if s.cfg.Listener != nil {
		server := grpc.NewServer(slices.Concat(s.cfg.ServerOptions, s.federation.ServerOptions())...)
		s.federation.Register(server)
		group.Go(func() error {
			defer context.AfterFunc(ctx, server.Stop)()
			if err := server.Serve(s.cfg.Listener); err != nil && ctx.Err() == nil {
				return fmt.Errorf("serve members on %s: %w", s.cfg.Listener.Addr(), err)
			}
			return nil
		})
	}
	return group.Wait()
}
