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

// occupants stores which Services have the addresses that translation asks about: those that users
// wrote. The store has only the EndpointSlices of Services in use; this looks at all.
//
// Addresses in question are numbers here, and lists of them one demand: with a string, a demand and
// a set of occupants for each address, 5,000 EndpointSlices of 10 endpoints that users wrote took
// 17 MiB, although nothing occupied any of them.
type occupants struct {
	source *Source

	mu     sync.Mutex
	wanted map[address]int32       // how many demands contain it; empty in most clusters
	lists  map[string]struct{}     // keys of store.ByAddresses that are demanded
	of     map[objectID][]address  // wanted addresses of objects that have some
	at     map[address][]*occupant // the same by address
}

// address is an IP address in the form that netip.Addr.As16 returns: a number, without a pointer.
type address [16]byte

// parseAddress reads the text of an address; false if it is none.
func parseAddress(text string) (address, bool) {
	ip, err := netip.ParseAddr(text)
	return ip.As16(), err == nil
}

func (a address) String() string { return netip.AddrFrom16(a).Unmap().String() }

// objectID is a Service or an EndpointSlice.
type objectID struct{ kind, id string }

// occupant is an object that has an address, and the Service that it stands for.
type occupant struct {
	object   objectID
	service  string
	endpoint bool // not the Service's own address
}

func newOccupants(s *Source) *occupants {
	return &occupants{source: s, wanted: map[address]int32{}, lists: map[string]struct{}{},
		of: map[objectID][]address{}, at: map[address][]*occupant{}}
}

// addressesOf returns what an object has; none for an EndpointSlice that Kubernetes did not make,
// whose addresses may be anyone's.
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
		is = occupant{object: objectID{store.EndpointSlices.Kind(), store.ID(o)},
			service: objectid.Join(o.Namespace, service), endpoint: true}
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

// want adds and removes demands for addresses.
func (o *occupants) want(wanted, unwanted []Demand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	look := false // at all objects, for addresses that are new
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
	// Whatever arrived before is in the store or a gate; whatever arrives later waits for mu.
	if !look || o.source.feed.flush() != nil {
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

// addressesIn walks over the addresses of a demand.
func addressesIn(d Demand) func(yield func(address) bool) {
	return func(yield func(address) bool) {
		for text := range strings.FieldsSeq(d.Key) {
			if a, ok := parseAddress(text); ok && !yield(a) {
				return
			}
		}
	}
}

// put records the addresses of an object in place of those that it had. mu is held.
func (o *occupants) put(obj store.Object) {
	is, texts := addressesOf(obj)
	var now []address
	for _, text := range texts {
		if a, ok := parseAddress(text); ok && o.wanted[a] > 0 && !slices.Contains(now, a) {
			now = append(now, a)
		}
	}
	for _, a := range o.of[is.object] {
		if !slices.Contains(now, a) {
			o.vacate(a, is.object)
		}
	}
	for _, a := range now {
		o.occupy(a, &is)
	}
	if len(now) > 0 {
		o.of[is.object] = now
	} else {
		delete(o.of, is.object)
	}
}

// occupy puts an object at an address. An address that it has already never appears to be free
// meanwhile. mu is held.
func (o *occupants) occupy(a address, is *occupant) {
	list := o.at[a]
	switch i := slices.IndexFunc(list, func(other *occupant) bool { return other.object == is.object }); {
	case i < 0:
		o.at[a] = append(list, is)
	case *list[i] == *is:
		return
	default:
		list[i] = is
	}
	o.publish(a)
}

// vacate removes an object from an address. mu is held.
func (o *occupants) vacate(a address, object objectID) {
	o.at[a] = slices.DeleteFunc(o.at[a], func(is *occupant) bool { return is.object == object })
	o.publish(a)
}

// drop removes an object from all addresses. mu is held.
func (o *occupants) drop(object objectID) {
	for _, a := range o.of[object] {
		o.vacate(a, object)
	}
	delete(o.of, object)
}

// publish stores who has an address, if that is in question. mu is held.
func (o *occupants) publish(a address) {
	list, known := o.at[a]
	if !known {
		return
	}
	if len(list) == 0 || o.wanted[a] == 0 {
		for _, is := range list {
			if rest := slices.DeleteFunc(o.of[is.object],
				func(other address) bool { return other == a }); len(rest) > 0 {
				o.of[is.object] = rest
			} else {
				delete(o.of, is.object)
			}
		}
		delete(o.at, a)
		o.source.feed.add(store.Occupants.Delete(a.String()))
		return
	}
	out := &store.Occupant{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	for _, is := range list {
		if is.endpoint {
			out.Endpoints = append(out.Endpoints, is.service)
		} else {
			out.Clusters = append(out.Clusters, is.service)
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
