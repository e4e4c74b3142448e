package clusterset

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/authority"
)

// Board takes reports. *status.Board implements it.
type Board interface {
	Replace(source string, reports ...report.Report)
	Set(source string, reports ...report.Report)
	Remove(source string, owners ...report.Ref)
}

// Records keep what members export, so that a restart while a member is away loses nothing.
type Records interface {
	// Load returns all that is kept, sorted. A damaged record is left out and named in the error,
	// beside the others.
	Load(ctx context.Context) ([]registry.Record, error)
	// Save keeps some records, new or changed, and drops others.
	Save(ctx context.Context, changed []registry.Record, gone []registry.RecordID) error
}

// Config is what a Set needs.
type Config struct {
	Store    *store.Store
	Board    Board
	StateDir string
	// Disk has the state folder; nil: this machine's.
	Disk statefile.Disk
	// Identity returns who this cluster is to others: uid is another one in a cluster that takes
	// its name later, epoch grows with each process that begins to publish. It is called when this
	// process begins to.
	Identity func(ctx context.Context) (uid string, epoch uint64, err error)
	// Authority keeps the CA whose certificates members see.
	Authority authority.Secrets
	// Records keep what members export; nil: nothing is kept.
	Records Records
	// Local keep what Records do not: endpoints, which never pass through an API server. They are
	// this process's own, and last as long as its state folder, so that it starts again with the
	// endpoints of members that are away. nil: Records keep endpoints.
	Local Records
	// Leading reports whether this process publishes, keeps records and serves members; nil:
	// always. One that does not lead subscribes to members and imports all the same. LeadingChanged
	// follows each change.
	Leading func() bool
	// Listen opens the port that serves members, each time this process begins to publish; nil:
	// this cluster imports, and no other subscribes to what it exports. The Set closes the
	// listener.
	Listen func(ctx context.Context) (net.Listener, error)
	// Server makes the server of that port, and Connect the connections to members; nil: gRPC's,
	// over TCP. A simulation has its own.
	Server  func(*federation.Federation) Server
	Connect channel.Connect
	// Address is where members reach that port, as HOST:PORT.
	Address string
	// Imported is called with the pools whose imports may have changed, from several goroutines:
	// Set.Import has their status. nil: the conditions are shown on the board.
	Imported func(pools []objectid.Pool)
	// Pickers are where other clusters reach this process's picker; none: they do not. Cleartext:
	// it speaks gRPC without TLS.
	Pickers   []netip.AddrPort
	Cleartext bool
	// MembersPick: of other clusters, the picker serves Gateways of members alone, and only while
	// Gateways here have a peer listener.
	MembersPick bool
	// PickersOf are Pickers as the store has them; nil: Pickers are. They are read again when
	// Services or EndpointSlices of PickerService, "namespace/name", change.
	PickersOf     func(r store.Reader) []netip.AddrPort
	PickerService string
	// Offers are the exported pools that gateways of others may use, too: export.Config has them.
	Offers map[objectid.Pool]int32
	// Services is called with the Services, "namespace/name", whose EndpointSlices are read: those
	// in front of pickers; and with keys of the index of labels whose Pods are. nil: all are in the
	// store.
	Services func(keys, pods []string)
	// Namespace reports whether a namespace exists here, or may be made; nil: all do. It is asked
	// again when a Namespace changes.
	Namespace func(name string) bool
	// Exports is called with what this cluster exports, after each decision; nil: not at all.
	Exports func([]export.Export)
	// GatewayReached returns the addresses at which other clusters reach a Gateway, and the port
	// there of one that it binds, 0 while there is none; nil: what it binds.
	GatewayReached func(r store.Reader, gateway report.Ref) (addresses []string, port func(bound uint16) uint16)
	// ServerOptions are added to those of the server for members.
	ServerOptions []grpc.ServerOption
	// Drain is how long requests of a withdrawn export may go on.
	Drain time.Duration
	// Budget is how many exports all members have together; 0: the registry's default.
	Budget int
	// Load receives what members report of the load of their pools, as Federation was asked to
	// want; nil: nothing does.
	Load func(objectid.Member, federation.Load)
	// InFlight is how many requests of other clusters this process's picker counts; nil: not known.
	InFlight func() int64
	// Traffic is what this process counts of the requests that it sent to members; nil: not known.
	Traffic func() map[string]Traffic
	Now     func() time.Time // the clock that certificates are compared with; time.Now if nil
	Log     *slog.Logger
	OnPanic func(peer string, value any, stack []byte)
}

// Server serves members. *grpc.Server implements it.
type Server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

// Set is this cluster's part in its cluster set. Run runs it.
type Set struct {
	cfg       Config
	registry  *registry.Registry
	importer  *imports.Importer
	admin     *admin
	begun     chan struct{} // closed with the first ClusterSet
	certified chan struct{} // closed with the first certificate of Gateways
	decided   chan struct{} // closed once it is decided what this cluster exports: publishing before would withdraw it
	wake      chan struct{} // has one element when a deadline may have changed
	due       due
	leading   chan struct{} // has one element when Config.Leading may have changed
	led       chan struct{} // has one element when this process has begun to publish

	reportable chan struct{} // has one element when what members do has changed what is reported

	reporting sync.Mutex // held while a report is made
	following sync.Mutex // held while a change is followed, or a decision made: of the next ones
	pools     map[objectid.Pool]export.Pool
	parents   map[objectid.Pool][]model.ParentGateway
	taken     map[objectid.Pool][]string // of imports: clusters whose entries are of others
	services  []string                   // whose EndpointSlices are read
	nodePods  map[string][]string        // by keys of the index of labels: the Services whose Pods are read
	annotated map[objectid.Pool]bool     // pools with an annotation about exports
	alone     []report.Report            // on these pools, without a ClusterSet
	decisions map[objectid.Pool]export.Decision

	writing sync.Mutex // of the file that others join this cluster with

	mu          sync.Mutex
	exporting   []string             // the namespaces of this cluster's exports, sorted
	spec        *v1alpha1.ClusterSet // the one in use; nil: none
	others      []report.Report      // on the ClusterSets that are not
	named       string               // the name that spec, or a ClusterProperty, has for this cluster now; "": none
	findings    []report.Finding     // about that name
	name        string               // of this cluster, since the first ClusterSet
	federation  *federation.Federation
	authority   *authority.Authority
	rejected    map[string]string // problems of members
	unserved    string            // why this process does not publish, though it should
	damaged     string            // what of the records could not be read
	mistaken    mistaken
	untrusted   []report.Finding // about certificates of members that do not vouch for them
	exported    map[objectid.Pool]audience
	certificate authority.Certificate // of the Gateways

	publishing sync.Mutex // of Memberships and Exports
}

// New makes a Set that does nothing until there is a ClusterSet.
func New(c Config) *Set {
	if c.Disk == nil {
		c.Disk = statefile.Machine{}
	}
	if c.Server == nil {
		c.Server = func(f *federation.Federation) Server {
			return grpc.NewServer(slices.Concat(c.ServerOptions, f.ServerOptions())...)
		}
	}
	s := &Set{
		cfg: c, registry: registry.New(registry.Config{Drain: c.Drain, Exports: c.Budget}), begun: make(chan struct{}),
		certified: make(chan struct{}), decided: make(chan struct{}), wake: make(chan struct{}, 1),
		leading: make(chan struct{}, 1), reportable: make(chan struct{}, 1), led: make(chan struct{}, 1),
		pools: map[objectid.Pool]export.Pool{}, parents: map[objectid.Pool][]model.ParentGateway{},
		taken: map[objectid.Pool][]string{}, annotated: map[objectid.Pool]bool{},
		decisions: map[objectid.Pool]export.Decision{}, rejected: map[string]string{},
		exported: map[objectid.Pool]audience{},
	}
	s.admin = newAdmin()
	s.importer = imports.New(imports.Config{Registry: s.registry, Store: c.Store, Namespace: c.Namespace})
	return s
}

// begin makes the parts that need to know the name of this cluster. mu is held.
func (s *Set) begin(name string) {
	s.name = name
	s.authority = newAuthority(name, s.cfg.Authority,
		authority.Config{Changed: s.renewed, Now: s.cfg.Now, Log: s.cfg.Log})
	s.federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return s.authority.GetCertificate(nil) },
		Bundle:      s.authority.Bundle, Apply: s.apply, Connected: s.disconnected, Placed: s.placed,
		Problem: s.problem,
		Share:   func() int { _, bytes := s.registry.Share(); return bytes }, Denied: s.denied, Load: s.cfg.Load,
		Connect: s.cfg.Connect, Now: s.cfg.Now, Log: s.cfg.Log, OnPanic: s.cfg.OnPanic,
	})
}

// Federation is this cluster's end of the exchange with members; nil before the first ClusterSet.
func (s *Set) Federation() *federation.Federation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.federation
}

// Registry has the members, and what they export.
func (s *Set) Registry() *registry.Registry { return s.registry }

// Cluster is the name of this cluster in its set; "" before the first ClusterSet.
func (s *Set) Cluster() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// renewed publishes the bundle.
func (s *Set) renewed() {
	s.writeMember()
	s.federation.Renewed()
}

// writeMember writes what other clusters need to make this one a member.
func (s *Set) writeMember() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	namespaces := s.exporting
	s.mu.Unlock()
	bundle := string(s.authority.Bundle())
	if bundle == "" {
		return // there is no certificate yet
	}
	is := v1alpha1.ClusterSetPeer{Address: s.cfg.Address, Bundle: bundle}
	if err := writeMember(Files{s.cfg.Disk, s.cfg.StateDir}, s.name, is, namespaces); err != nil {
		s.cfg.Log.Error("what other clusters need to make this one a member cannot be written", "error", err)
	}
}

// Run exchanges with the members until ctx ends.
func (s *Set) Run(ctx context.Context) error {
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
	group.Go(func() error { return s.certify(ctx) })
	group.Go(func() error { return s.expire(ctx) })
	group.Go(func() error { return s.lead(ctx) })
	group.Go(func() error { return s.keep(ctx) })
	group.Go(func() error { return s.reports(ctx) })
	return group.Wait()
}
