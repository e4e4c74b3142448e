package federation

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/registry"
)

const (
	exportsTopic = "exports"
	importsTopic = "imports"
)

const stateKey = ""

const (
	// renewal is the interval at which a cluster publishes its state, to renew its leases of 15 s.
	renewal = 5 * time.Second
	// debounce is how long a response waits for more items of the same change.
	debounce = time.Millisecond
)

// Config configures a Federation.
type Config struct {
	// Certificate returns this process's certificate. Its only URI is
	// spiffe://TRUSTDOMAIN/penstock.
	Certificate func() (*tls.Certificate, error)
	// Bundle, if set, returns the CA certificates of this cluster's trust domain, in PEM. They are
	// published to members.
	Bundle func() []byte
	// Apply receives members' exports. It returns false if it dropped some of them (doc.go).
	// Connected receives each change of a member's connection.
	Apply     func(...registry.Update) bool
	Connected func(member string, connected bool)
	// Problem, if set, receives why a part of a member's update was dropped, or why the stream
	// ended.
	Problem func(member, problem string)
	// Share returns the memory limit of a member's exports in bytes; nil: 64 MiB. Incomplete
	// responses may take twice as much, at least 4 MiB.
	Share func() int
	// Denied, if set, receives why the certificate at a member's address is denied.
	Denied func(member, problem string)
	// Placed receives members' reports on this cluster's exports. It is not called before the first
	// SetExports.
	Placed func(registry.Reports)
	// Load, if set, receives members' reports on the pools passed to Want.
	Load func(objectid.Member, Load)
	// Connect makes the connections to members; nil: gRPC over TCP.
	Connect channel.Connect
	// Now is the clock for certificates; nil: time.Now.
	Now     func() time.Time
	Log     *slog.Logger
	OnPanic func(peer string, value any, stack []byte)
}

// Federation publishes this cluster's exports to members and receives their exports. It is safe for
// concurrent use.
type Federation struct {
	cfg     Config
	trust   *trust
	decided chan struct{} // closed by the first SetExports
	channel *channel.Channel
	exports *channel.Topic
	imports *channel.Topic
	wanted  *channel.Topic
	loads   *channel.Topic
	dialled connections
	paces   paces

	mu       sync.Mutex
	own      publisher
	newest   uint64
	members  map[string]Member // keyed by address
	left     map[string]bool
	received map[string]cluster                  // keyed by address
	missed   map[string]bool                     // keyed by address
	parts    map[string]*assemblies              // keyed by address; used by the receiving goroutine
	placedAt map[objectid.Pool]map[string]placed // keyed by pool, then by exporter
	wants    map[objectid.Member]bool
	askedFor map[string]map[objectid.Pool]bool // keyed by address

	audience audience
}

// New makes a federation without members. Call Register and Run to exchange exports.
func New(c Config) *Federation {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	f := &Federation{cfg: c, trust: newTrust(c.Certificate, c.Now), members: map[string]Member{},
		left: map[string]bool{}, received: map[string]cluster{}, missed: map[string]bool{},
		parts: map[string]*assemblies{}, placedAt: map[objectid.Pool]map[string]placed{},
		askedFor: map[string]map[objectid.Pool]bool{}, decided: make(chan struct{}),
		dialled: connections{byMember: map[string]*net.TCPConn{}}}
	f.channel = channel.New(channel.Config{
		CredentialsOf: f.credentials, Identify: f.trust.identify, NameOf: f.nameAt, Dial: f.dialled.dial,
		Connect: c.Connect, Debounce: debounce, Limits: f.limits(), Exceeded: f.exceeded, Received: f.messageReceived,
		Now: c.Now, Log: c.Log, OnPanic: c.OnPanic,
	})
	f.exports, f.imports = f.channel.Topic(exportsTopic), f.channel.Topic(importsTopic)
	f.wanted, f.loads = f.channel.Topic(wantedTopic), f.channel.Topic(loadsTopic)
	f.exports.Resume()
	f.imports.Resume()
	// f.trust.has is false for a cluster that left the set, so its exports are retracted.
	f.exports.Visible(func(member, key string) bool { return f.trust.has(member) && f.audience.receives(member, key) })
	f.exports.Keys(func(key string) error { _, err := receivedKey(key); return err })
	f.exports.Subscribe(f.paced(followCost, f.receive))
	f.imports.Subscribe(f.paced(followCost, f.noted(f.receiveImports)))
	f.wanted.Subscribe(f.paced(0, f.noted(f.receiveWanted)))
	f.loads.Subscribe(f.paced(0, f.noted(f.receiveLoads)))
	for _, t := range []*channel.Topic{f.imports, f.wanted, f.loads} {
		t.Keys(func(key string) error { _, err := memberPool(key); return err })
		receiver := func(key string) string {
			if m, ok := objectid.ParseMember(key); ok {
				return m.Member
			}
			return ""
		}
		t.Addressed(receiver)
		t.Visible(func(member, key string) bool { return receiver(key) == member && f.trust.has(member) })
	}
	return f
}

// A message is larger than channel.partBytes by at most one record.
const (
	maxItems    = 1 << 15
	maxReceived = 2 << 20
	leastBytes  = 4 << 20
)

func (f *Federation) limits() channel.Limits {
	return channel.Limits{Items: maxItems, Message: maxReceived,
		Bytes: func() int { return max(2*f.share(), leastBytes) }}
}

func (f *Federation) share() int {
	if f.cfg.Share == nil {
		return 64 << 20
	}
	return f.cfg.Share()
}

func (f *Federation) exceeded(address, problem string) {
	if name := f.nameAt(address); name != "" && f.cfg.Problem != nil {
		f.cfg.Problem(name, problem)
	}
}

// nameAt returns the name of the member at an address; "": no member has it.
func (f *Federation) nameAt(address string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[address].Name
}

// Publish makes this process, the leader, publish for this cluster. epoch must be higher than the
// epochs of all earlier leaders. began is when this process became the leader.
func (f *Federation) Publish(uid string, epoch uint64, began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.own.started = began
	f.publish(f.own.begin(uid, epoch)...)
	f.newest = f.exports.Published()
}

func (f *Federation) credentials(address string) credentials.TransportCredentials {
	name := f.nameAt(address)
	config := f.trust.client(name)
	verify := config.VerifyConnection
	config.VerifyConnection = func(s tls.ConnectionState) error {
		err := verify(s)
		if err != nil && f.cfg.Denied != nil {
			f.cfg.Denied(name, fmt.Sprintf("the certificate at %s is not valid for it: %.300v", address, err))
		}
		return err
	}
	return credentials.NewTLS(config)
}

// ServerOptions returns options for the gRPC server passed to Register: only members may connect.
func (f *Federation) ServerOptions() []grpc.ServerOption {
	return append(channel.ServerOptions(), grpc.Creds(f.ServerCredentials()))
}

// ServerCredentials returns the credentials in ServerOptions.
func (f *Federation) ServerCredentials() credentials.TransportCredentials {
	return credentials.NewTLS(f.trust.server())
}

// Register adds the service to a gRPC server with ServerOptions.
func (f *Federation) Register(g grpc.ServiceRegistrar) { f.channel.Register(g) }

// Renewed publishes this cluster's state again. Call it after Config.Bundle changed.
func (f *Federation) Renewed() { f.publishState() }

// SetMembers replaces the members. It reconnects to members whose address or bundle in the
// ClusterSet changed.
func (f *Federation) SetMembers(members []Member) {
	f.trust.set(members)
	f.mu.Lock()
	changed := map[string]bool{}
	next := make(map[string]Member, len(members))
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.Address)
		if old, ok := f.members[m.Address]; ok && (old.Name != m.Name || !bytes.Equal(old.Bundle, m.Bundle)) {
			changed[m.Address] = true
		}
		next[m.Address] = m
	}
	back := f.noteLeft(next)
	f.members = next
	for address := range f.received {
		if _, stays := next[address]; !stays || changed[address] {
			delete(f.received, address)
			delete(f.missed, address)
			delete(f.parts, address)
			delete(f.askedFor, address)
		}
	}
	stays := func(address string) bool { _, ok := next[address]; return ok }
	f.dialled.keep(stays)
	f.paces.keep(stays)
	f.mu.Unlock()
	if len(changed) > 0 {
		f.channel.SetPeers(slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return changed[a] })...)
	}
	f.channel.SetPeers(addresses...)
	for _, t := range []*channel.Topic{f.exports, f.imports, f.wanted, f.loads} {
		t.Judge()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var again []channel.Item
	if back && f.own.uid != "" {
		again = f.own.begin(f.own.uid, f.own.epoch)
	}
	f.publish(again...)
}

// noteLeft records members that left. back reports that one is in next again: it has ignored this
// cluster's records meanwhile, so they need newer stamps. The caller holds mu.
func (f *Federation) noteLeft(next map[string]Member) (back bool) {
	stays := map[string]bool{}
	for _, m := range next {
		stays[m.Name] = true
		back = back || f.left[m.Name]
		delete(f.left, m.Name)
	}
	for _, m := range f.members {
		if !stays[m.Name] {
			f.left[m.Name] = true
		}
	}
	return back
}

// SetExports replaces this cluster's exports. If draining is true, members send it no new requests.
func (f *Federation) SetExports(list []export.Export, draining bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.decide()
	c, err := f.own.set(list, draining)
	if !c.some {
		return err
	}
	f.audience.set(list)
	// Judge comes before Retract, so that one response retracts a record and its parts.
	if c.others {
		f.exports.Judge()
	}
	f.exports.Retract(c.gone...)
	f.publish(c.items...)
	f.newest = f.exports.Published()
	return err
}

// Acknowledged reports whether a member has applied the last change of this cluster's exports.
// changed closes when the result may have changed; nil: this process does not publish yet.
func (f *Federation) Acknowledged(member string) (acknowledged bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own.uid == "" {
		return false, nil
	}
	return f.exports.AcknowledgedBy(member, f.newest)
}

// decide lets members' reports take effect. The caller holds mu.
func (f *Federation) decide() {
	select {
	case <-f.decided:
	default:
		close(f.decided)
	}
}

func (f *Federation) publishState() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish()
}

// The caller holds mu.
func (f *Federation) publish(exports ...channel.Item) {
	if f.own.uid == "" {
		return
	}
	var bundle []byte
	if f.cfg.Bundle != nil {
		bundle = f.cfg.Bundle()
	}
	f.exports.Publish(append(exports, f.own.state(bundle))...)
}

var errNoEffect = errors.New("not all of the update has an effect")

func (f *Federation) receive(ctx context.Context, in channel.Update) error {
	f.mu.Lock()
	m, ok := f.members[in.Peer]
	state, known := f.received[in.Peer]
	parts := f.parts[in.Peer]
	if ok && (parts == nil || in.Snapshot) {
		parts = &assemblies{pools: map[objectid.Pool]*assembly{}}
		f.parts[in.Peer] = parts
	}
	f.mu.Unlock()
	if !ok {
		return nil
	}
	parts.share = f.share()
	if in.Disconnected {
		f.cfg.Connected(m.Name, false)
		return nil
	}
	var problems channel.Problems
	u := registry.Update{Member: m.Name, Snapshot: in.Snapshot,
		Exports: make([]registry.Export, 0, min(len(in.Items), 128))}
	touched, unread := map[objectid.Pool]bool{}, map[objectid.Pool]string{}
	for _, it := range in.Items {
		if it.Key == stateKey {
			s, err := decodeCluster(it.Value, state.Bundle)
			if err != nil {
				problems.Add(fmt.Errorf("its state: %w", err))
				continue
			}
			state, known = s, true
			continue
		}
		e, whole, err := parts.receive(it.Key, it.Value)
		switch {
		case e.Pool == (objectid.Pool{}):
			problems.Addf("export %.200q: %w", it.Key, err)
		case err != nil:
			unread[e.Pool] = fmt.Sprintf("%.300v", err)
		case whole:
			u.Exports = append(u.Exports, e)
		default:
			touched[e.Pool] = true
		}
	}
	for _, k := range in.Retracted {
		switch at, err := receivedKey(k); {
		case err != nil:
		case at.kind == partKind:
			parts.drop(at.pool, at.part)
		case at.kind == recordKind:
			u.Withdrawn = append(u.Withdrawn, at.pool)
		}
	}
	for p := range touched {
		if e, err := parts.export(p); err == nil {
			u.Exports = append(u.Exports, e)
		} else if unread[p] == "" {
			unread[p] = err.Error()
			problems.Add(fmt.Errorf("export %s: %w", p, err)) // a problem makes the next connection request all exports
		}
	}
	if len(unread) > 0 {
		u.Unread = unread
		u.Exports = slices.DeleteFunc(u.Exports, func(e registry.Export) bool { return unread[e.Pool] != "" })
	}
	for _, p := range u.Withdrawn { // dropped after parts.export, which reads touched pools
		parts.drop(p, -1)
	}
	if !known {
		problems.Add(errors.New("it has not published its state"))
	}
	if err := errors.Join(in.Dropped, problems.Err()); err != nil && f.cfg.Problem != nil {
		defer f.cfg.Problem(m.Name, fmt.Sprintf("%.500v", err))
	}
	if !known {
		return problems.Err()
	}
	u.UID, u.Stamp, u.Draining = state.UID, registry.Stamp{Epoch: state.Epoch, Sequence: state.Sequence}, state.Draining
	if state.Started > 0 {
		u.Started = time.UnixMilli(state.Started)
	}
	// A withdrawal is compared with the stamp of the state, so no export may have a newer stamp.
	for i := range u.Exports {
		if e := &u.Exports[i]; e.Stamp.Compare(u.Stamp) > 0 {
			e.Stamp = u.Stamp
		}
	}
	u.Bundle = f.trust.published(m.Name, []byte(state.Bundle))
	f.mu.Lock()
	if f.members[in.Peer].Name == m.Name {
		f.received[in.Peer] = state
	}
	f.mu.Unlock()
	applied := f.apply(ctx, in.Peer, u)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !applied {
		problems.Add(errNoEffect)
	}
	f.mu.Lock()
	missed := f.missed[in.Peer]
	f.missed[in.Peer] = !applied || missed && !in.Snapshot
	if missed = missed && applied && !in.Snapshot; missed {
		delete(f.missed, in.Peer)
	}
	f.mu.Unlock()
	if in.Snapshot {
		parts.settle()
	} else if missed || parts.returned() {
		return channel.ErrSendAgain
	}
	return problems.Err()
}

// slice is the number of exports in one call of Config.Apply, which takes some milliseconds.
const slice = 256

// apply passes a large update to Config.Apply in slices with pauses, so that updates of other
// members wait for at most one slice. It returns false if Apply dropped some exports.
func (f *Federation) apply(ctx context.Context, peer string, u registry.Update) bool {
	all, applied := u.Exports, true
	for len(all) > slice {
		part := u
		part.Partial, part.Withdrawn, part.Unread, part.Exports, all = true, nil, nil, all[:slice], all[slice:]
		applied = f.cfg.Apply(part) && applied
		if !channel.Pause(ctx, f.paces.spent(peer, slice*exportCost, time.Now())) {
			return false
		}
		for i := range part.Exports {
			u.Before = append(u.Before, part.Exports[i].Pool)
		}
	}
	u.Exports = all
	f.paces.spent(peer, time.Duration(len(all)+len(u.Withdrawn)+len(u.Unread))*exportCost, time.Now())
	return f.cfg.Apply(u) && applied
}

// Run exchanges exports until ctx ends.
func (f *Federation) Run(ctx context.Context) error {
	go func() { // ends with ctx
		t := time.NewTicker(renewal)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				f.publishState()
			}
		}
	}()
	return f.channel.Run(ctx)
}
