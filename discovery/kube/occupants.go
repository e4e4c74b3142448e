package kube

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// occupants stores which Services have the addresses that translation asks about: those that users wrote. The store has only the
// EndpointSlices of Services in use; this looks at all.
type occupants struct {
	source *Source

	mu     sync.Mutex
	wanted map[string]map[occupant]struct{} // by address; empty in most clusters
	of     map[objectID][]string            // wanted addresses of objects that have some
}

// objectID is a Service or an EndpointSlice.
type objectID struct{ kind, id string }

// occupant is an object that has an address, and the Service that it stands for.
type occupant struct {
	object   objectID
	service  string
	endpoint bool // not the Service's own address
}

func newOccupants(s *Source) *occupants {
	return &occupants{source: s, wanted: map[string]map[occupant]struct{}{}, of: map[objectID][]string{}}
}

// addressesOf returns what an object has; none for an EndpointSlice that Kubernetes did not make, whose addresses may be anyone's.
func addressesOf(obj store.Object) (is occupant, addresses []string) {
	switch o := obj.(type) {
	case *corev1.Service:
		is = occupant{object: objectID{store.Services.Kind(), store.ID(o)}, service: store.ID(o)}
		for _, ip := range o.Spec.ClusterIPs {
			if ip != corev1.ClusterIPNone {
				addresses = append(addresses, ip)
			}
		}
	case *discoveryv1.EndpointSlice:
		service := o.Labels[discoveryv1.LabelServiceName]
		is = occupant{object: objectID{store.EndpointSlices.Kind(), store.ID(o)}, service: o.Namespace + "/" + service, endpoint: true}
		if service == "" || !store.Generated(o) {
			return is, nil
		}
		for _, e := range o.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
	}
	return is, addresses
}

// arrive follows a version of an object that the feed or a gate has.
func (o *occupants) arrive(obj store.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.wanted) > 0 {
		o.put(obj)
	}
}

// leave follows a deletion.
func (o *occupants) leave(kind, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(objectID{kind, id})
}

// want adds and removes addresses to follow.
func (o *occupants) want(wanted, unwanted []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range unwanted {
		delete(o.wanted, a)
		o.source.feed.add(store.Occupants.Delete(a))
	}
	if len(wanted) == 0 {
		return
	}
	for _, a := range wanted {
		if o.wanted[a] == nil {
			o.wanted[a] = map[occupant]struct{}{}
		}
	}
	// Whatever arrived before is in the store or a gate; whatever arrives later waits for mu.
	if o.source.feed.flush() != nil {
		return // see gate.unwant
	}
	view := o.source.store.View()
	for _, s := range store.Services.All(view) {
		o.put(s)
	}
	for _, s := range store.EndpointSlices.All(view) {
		o.put(s)
	}
	if g := o.source.gates[o.source.byTable[store.EndpointSlices.Kind()]]; g != nil {
		g.eachPacked(func(obj store.Object) { o.put(obj) })
	}
}

// put records the addresses of an object in place of those that it had. mu is held.
func (o *occupants) put(obj store.Object) {
	is, addresses := addressesOf(obj)
	var now []string
	for _, a := range addresses {
		if o.wanted[a] != nil && !slices.Contains(now, a) {
			now = append(now, a)
		}
	}
	if slices.Equal(now, o.of[is.object]) {
		all := true
		for _, a := range now {
			_, has := o.wanted[a][is]
			all = all && has
		}
		if all {
			return
		}
	}
	o.drop(is.object)
	for _, a := range now {
		o.wanted[a][is] = struct{}{}
		o.publish(a)
	}
	if len(now) > 0 {
		o.of[is.object] = now
	}
}

// drop removes the addresses of an object. mu is held.
func (o *occupants) drop(object objectID) {
	for _, a := range o.of[object] {
		maps.DeleteFunc(o.wanted[a], func(is occupant, _ struct{}) bool { return is.object == object })
		if o.wanted[a] != nil {
			o.publish(a)
		}
	}
	delete(o.of, object)
}

// publish stores who has an address. mu is held.
func (o *occupants) publish(address string) {
	out := &store.Occupant{ObjectMeta: metav1.ObjectMeta{Name: address}}
	for is := range o.wanted[address] {
		if is.endpoint {
			out.Endpoints = append(out.Endpoints, is.service)
		} else {
			out.Clusters = append(out.Clusters, is.service)
		}
	}
	if len(out.Clusters)+len(out.Endpoints) == 0 {
		o.source.feed.add(store.Occupants.Delete(address))
		return
	}
	slices.Sort(out.Clusters)
	slices.Sort(out.Endpoints)
	out.Endpoints = slices.Compact(out.Endpoints)
	o.source.feed.add(store.Occupants.Put(out))
}
