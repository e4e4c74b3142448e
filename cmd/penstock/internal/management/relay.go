package management

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/hub"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/authority"
)

// relay is the hub's end of the exchange with members that have a peer: the federation that relays what they publish to each other, and the port at
// which they subscribe. It runs while this process leads, from the first ClusterSet that names the hub.
type relay struct {
	hub   *Hub
	begun chan struct{} // closed with the name

	mu         sync.Mutex
	name       string // the hub's own, its SPIFFE trust domain
	authority  *authority.Authority
	federation *federation.Federation
	problems   map[string]*mistake // by member
	of         []federation.Member // those that connect connects to
	changed    bool                // of is another one than connect has had
	dirty      map[string]bool     // members without a peer that are to be published, and whether they have answered
	wake       chan struct{}       // has one element when there are some
}

func newRelay(h *Hub) *relay {
	return &relay{hub: h, begun: make(chan struct{}), problems: map[string]*mistake{}, dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// begin makes the parts that need to know the hub's name. mu is held.
func (r *relay) begin(name string) {
	log := r.hub.log.With(slog.String("part", "relay"))
	r.name = name
	r.authority = clusterset.NewAuthority(name, clusterset.FileAuthority(r.hub.cfg.StateDir), authority.Config{Changed: r.renewed, Log: log})
	r.federation = federation.New(federation.Config{
		Hub: true, Certificate: func() (*tls.Certificate, error) { return r.authority.GetCertificate(nil) }, Bundle: r.authority.Bundle,
		Problem: func(member, problem string) {
			r.note(member, &mistake{Field: "spec.members[" + member + "]", Problem: "not all that it publishes is relayed: " + problem, Fix: "correct it there, or run the same version of Penstock"})
		},
		Denied: func(member, problem string) {
			r.note(member, &mistake{Field: "spec.members[" + member + "].peer", Problem: problem, Fix: "run `penstock clusters show` there, and join it again here"})
		},
		Relayed:  func(member string) { r.note(member, nil) },
		Reported: r.hub.enqueueExports, Passed: r.hub.out.Apply, Connected: r.hub.out.Connected,
		Log: log,
	})
	close(r.begun)
}

// note notes what is wrong with a member; nil: nothing is.
func (r *relay) note(member string, m *mistake) {
	r.mu.Lock()
	same := r.problems[member] == nil && m == nil
	if r.problems[member] = m; m == nil {
		delete(r.problems, member)
	}
	r.mu.Unlock()
	if !same {
		r.hub.note(member, m)
	}
}

// renewed writes what members join the hub with.
func (r *relay) renewed() {
	is := v1alpha1.ClusterSetPeer{Address: r.hub.cfg.MembersAddress, Bundle: string(r.authority.Bundle()), Hub: true}
	r.federation.Renewed()
	if err := clusterset.WriteMember(r.hub.cfg.StateDir, r.name, is); err != nil {
		r.hub.log.Error("what members need to join this hub cannot be written", "error", err)
	}
}

// adopt takes over the members of the ClusterSet that have a peer, and which others the hub publishes for. It returns the former. connect has an effect
// on connections.
func (r *relay) adopt(set *v1alpha1.ClusterSet, others []string) (peers []hub.Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case set.Spec.Cluster == "":
		r.hub.note(relaying, &mistake{Field: "spec.cluster", Problem: "it is missing, so this hub relays nothing: it is the name by which members know the hub", Fix: "write a name that no member has"})
		return r.peers(set)
	case r.federation == nil:
		r.begin(set.Spec.Cluster)
	case set.Spec.Cluster != r.name:
		r.hub.note(relaying, &mistake{Field: "spec.cluster", Problem: fmt.Sprintf("the name of this hub is %s until the process ends", r.name), Fix: "start the hub again"})
		return r.peers(set)
	}
	r.hub.note(relaying, nil)
	var members []federation.Member
	unreached := map[string]*mistake{}
	for _, m := range set.Spec.Members {
		switch {
		case m.Peer == nil, m.Peer.Hub, m.Name == r.name, slices.Contains(others, m.Name), slices.ContainsFunc(members, func(is federation.Member) bool { return is.Name == m.Name }):
		case m.Peer.Address == "":
			unreached[m.Name] = &mistake{Field: field(&m, "peer.address"), Problem: "it is missing, and a hub reaches each member itself", Fix: "run `penstock clusters show` there, and join it here without --through-hub"}
		default:
			members = append(members, federation.Member{Name: m.Name, Address: m.Peer.Address, Bundle: []byte(m.Peer.Bundle)})
		}
	}
	for name := range r.problems {
		if unreached[name] == nil && !slices.ContainsFunc(members, func(m federation.Member) bool { return m.Name == name }) {
			delete(r.problems, name)
			r.hub.note(name, nil)
		}
	}
	for name, m := range unreached {
		r.problems[name] = m
		r.hub.note(name, m)
	}
	for _, name := range others {
		if name != r.name {
			members = append(members, federation.Member{Name: name})
		}
	}
	r.changed = r.changed || !reflect.DeepEqual(members, r.of)
	r.of = members
	return r.peers(set)
}

// connect connects to the members of adopt.
func (r *relay) connect() {
	r.mu.Lock()
	f, members, changed := r.federation, r.of, r.changed
	r.changed = false
	r.mu.Unlock()
	if f == nil {
		return
	}
	f.SetMembers(members)
	if !changed {
		return
	}
	for _, m := range members {
		if m.Address == "" { // which peers its exports are for has changed, too
			r.stands(m.Name)
		}
	}
}

// members are those that have a peer.
func (r *relay) members() []federation.RelayedStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.federation == nil {
		return nil
	}
	return r.federation.Relayed()
}

// peers are those that have a peer. mu is held.
func (r *relay) peers(set *v1alpha1.ClusterSet) (peers []hub.Peer) {
	for _, m := range r.of {
		if m.Address == "" {
			continue
		}
		is := hub.Peer{Name: m.Name}
		if i := slices.IndexFunc(set.Spec.Members, func(of v1alpha1.ClusterSetMember) bool { return of.Name == m.Name }); i >= 0 {
			is.Allow = set.Spec.Members[i].Allow
		}
		peers = append(peers, is)
	}
	return peers
}

// published has a member without a peer published again: it has answered.
func (r *relay) published(member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark(true, member)
}

// stands has where exports stand at a member without a peer published again.
func (r *relay) stands(member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark(false, member)
}

// mark is published, or stands, with mu held.
func (r *relay) mark(alive bool, members ...string) {
	for _, name := range members {
		r.dirty[name] = r.dirty[name] || alive
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// publish publishes for members without a peer until ctx ends.
func (r *relay) publish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		}
		r.mu.Lock()
		dirty := r.dirty
		r.dirty = map[string]bool{}
		r.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(dirty)) {
			if err := r.represent(name, dirty[name]); err != nil {
				r.hub.note(name+unpublished, &mistake{Field: "spec.members[" + name + "]", Problem: fmt.Sprintf("not all of it is published to members that have a peer: %.500v", err), Fix: "export fewer pools or endpoints there; what was published before stays"})
			} else {
				r.hub.note(name+unpublished, nil)
			}
		}
	}
}

// represent publishes what a member exports, and where exports of others stand there, as far as it is known.
func (r *relay) represent(name string, alive bool) (err error) {
	if is, ok := r.hub.out.Publication(name); ok {
		err = r.federation.Represent(name, federation.Represented{UID: is.UID + "@" + r.hub.uid, Epoch: r.hub.epoch, Exports: is.Exports, Draining: is.Draining, Alive: alive && is.Connected})
	}
	if placed, pending, known := r.hub.out.Standings(name); known {
		err = errors.Join(err, r.federation.RepresentPlaced(name, placed, pending))
	}
	return err
}

// unpublished follows the name of a member in what of it is not published.
const unpublished = ", as it is published to peers"

// placements are where the export of a member without a peer stands at those that have one.
func (r *relay) placements(member string, p registry.Pool) []registry.Placement {
	r.mu.Lock()
	f := r.federation
	r.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.Placements(member, p)
}

// relaying is what is wrong with the hub itself, among members.
const relaying = "the hub itself"

// run relays until ctx ends.
func (r *relay) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.begun:
	}
	l, err := r.hub.cfg.Listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the server does, too, once there is one
	r.hub.log.Info("serving", "members-listen", l.Addr().String(), "members-address", r.hub.cfg.MembersAddress)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.authority.Run(ctx) })
	if err := r.authority.Ready(ctx); err != nil {
		return err
	}
	server := grpc.NewServer(r.federation.ServerOptions()...)
	r.federation.Register(server)
	group.Go(func() error { return r.federation.Run(ctx) })
	group.Go(func() error { return r.publish(ctx) })
	group.Go(func() error {
		if err := server.Serve(l); err != nil {
			return fmt.Errorf("serve members on %s: %w", l.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		server.Stop()
		return ctx.Err()
	})
	return group.Wait()
}
