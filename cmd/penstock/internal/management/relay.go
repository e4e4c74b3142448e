package management

import (
	"context"
	"crypto/tls"
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
	of         []federation.Member // those of SetMembers
	dirty      map[string]bool     // members without a peer that are to be published
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
		Reported: r.hub.enqueueExports,
		Log:      log,
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

// adopt takes over the members of the ClusterSet that have a peer, and which others the hub publishes for. It returns the names of the former.
func (r *relay) adopt(set *v1alpha1.ClusterSet, others []string) (peers []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case set.Spec.Cluster == "":
		r.hub.note(relaying, &mistake{Field: "spec.cluster", Problem: "it is missing, so this hub relays nothing: it is the name by which members know the hub", Fix: "write a name that no member has"})
		return nil
	case r.federation == nil:
		r.begin(set.Spec.Cluster)
	case set.Spec.Cluster != r.name:
		r.hub.note(relaying, &mistake{Field: "spec.cluster", Problem: fmt.Sprintf("the name of this hub is %s until the process ends", r.name), Fix: "start the hub again"})
		return r.peers()
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
		if !slices.ContainsFunc(members, func(m federation.Member) bool { return m.Name == name }) {
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
	changed := !reflect.DeepEqual(members, r.of)
	r.of = members
	r.federation.SetMembers(members)
	if changed { // which peers an export is for, too
		r.mark(others...)
	}
	return r.peers()
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

// peers are the names of those that have a peer. mu is held.
func (r *relay) peers() (names []string) {
	for _, m := range r.of {
		if m.Address != "" {
			names = append(names, m.Name)
		}
	}
	return names
}

// published has a member without a peer published again.
func (r *relay) published(member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark(member)
}

// mark is published with mu held.
func (r *relay) mark(members ...string) {
	for _, name := range members {
		r.dirty[name] = true
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
		names := slices.Sorted(maps.Keys(r.dirty))
		clear(r.dirty)
		r.mu.Unlock()
		for _, name := range names {
			is, ok := r.hub.out.Publication(name)
			if !ok {
				continue
			}
			err := r.federation.Represent(name, federation.Represented{UID: is.UID + "@" + r.hub.uid, Epoch: r.hub.epoch, Exports: is.Exports, Draining: is.Draining, Alive: is.Connected})
			if err == nil {
				r.hub.note(name+unpublished, nil)
				continue
			}
			r.hub.note(name+unpublished, &mistake{Field: "spec.members[" + name + "]", Problem: fmt.Sprintf("not all that it exports is published to members that have a peer: %.500v", err), Fix: "export fewer pools or endpoints there; what was published before stays"})
		}
	}
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
