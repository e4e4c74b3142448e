package federation

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

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

// Config is what a Federation needs.
type Config struct {
	// UID of this cluster; Epoch is higher than in each earlier process that published for it.
	UID   string
	Epoch uint64
	// Certificate is this process's, for both directions: its one URI is spiffe://TRUSTDOMAIN/penstock.
	Certificate func() (*tls.Certificate, error)
	// Apply receives what a member exports; Connected, that it is not connected any more.
	Apply     func(...registry.Update)
	Connected func(member string, is bool)
	// Placed receives where exports of this cluster stand at a member.
	Placed func(list []registry.Placement)
	// Now is the clock that certificates are compared with; time.Now if nil.
	Now     func() time.Time
	Log     *slog.Logger
	OnPanic func(peer string, value any, stack []byte)
}

// Federation is this cluster's end of the exchange with all members. It is safe for concurrent use.
type Federation struct {
	cfg     Config
	trust   *trust
	channel *channel.Channel
	exports *channel.Topic
	imports *channel.Topic

	mu       sync.Mutex
	members  map[string]Member // by address
	sequence uint64
	draining bool
	records  map[string]record                 // of this cluster, by key; with the stamp of their last change
	received map[string]cluster                // the last state of a member, by address
	placedAt map[registry.Pool]map[string]bool // exporters that were sent where their export stands here

	audience audience
}

// audience is which members an export is for. The channel reads it with its own lock held, so it has a lock of its own.
type audience struct {
	mu sync.RWMutex
	of map[string][]string // by key; nil: all members
}

func (a *audience) has(member, key string) bool {
	if key == stateKey {
		return true
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	to, ok := a.of[key]
	return ok && (to == nil || slices.Contains(to, member))
}

func (a *audience) set(list []export.Export) {
	of := make(map[string][]string, len(list))
	for _, e := range list {
		of[poolKey(e.Pool)] = e.To
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of = of
}

// New makes a federation without members. It serves once Register and Run are called.
func New(c Config) *Federation {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	f := &Federation{cfg: c, trust: newTrust(c.Certificate, c.Now), members: map[string]Member{}, records: map[string]record{}, received: map[string]cluster{}, placedAt: map[registry.Pool]map[string]bool{}}
	f.channel = channel.New(channel.Config{CredentialsOf: f.credentials, Identify: f.trust.identify, Now: c.Now, Log: c.Log, OnPanic: c.OnPanic})
	f.exports = f.channel.Topic(exportsTopic)
	f.exports.Visible(f.audience.has)
	f.exports.Subscribe(f.receive)
	f.imports = f.channel.Topic(importsTopic)
	f.imports.Visible(func(member, key string) bool { return strings.HasPrefix(key, member+"/") })
	f.imports.Subscribe(f.receiveImports)
	f.publishState()
	return f
}

// credentials are those with which the member at an address is dialled.
func (f *Federation) credentials(address string) credentials.TransportCredentials {
	f.mu.Lock()
	defer f.mu.Unlock()
	return credentials.NewTLS(f.trust.client(f.members[address].Name))
}

// ServerOptions are those of a gRPC server that Register is called with: members alone may connect.
func (f *Federation) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(f.trust.server()))}
}

// Register adds the service to a gRPC server with ServerOptions.
func (f *Federation) Register(g grpc.ServiceRegistrar) { f.channel.Register(g) }

// SetMembers replaces the members. A member whose address, trust domain or bundle changes is connected to again.
func (f *Federation) SetMembers(members []Member) {
	f.trust.set(members)
	f.mu.Lock()
	changed := map[string]bool{}
	next := make(map[string]Member, len(members))
	var addresses []string
	for _, m := range members {
		if old, ok := f.members[m.Address]; ok && (old.Name != m.Name || old.TrustDomain != m.TrustDomain || !bytes.Equal(old.Bundle, m.Bundle)) {
			changed[m.Address] = true
		}
		next[m.Address] = m
		addresses = append(addresses, m.Address)
	}
	f.members = next
	for address := range f.received {
		if _, stays := next[address]; !stays || changed[address] {
			delete(f.received, address)
		}
	}
	f.mu.Unlock()
	if len(changed) > 0 {
		f.channel.SetPeers(slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return changed[a] })...)
	}
	f.channel.SetPeers(addresses...)
}

// SetExports replaces what this cluster exports. draining: it takes no new request of other members.
func (f *Federation) SetExports(list []export.Export, draining bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sequence++
	var items []channel.Item
	stays := make(map[string]bool, len(list))
	for _, e := range list {
		k := poolKey(e.Pool)
		r := record{Entry: e.Entry, to: e.To}
		stays[k] = true
		if old, ok := f.records[k]; ok {
			r.Epoch, r.Sequence = old.Epoch, old.Sequence
			if same, err := equal(old, r); err != nil || same {
				if err != nil {
					return err
				}
				continue
			}
		}
		r.Epoch, r.Sequence = f.cfg.Epoch, f.sequence
		value, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("export %s: %w", k, err)
		}
		if len(value) > maxRecord {
			return fmt.Errorf("export %s: it takes %d bytes, and members take at most %d: export fewer endpoints", k, len(value), maxRecord)
		}
		f.records[k] = r
		items = append(items, channel.Item{Key: k, Value: value})
	}
	var gone []string
	for k := range f.records {
		if !stays[k] {
			gone = append(gone, k)
			delete(f.records, k)
		}
	}
	if len(items) == 0 && len(gone) == 0 && draining == f.draining {
		f.sequence--
		return nil
	}
	f.draining = draining
	f.audience.set(list)
	f.exports.Retract(gone...)
	f.publish(items...)
	return nil
}

func equal(a, b record) (bool, error) {
	if !slices.Equal(a.to, b.to) || (a.to == nil) != (b.to == nil) {
		return false, nil
	}
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b)
	return bytes.Equal(x, y), err
}

func (f *Federation) publishState() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish()
}

// publish publishes exports together with this cluster's state. mu is held.
func (f *Federation) publish(exports ...channel.Item) {
	value, err := json.Marshal(cluster{f.cfg.UID, f.cfg.Epoch, f.sequence, f.draining})
	if err != nil {
		return // unreachable: strings and numbers always marshal
	}
	f.exports.Publish(append(exports, channel.Item{Key: stateKey, Value: value})...)
}

// receive passes what a member has published on to the registry.
func (f *Federation) receive(_ context.Context, in channel.Update) error {
	f.mu.Lock()
	m, ok := f.members[in.Peer]
	state, known := f.received[in.Peer]
	f.mu.Unlock()
	if !ok {
		return nil // it is none any more
	}
	if in.Disconnected {
		f.cfg.Connected(m.Name, false)
		return nil
	}
	var problems []error
	more := 0
	u := registry.Update{Member: m.Name, Snapshot: in.Snapshot}
	for _, it := range in.Items {
		if it.Key == stateKey {
			s, err := decodeCluster(it.Value)
			if err != nil {
				problems = append(problems, fmt.Errorf("its state: %w", err))
				continue
			}
			state, known = s, true
			continue
		}
		e, err := decodeRecord(it.Key, it.Value)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("export %.200q: %w", it.Key, err))
			if e.Pool != (registry.Pool{}) {
				u.Unread = append(u.Unread, e.Pool)
			}
		case len(u.Exports) < maxExports:
			u.Exports = append(u.Exports, e)
		default:
			more++
		}
	}
	if more > 0 {
		problems = append(problems, fmt.Errorf("it exports more than %d pools: %d are left out", maxExports, more))
	}
	for _, k := range in.Retracted {
		if p, err := parsePool(k); err == nil {
			u.Withdrawn = append(u.Withdrawn, p)
		}
	}
	if !known {
		return errors.Join(append(problems, fmt.Errorf("member %s has not published its state", m.Name))...)
	}
	u.UID, u.Stamp, u.Draining = state.UID, registry.Stamp{Epoch: state.Epoch, Sequence: state.Sequence}, state.Draining
	f.mu.Lock()
	if f.members[in.Peer].Name == m.Name {
		f.received[in.Peer] = state
	}
	f.mu.Unlock()
	f.cfg.Apply(u)
	return errors.Join(problems...)
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
