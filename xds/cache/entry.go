package cache

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/xds/resource"
)

// Slot is one name in one log, even if the resource does not exist.
type Slot struct {
	resource.Ref
	// ID is unique in one log. Streams use it as an index in bit sets.
	ID uint32

	current atomic.Pointer[Entry]
	named   atomic.Int32
	users   atomic.Int32
	last    uint64 // sequence number of the last record; guarded by log.mu

	variants shared
}

// Current returns the newest version, or nil.
func (s *Slot) Current() *Entry { return s.current.Load() }

// Named reports whether any current resource of the log references s.
func (s *Slot) Named() bool { return s.named.Load() > 0 }

// Commit describes the Batch that created an Entry.
type Commit struct {
	At    time.Time
	Trace trace.SpanContext
}

// Entry is an immutable version of a resource in one log.
type Entry struct {
	*resource.Resource
	Slot *Slot
	// Seq is the position in the log; 0 for a placeholder.
	Seq uint64
	// Names are the slots of Resource.Refs, in the same order.
	Names  []*Slot
	Commit *Commit

	head []byte
	any  int
}

const (
	fieldVersion   = 1
	fieldResource  = 2
	fieldName      = 3
	fieldResources = 2

	fieldTypeURL = 1
	fieldValue   = 2
)

// An element of DeltaDiscoveryResponse.resources is head and body. An element of
// DiscoveryResponse.resources is head[any:] and body.
func newEntry(r *resource.Resource, slot *Slot, seq uint64) *Entry {
	url := r.Type.URL()
	anyHead := protowire.AppendTag(nil, fieldTypeURL, protowire.BytesType)
	anyHead = protowire.AppendString(anyHead, url)
	if r.Size > 0 {
		anyHead = protowire.AppendTag(anyHead, fieldValue, protowire.BytesType)
		anyHead = protowire.AppendVarint(anyHead, uint64(r.Size))
	}
	anySize := len(anyHead) + r.Size
	inner := protowire.SizeTag(fieldVersion) + protowire.SizeBytes(len(r.Version)) +
		protowire.SizeTag(fieldName) + protowire.SizeBytes(len(r.Name)) +
		protowire.SizeTag(fieldResource) + protowire.SizeBytes(anySize)

	b := make([]byte, 0, inner-r.Size+8)
	b = protowire.AppendTag(b, fieldResources, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner))
	b = protowire.AppendTag(b, fieldVersion, protowire.BytesType)
	b = protowire.AppendString(b, r.Version)
	b = protowire.AppendTag(b, fieldName, protowire.BytesType)
	b = protowire.AppendString(b, r.Name)
	at := len(b)
	b = protowire.AppendTag(b, fieldResource, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(anySize))
	b = append(b, anyHead...)
	return &Entry{Resource: r, Slot: slot, Seq: seq, head: b, any: at}
}

// Delta returns the start of an element of DeltaDiscoveryResponse.resources. The bodies of e.Parts
// follow.
func (e *Entry) Delta() (head []byte) { return e.head }

// StateOfTheWorld returns the start of an element of DiscoveryResponse.resources.
func (e *Entry) StateOfTheWorld() (head []byte) { return e.head[e.any:] }

// Placeholder returns an empty assignment or route configuration, or nil for other types. It
// answers a subscription to a missing resource, because a removal does not end Envoy's wait.
func Placeholder(s *Slot) *Entry {
	var msg proto.Message
	switch s.Type {
	case resource.Endpoints:
		msg = &endpointv3.ClusterLoadAssignment{ClusterName: s.Name}
	case resource.RouteConfiguration:
		msg = &routev3.RouteConfiguration{Name: s.Name}
	default:
		return nil
	}
	r, err := resource.New(s.Type, s.Name, msg, nil, nil)
	if err != nil { // the name is not UTF-8, so no proxy can subscribe to it
		return nil
	}
	return newEntry(r, s, 0)
}

// Variant returns e with another body, for one stream. Streams share equal bodies, because many
// proxies reject the same resources.
func Variant(e *Entry, body []byte, names []*Slot) *Entry {
	names = slices.SortedFunc(slices.Values(names), func(a, b *Slot) int { return a.Compare(b.Ref) })
	refs := make([]resource.Ref, len(names))
	for i, n := range names {
		refs[i] = n.Ref
	}
	r := resource.FromParts(e.Type, e.Name, resource.NewPart(body, refs, slices.Clone(e.Owners())))
	r.Parts[0] = e.Slot.variants.share(r.Version, r.Parts[0])
	out := newEntry(r, e.Slot, e.Seq)
	out.Names, out.Commit = names, e.Commit
	return out
}

// Resent returns e with an equivalent body in other bytes.
func Resent(e *Entry, body []byte) *Entry {
	part := resource.NewPart(body, slices.Clone(e.Refs), slices.Clone(e.Owners()))
	r := resource.FromParts(e.Type, e.Name, part)
	r.Version = e.Version
	out := newEntry(r, e.Slot, e.Seq)
	out.Names, out.Commit = e.Names, e.Commit
	return out
}

// shared returns one pointer for equal parts. It is safe for concurrent use.
type shared struct {
	mu sync.Mutex
	// The key is the version of a resource that has only this part.
	parts map[string]weak.Pointer[resource.Part]
}

func (s *shared) share(version string, p *resource.Part) *resource.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.parts[version].Value(); old != nil && old.Equal(p) {
		return old
	}
	maps.DeleteFunc(s.parts, func(_ string, w weak.Pointer[resource.Part]) bool { return w.Value() == nil })
	if s.parts == nil {
		s.parts = map[string]weak.Pointer[resource.Part]{}
	}
	s.parts[version] = weak.Make(p)
	return p
}

// NamesSlot reports whether e references a slot; e may be nil. It compares names, because the log
// may have replaced the slot.
func (e *Entry) NamesSlot(s *Slot) bool {
	if e == nil {
		return false
	}
	_, found := slices.BinarySearchFunc(e.Names, s.Ref, func(n *Slot, ref resource.Ref) int { return n.Compare(ref) })
	return found
}
