package set

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

// Records store members' exports, so that a restart does not lose the exports of unreachable
// members.
type Records interface {
	// Load returns all records, sorted. It skips damaged records, and its error names them.
	Load(ctx context.Context) ([]registry.Record, error)
	Save(ctx context.Context, changed []registry.Record, gone []registry.RecordID) error
}

// Config configures a Set.
type Config struct {
	Store    *store.Store
	Board    Board
	StateDir string
	// Disk reads and writes the state folder; nil: the disk of this machine.
	Disk statefile.Disk
	// Identity returns the cluster's UID, and an epoch above all epochs of earlier publishing
	// processes. It is called when this process begins to publish.
	Identity func(ctx context.Context) (uid string, epoch uint64, err error)
	// Authority stores the CA that signs this cluster's certificates for connections to members.
	Authority authority.Secrets
	// Records store members' exports; nil: nothing is stored.
	Records Records
	// Local stores members' exports on this machine with their endpoints, which never pass through
	// an API server. nil: Records store endpoints.
	Local Records
	// Leading reports whether this process publishes, saves Records and serves members; nil:
	// always.
	Leading func() bool
	// Listen opens the port for members when this process begins to publish; the Set closes it.
	// nil: members cannot subscribe.
	Listen func(ctx context.Context) (net.Listener, error)
	// Server makes the server for that port. Connect makes connections to members. nil: gRPC over
	// TCP.
	Server  func(*federation.Federation) Server
	Connect channel.Connect
	// Address is where members reach the port of Listen, HOST:PORT.
	Address string
	// Imported receives, from several goroutines, pools whose imports may have changed. nil: Board
	// shows the conditions of imports.
	Imported func(pools []objectid.Pool)
	// Pickers are the addresses of this process's picker for other clusters; with Cleartext, gRPC
	// without TLS.
	Pickers   []netip.AddrPort
	Cleartext bool
	// MembersPick means that the picker serves no gateways of other clusters except members'
	// Gateways.
	MembersPick bool
	// PickersOf computes Pickers again after each change of the Service PickerService
	// ("namespace/name"); nil: Pickers does not change.
	PickersOf     func(r store.Reader) []netip.AddrPort
	PickerService string
	// Offers is export.Config.Offers.
	Offers map[objectid.Pool]int32
	// Services receives the Services ("namespace/name") whose EndpointSlices the store must have,
	// and the store.ByLabel keys of the Pods that it must have. nil: the store has all.
	Services func(keys, pods []string)
	// Namespace reports whether a namespace exists in this cluster or may be created; nil: all
	// namespaces exist.
	Namespace func(name string) bool
	// Exports, if set, is called with this cluster's exports after each decision.
	Exports func([]export.Export)
	// GatewayReached returns the addresses at which other clusters reach a Gateway, and maps a
	// bound port to the port there; 0: unknown yet. nil: the bound addresses and ports.
	GatewayReached func(r store.Reader, gateway report.Ref) (addresses []string, port func(bound uint16) uint16)
	// ServerOptions extend the options of the server for members.
	ServerOptions []grpc.ServerOption
	// Drain is how long requests to a withdrawn export may continue.
	Drain time.Duration
	// Budget limits the number of exports of all members together; 0: 40,000.
	Budget int
	// Load, if set, receives members' reports on the pools passed to Federation.Want.
	Load func(objectid.Member, federation.Load)
	// InFlight returns how many requests of other clusters this process's picker has in flight;
	// nil: unknown.
	InFlight func() int64
	// Traffic returns the counts of requests that this process sent to members; nil: unknown.
	Traffic func() map[string]Traffic
	Now     func() time.Time // the clock for certificates; nil: time.Now
	Log     *slog.Logger
	OnPanic func(peer string, value any, stack []byte)
}

// Server serves members. *grpc.Server implements it.
type Server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

// Set makes this cluster a member of its cluster set, while Run runs.
type Set struct {
	cfg      Config
	registry *registry.Registry
	importer *imports.Importer
	admin    *admin
	signals  signals
	due      due
	local    local

	reporting  sync.Mutex // held while a report on the ClusterSet is made
	writing    sync.Mutex // held while the MemberFile is written
	publishing sync.Mutex // held while Memberships and Exports are published

	mu       sync.Mutex // guards everything below
	adopted  adopted
	link     link
	problems problems
	exported map[objectid.Pool]audience
}

// signals wake the loops of Run. The first three are closed once. The others hold at most one
// element.
type signals struct {
	begun      chan struct{}
	certified  chan struct{}
	decided    chan struct{} // publishing before the first decision would withdraw all exports
	wake       chan struct{} // a deadline may have changed
	leading    chan struct{}
	led        chan struct{} // this process began to publish
	reportable chan struct{}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

type local struct {
	mu        sync.Mutex // held while following a change and while deciding
	pools     map[objectid.Pool]export.Pool
	parents   map[objectid.Pool][]model.ParentGateway
	taken     map[objectid.Pool][]string // clusters whose entries in an import another controller wrote
	services  []string
	nodePods  map[string][]string // Services that need Pods, by store.LabelKey of the Pods
	annotated map[objectid.Pool]bool
	alone     []report.Report
	decisions map[objectid.Pool]export.Decision
}

type adopted struct {
	spec      *v1alpha1.ClusterSet
	others    []report.Report
	named     string // this cluster's name in the current ClusterSet; "": none
	findings  []report.Finding
	name      string   // this cluster's name in the first ClusterSet
	exporting []string // the namespaces of this cluster's exports, sorted
}

type link struct {
	federation  *federation.Federation // nil before the first ClusterSet
	authority   *authority.Authority
	certificate authority.Certificate
	unserved    string
}

type problems struct {
	rejected  map[string]string
	damaged   string
	mistaken  mistaken
	untrusted []report.Finding
}

// New makes a Set. The Set does nothing until a ClusterSet exists.
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
		cfg: c, registry: registry.New(registry.Config{Drain: c.Drain, Exports: c.Budget}),
		signals: signals{
			begun: make(chan struct{}), certified: make(chan struct{}), decided: make(chan struct{}),
			wake: make(chan struct{}, 1), leading: make(chan struct{}, 1), led: make(chan struct{}, 1),
			reportable: make(chan struct{}, 1),
		},
		local: local{
			pools: map[objectid.Pool]export.Pool{}, parents: map[objectid.Pool][]model.ParentGateway{},
			taken: map[objectid.Pool][]string{}, annotated: map[objectid.Pool]bool{},
			decisions: map[objectid.Pool]export.Decision{},
		},
		problems: problems{rejected: map[string]string{}},
		exported: map[objectid.Pool]audience{},
	}
	s.admin = newAdmin()
	s.importer = imports.New(imports.Config{Registry: s.registry, Store: c.Store, Namespace: c.Namespace})
	return s
}

// The caller holds mu.
func (s *Set) begin(name string) {
	s.adopted.name = name
	s.link.authority = newAuthority(name, s.cfg.Authority,
		authority.Config{Changed: s.renewed, Now: s.cfg.Now, Log: s.cfg.Log})
	s.link.federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return s.link.authority.GetCertificate(nil) },
		Bundle:      s.link.authority.Bundle, Apply: s.apply, Connected: s.disconnected, Placed: s.placed,
		Problem: s.problem,
		Share:   func() int { _, bytes := s.registry.Share(); return bytes }, Denied: s.denied, Load: s.cfg.Load,
		Connect: s.cfg.Connect, Now: s.cfg.Now, Log: s.cfg.Log, OnPanic: s.cfg.OnPanic,
	})
}

// Federation returns the Federation that exchanges exports with members; nil before the first
// ClusterSet.
func (s *Set) Federation() *federation.Federation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.federation
}

// Registry returns the registry of members and their exports.
func (s *Set) Registry() *registry.Registry { return s.registry }

// Cluster returns this cluster's name in its set; "" before the first ClusterSet.
func (s *Set) Cluster() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.adopted.name
}

func (s *Set) renewed() {
	s.writeMember()
	s.link.federation.Renewed()
}

func (s *Set) writeMember() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	namespaces := s.adopted.exporting
	s.mu.Unlock()
	bundle := string(s.link.authority.Bundle())
	if bundle == "" {
		return
	}
	peer := v1alpha1.ClusterSetPeer{Address: s.cfg.Address, Bundle: bundle}
	if err := writeMember(Files{s.cfg.Disk, s.cfg.StateDir}, s.adopted.name, peer, namespaces); err != nil {
		s.cfg.Log.Error("this cluster's entry for the ClusterSets of other clusters cannot be written", "error", err)
	}
}

// Run exchanges exports with the members until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.signals.begun:
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.link.authority.Run(ctx) })
	if err := s.link.authority.Ready(ctx); err != nil {
		return err
	}
	for _, run := range []func(context.Context) error{
		s.link.federation.Run, s.certify, s.expire, s.lead, s.keep, s.reports,
	} {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}
