package federation

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
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

// Names of topics.
const (
	exportsTopic = "exports"
	importsTopic = "imports"
)

// stateKey is the key of the cluster's own state.
const stateKey = ""

// renewal is how often a cluster publishes its state: three times in a lease.
const renewal = 5 * time.Second

// debounce makes one response of what a change of this cluster publishes: records, those that are
// gone, and its state.
const debounce = time.Millisecond

// Config is what a Federation needs.
type Config struct {
	// Certificate is this process's, for both directions: its one URI is
	// spiffe://TRUSTDOMAIN/penstock.
	Certificate func() (*tls.Certificate, error)
	// Bundle has the CA certificates of this cluster's trust domain, in PEM, for the members to
	// trust; nil: none is published.
	Bundle func() []byte
	// Apply receives what a member exports, and returns false if not all of it has an effect: the
	// member is asked for all again once an update of it has. Connected, that it is not connected
	// any more.
	Apply     func(...registry.Update) bool
	Connected func(member string, is bool)
	// Problem receives what of a member's update had no effect, and why, also where its stream
	// ended for that; optional.
	Problem func(member, problem string)
	// Share is how much a member's exports may take here, in bytes; nil: 64 MiB. Twice as much may
	// be on its way, 4 MiB at least.
	Share func() int
	// Denied receives why the process at a member's address is not connected to: it has no
	// certificate of the member; optional.
	Denied func(member, problem string)
	// Placed receives what a member reports of the exports of this cluster that are for it, once
	// SetExports was called.
	Placed func(registry.Reports)
	// Load receives what a member reports of a pool whose load was asked for (Want); nil: nothing
	// does.
	Load func(objectid.Member, Load)
	// Connect makes the connections to members; nil: gRPC's, over TCP.
	Connect channel.Connect
	// Now is the clock that certificates are compared with; time.Now if nil.
	Now     func() time.Time
	Log     *slog.Logger
	OnPanic func(peer string, value any, stack []byte)
}

// Federation is this cluster's end of the exchange with all members. It is safe for concurrent use.
type Federation struct {
	cfg     Config
	trust   *trust
	decided chan struct{} // closed with the first SetExports
	channel *channel.Channel
	exports *channel.Topic
	imports *channel.Topic
	wanted  *channel.Topic
	loads   *channel.Topic
	dialled connections
	paces   paces

	mu       sync.Mutex
	own      publisher                           // of this cluster
	newest   uint64                              // Topic.Published of exports with its last change
	members  map[string]Member                   // by address
	left     map[string]bool                     // names of former members
	received map[string]cluster                  // the last state of a member, by address
	missed   map[string]bool                     // addresses of members of which an update had no effect
	parts    map[string]*assemblies              // by address; each is used by the goroutine that receives from there
	placedAt map[objectid.Pool]map[string]placed // what exporters were sent about where their export stands here
	wants    map[objectid.Member]bool            // whose load this cluster asks for
	askedFor map[string]map[objectid.Pool]bool   // by address: whose load members ask for

	audience audience
}

// New makes a federation without members. It serves once Register and Run are called.
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
		askedFor: map[string]map[objectid.Pool]bool{}, decided: make(chan struct{})}
	f.channel = channel.New(channel.Config{
		CredentialsOf: f.credentials, Identify: f.trust.identify, NameOf: f.nameAt, Dial: f.dialled.dial,
		Connect: c.Connect, Debounce: debounce, Limits: f.limits(), Exceeded: f.exceeded, Received: f.messageReceived,
		Now: c.Now, Log: c.Log, OnPanic: c.OnPanic,
	})
	f.exports, f.imports = f.channel.Topic(exportsTopic), f.channel.Topic(importsTopic)
	f.wanted, f.loads = f.channel.Topic(wantedTopic), f.channel.Topic(loadsTopic)
	f.exports.Resume()
	f.imports.Resume()
	// Exports to a cluster that left the set are retracted from it.
	f.exports.Visible(func(member, key string) bool { return f.trust.has(member) && f.audience.receives(member, key) })
	f.exports.Keys(func(key string) error { _, err := receivedKey(key); return err })
	f.exports.Subscribe(f.paced(followCost, f.receive))
	f.imports.Subscribe(f.paced(followCost, f.noted(f.receiveImports)))
	f.wanted.Subscribe(f.paced(0, f.noted(f.receiveWanted)))
	f.loads.Subscribe(f.paced(0, f.noted(f.receiveLoads)))
	for _, t := range []*channel.Topic{f.imports, f.wanted, f.loads} {
		t.Keys(func(key string) error { _, err := memberPool(key); return err })
		t.Visible(func(member, key string) bool {
			m, ok := objectid.ParseMember(key)
			return ok && m.Member == member && f.trust.has(member)
		})
	}
	return f
}

// What a member sends is bounded: the items of a response, among them the parts of its endpoints,
// and a message, which has one record more than channel sends by itself at most.
const (
	maxItems    = 1 << 15
	maxReceived = 2 << 20
	leastBytes  = 4 << 20
)

func (f *Federation) limits() channel.Limits {
	return channel.Limits{Items: maxItems, Message: maxReceived,
		Bytes: func() int { return max(2*f.share(), leastBytes) }}
}

// share is Config.Share.
func (f *Federation) share() int {
	if f.cfg.Share == nil {
		return 64 << 20
	}
	return f.cfg.Share()
}

// exceeded passes on why the stream of a member has ended.
func (f *Federation) exceeded(address, problem string) {
	if name := f.nameAt(address); name != "" && f.cfg.Problem != nil {
		f.cfg.Problem(name, problem)
	}
}

// nameAt is the name of the member at an address.
func (f *Federation) nameAt(address string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[address].Name
}

// Publish has this process publish for a cluster from now on. epoch is higher than in each earlier
// process that did. began is when this process began to be the one that publishes, which is earlier
// than now if it could not save its epoch at first.
func (f *Federation) Publish(uid string, epoch uint64, began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.own.started = began
	f.publish(f.own.begin(uid, epoch)...)
	f.newest = f.exports.Published()
}

// credentials are those with which the member at an address is dialled.
func (f *Federation) credentials(address string) credentials.TransportCredentials {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := f.members[address].Name
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

// ServerOptions are those of a gRPC server that Register is called with: members alone may connect.
func (f *Federation) ServerOptions() []grpc.ServerOption {
	return append(channel.ServerOptions(), grpc.Creds(f.ServerCredentials()))
}

// ServerCredentials returns the credentials in ServerOptions.
func (f *Federation) ServerCredentials() credentials.TransportCredentials {
	return credentials.NewTLS(f.trust.server())
}

// Register adds the service to a gRPC server with ServerOptions.
func (f *Federation) Register(g grpc.ServiceRegistrar) { f.channel.Register(g) }

// Renewed publishes this cluster's state, because Config.Bundle returns another bundle.
func (f *Federation) Renewed() { f.publishState() }

// SetMembers replaces the members. A member whose address, or bundle in the ClusterSet, changes is
// connected to again.
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
	stays := func(address string) bool { _, is := next[address]; return is }
	f.dialled.keep(stays)
	f.paces.keep(stays)
	f.mu.Unlock()
	if len(changed) > 0 {
		f.channel.SetPeers(slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return changed[a] })...)
	}
	f.channel.SetPeers(addresses...)
	for _, t := range []*channel.Topic{f.exports, f.imports, f.wanted, f.loads} {
		t.Judge() // what is for those that are none any more is retracted
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !back || f.own.uid == "" {
		f.publish()
		return
	}
	f.publish(f.own.begin(f.own.uid, f.own.epoch)...)
}

// noteLeft records the members that left, and reports whether one of those is a member again: it
// may take a record that has not changed for one that was withdrawn since. mu is held.
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

// SetExports replaces what this cluster exports. draining: it takes no new request of other
// members.
func (f *Federation) SetExports(list []export.Export, draining bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.decide()
	c, err := f.own.set(list, draining)
	if !c.some {
		return err
	}
	f.audience.set(list)
	// first, so that a member is sent with one response that a record and its parts are gone: it
	// drops both with the record
	if c.others {
		f.exports.Judge()
	}
	f.exports.Retract(c.gone...)
	f.publish(c.items...)
	f.newest = f.exports.Published()
	return err
}

// Acknowledged reports whether a member has the last change of what this cluster publishes in
// effect. changed closes when the result may have changed; nil: nothing is published yet.
func (f *Federation) Acknowledged(member string) (is bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own.uid == "" {
		return false, nil
	}
	return f.exports.AcknowledgedBy(member, f.newest)
}

// decide has what members report taken over. mu is held.
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

// publish publishes exports together with this cluster's state, unless Publish was not called yet.
// mu is held.
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

// errNoEffect reports an update which Config.Apply does not take, or not all of it.
var errNoEffect = errors.New("not all of the update has an effect")

// receive passes what a member has published on to the registry.
func (f *Federation) receive(ctx context.Context, in channel.Update) error {
	f.mu.Lock()
	m, ok := f.members[in.Peer]
	state, known := f.received[in.Peer]
	parts := f.parts[in.Peer]
	if ok && (parts == nil || in.Snapshot) {
		parts = &assemblies{of: map[objectid.Pool]*assembly{}}
		f.parts[in.Peer] = parts
	}
	f.mu.Unlock()
	if !ok {
		return nil // it is none any more
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
	var withdrawn []objectid.Pool
	for _, k := range in.Retracted {
		switch at, err := receivedKey(k); {
		case err != nil:
		case at.kind == partKind:
			parts.drop(at.pool, at.part)
		case at.kind == recordKind:
			withdrawn = append(withdrawn, at.pool)
		}
	}
	for p := range touched {
		if e, err := parts.export(p); err == nil {
			u.Exports = append(u.Exports, e)
		} else if unread[p] == "" {
			unread[p] = err.Error()
			problems.Add(fmt.Errorf("export %s: %w", p, err)) // the next connection gets all of them
		}
	}
	if len(unread) > 0 {
		u.Unread = unread
		u.Exports = slices.DeleteFunc(u.Exports, func(e registry.Export) bool { return unread[e.Pool] != "" })
	}
	u.Withdrawn = withdrawn
	for _, p := range withdrawn { // after its parts, which touched may have asked for
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
	for i := range u.Exports { // a stamp that is newer than the state's could not be withdrawn
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
		return ctx.Err() // the rest comes with the next connection
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

// slice is how many exports of an update are applied at once: some milliseconds.
const slice = 256

// apply applies an update, a large one in slices at the member's pace: nothing else here waits for
// all of it. It returns false if not all of it has an effect.
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
	f.paces.spent(peer, time.Duration(len(all)+len(u.Withdrawn)+len(u.Unread))*exportCost, time.Now()) // paced waits
	return f.cfg.Apply(u) && applied
}

// Run exchanges until its context ends.
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
