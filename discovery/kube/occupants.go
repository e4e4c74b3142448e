package kube

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
)

// occupants records which Services use the IP addresses that translation reads (store.Occupant). It
// reads all EndpointSlices, because the store has only the EndpointSlices of Services in use.
//
// To save memory, an address is stored as a number, and a list of addresses is one demand. With a
// string and a demand for each address, 5,000 hand-written EndpointSlices with 10 endpoints each
// took 17 MiB.
type occupants struct {
	source *Source

	mu     sync.Mutex
	wanted map[address]int32   // number of demands; empty in most clusters
	lists  map[string]struct{} // demanded keys of store.ByAddresses
	held   map[objectID][]address
	at     map[address][]*occupant
}

type address [16]byte

func parseAddress(text string) (address, bool) {
	ip, err := netip.ParseAddr(text)
	return ip.As16(), err == nil
}

func (a address) String() string { return netip.AddrFrom16(a).Unmap().String() }

type objectID struct{ kind, id string }

type occupant struct {
	object   objectID
	service  string
	endpoint bool // the address is an endpoint's; otherwise it is a cluster IP
}

func newOccupants(s *Source) *occupants {
	return &occupants{source: s, wanted: map[address]int32{}, lists: map[string]struct{}{},
		held: map[objectID][]address{}, at: map[address][]*occupant{}}
}

// addressesOf returns the addresses that a Service or EndpointSlice uses. For an EndpointSlice that
// a user wrote it returns none, because its addresses may belong to other Services.
func addressesOf(obj store.Object) (holder occupant, addresses []string) {
	switch o := obj.(type) {
	case *corev1.Service:
		holder = occupant{object: objectID{store.Services.Kind(), store.ID(o)}, service: store.ID(o)}
		for _, ip := range o.Spec.ClusterIPs {
			if ip != corev1.ClusterIPNone {
				addresses = append(addresses, ip)
			}
		}
	case *discoveryv1.EndpointSlice:
		service := o.Labels[discoveryv1.LabelServiceName]
		holder = occupant{object: objectID{store.EndpointSlices.Kind(), store.ID(o)},
			service: objectid.Join(o.Namespace, service), endpoint: true}
		if service == "" || !store.Generated(o) {
			return holder, nil
		}
		for _, e := range o.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
	}
	return holder, addresses
}

func (o *occupants) arrive(obj store.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.wanted) > 0 {
		o.put(obj)
	}
}

func (o *occupants) leave(kind, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(objectID{kind, id})
}

func (o *occupants) want(wanted, unwanted []Demand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	look := false
	for _, d := range wanted {
		if d.Index == store.ByAddresses {
			o.lists[d.Key] = struct{}{}
		}
		for a := range addressesIn(d) {
			o.wanted[a]++
			look = look || o.wanted[a] == 1
			o.publish(a)
		}
	}
	for _, d := range unwanted {
		if d.Index == store.ByAddresses {
			delete(o.lists, d.Key)
		}
		for a := range addressesIn(d) {
			if o.wanted[a]--; o.wanted[a] <= 0 {
				delete(o.wanted, a)
			}
			o.publish(a)
		}
	}
	// All objects that have arrived are in the store or a gate. Objects that arrive now wait for
	// mu.
	if !look || o.source.feed.flush() != nil {
		return
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

func addressesIn(d Demand) func(yield func(address) bool) {
	return func(yield func(address) bool) {
		for text := range strings.FieldsSeq(d.Key) {
			if a, ok := parseAddress(text); ok && !yield(a) {
				return
			}
		}
	}
}

// The caller holds mu.
func (o *occupants) put(obj store.Object) {
	holder, texts := addressesOf(obj)
	var now []address
	for _, text := range texts {
		if a, ok := parseAddress(text); ok && o.wanted[a] > 0 && !slices.Contains(now, a) {
			now = append(now, a)
		}
	}
	for _, a := range o.held[holder.object] {
		if !slices.Contains(now, a) {
			o.vacate(a, holder.object)
		}
	}
	for _, a := range now {
		o.occupy(a, &holder)
	}
	if len(now) > 0 {
		o.held[holder.object] = now
	} else {
		delete(o.held, holder.object)
	}
}

// occupy records that an object uses an address. It replaces an earlier record of the object in
// place, so that the address never appears unused. The caller holds mu.
func (o *occupants) occupy(a address, holder *occupant) {
	list := o.at[a]
	switch i := slices.IndexFunc(list, func(other *occupant) bool { return other.object == holder.object }); {
	case i < 0:
		o.at[a] = append(list, holder)
	case *list[i] == *holder:
		return
	default:
		list[i] = holder
	}
	o.publish(a)
}

// The caller holds mu.
func (o *occupants) vacate(a address, object objectID) {
	o.at[a] = slices.DeleteFunc(o.at[a], func(other *occupant) bool { return other.object == object })
	o.publish(a)
}

// drop removes an object from all addresses. The caller holds mu.
func (o *occupants) drop(object objectID) {
	for _, a := range o.held[object] {
		o.vacate(a, object)
	}
	delete(o.held, object)
}

// The caller holds mu.
func (o *occupants) publish(a address) {
	list, known := o.at[a]
	if !known {
		return
	}
	if len(list) == 0 || o.wanted[a] == 0 {
		for _, holder := range list {
			if rest := slices.DeleteFunc(o.held[holder.object],
				func(other address) bool { return other == a }); len(rest) > 0 {
				o.held[holder.object] = rest
			} else {
				delete(o.held, holder.object)
			}
		}
		delete(o.at, a)
		o.source.feed.add(store.Occupants.Delete(a.String()))
		return
	}
	out := &store.Occupant{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	for _, holder := range list {
		if holder.endpoint {
			out.Endpoints = append(out.Endpoints, holder.service)
		} else {
			out.Clusters = append(out.Clusters, holder.service)
		}
	}
	for list := range o.lists {
		if strings.Contains(list, out.Name) && slices.Contains(strings.Fields(list), out.Name) {
			out.Lists = append(out.Lists, list)
		}
	}
	slices.Sort(out.Clusters)
	slices.Sort(out.Endpoints)
	slices.Sort(out.Lists)
	out.Endpoints = slices.Compact(out.Endpoints)
	o.source.feed.add(store.Occupants.Put(out))
}
