package resource

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Type is one of the five kinds of resources that Envoy gets; its order here is their order in a make-before-break
// flush.
type Type uint8

// The types that are served.
const (
	Secret Type = iota
	Cluster
	Endpoints
	Listener
	RouteConfiguration
	numTypes
)

// Types lists every type, in order.
func Types() []Type { return []Type{Secret, Cluster, Endpoints, Listener, RouteConfiguration} }

var typeURLs = [numTypes]string{
	Secret:             resourcev3.SecretType,
	Cluster:            resourcev3.ClusterType,
	Endpoints:          resourcev3.EndpointType,
	Listener:           resourcev3.ListenerType,
	RouteConfiguration: resourcev3.RouteType,
}

// URL is the type's URL as xDS writes it.
func (t Type) URL() string { return typeURLs[t] }

// String is the short name that people know: SDS's secret, cluster, endpoints, listener, route.
func (t Type) String() string {
	return [numTypes]string{"secret", "cluster", "endpoints", "listener", "route"}[t]
}

// TypeOf finds the type of a URL; false if we do not serve it.
func TypeOf(url string) (Type, bool) {
	i := slices.Index(typeURLs[:], url)
	return Type(max(i, 0)), i >= 0
}

// Ref names a resource.
type Ref struct {
	Type Type
	Name string
}

func (r Ref) String() string { return r.Type.String() + " " + r.Name }

// Compare orders by type, then name.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Type, o.Type), strings.Compare(r.Name, o.Name))
}

// Part is a piece of an encoded message, with what is said in it. Immutable.
type Part struct {
	// Body is some of the message's fields, encoded: encodings of fields, one behind the other, encode them all.
	Body []byte
	// Refs are the resources that it names, also inside per-filter configuration: sorted, without repeats.
	Refs []Ref
	// Owners are the objects that it was made from: sorted, without repeats.
	Owners []report.Ref
}

// NewPart makes a part of what is already encoded. refs and owners may come in any order, with repeats; they are its own
// from now on.
func NewPart(body []byte, refs []Ref, owners []report.Ref) *Part {
	slices.SortFunc(refs, Ref.Compare)
	slices.SortFunc(owners, report.Ref.Compare)
	return &Part{Body: body, Refs: slices.Compact(refs), Owners: slices.Compact(owners)}
}

// Equal says whether two parts are the same in everything.
func (p *Part) Equal(o *Part) bool {
	return p == o || bytes.Equal(p.Body, o.Body) && slices.Equal(p.Refs, o.Refs) && slices.Equal(p.Owners, o.Owners)
}

// Resource is one encoded resource. Immutable.
type Resource struct {
	Ref
	// Version is the hash of Body: equal on every replica and after a restart.
	Version string
	// Parts make up the message; most have one. Versions of a large resource share the parts in which they are equal: to
	// make, keep and send the next one costs little more than the part that is new.
	Parts []*Part
	// Refs are the resources that this one names: sorted, without repeats.
	Refs []Ref
	// Size of Body in bytes.
	Size int
}

// New encodes msg. The encoding is deterministic; nested Any values must have been marshalled the same way.
func New(t Type, name string, msg proto.Message, refs []Ref, owners []report.Ref) (*Resource, error) {
	body, err := Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", t, name, err)
	}
	return FromParts(t, name, NewPart(body, refs, owners)), nil
}

// FromParts makes a resource of parts that are already encoded, at least one.
func FromParts(t Type, name string, parts ...*Part) *Resource {
	r := &Resource{Ref: Ref{Type: t, Name: name}, Parts: parts, Refs: parts[0].Refs}
	hash := xxhash.New()
	for _, p := range parts {
		_, _ = hash.Write(p.Body) // it never fails
		r.Size += len(p.Body)
	}
	r.Version = strconv.FormatUint(hash.Sum64(), 36)
	if len(parts) > 1 {
		r.Refs = refsOf(parts)
	}
	return r
}

// refsOf is what several parts refer to. Most name the same few, so that finding repeats comes before sorting.
func refsOf(parts []*Part) []Ref {
	seen := map[Ref]struct{}{}
	for _, p := range parts {
		for _, r := range p.Refs {
			seen[r] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), Ref.Compare)
}

// Body is the deterministic encoding of the proto message (not of the Any around it). It is put together for each call
// if it has more than one part.
func (r *Resource) Body() []byte {
	if len(r.Parts) == 1 {
		return r.Parts[0].Body
	}
	body := make([]byte, 0, r.Size)
	for _, p := range r.Parts {
		body = append(body, p.Body...)
	}
	return body
}

// Owners are the objects that it was made from: sorted, without repeats. A NACK is reported to them; one of a single
// route in a route configuration to those whose KIND/NAMESPACE/NAME/ its name begins with. The list is put together for
// each call if there is more than one part, and not to be changed.
func (r *Resource) Owners() []report.Ref {
	if len(r.Parts) == 1 {
		return r.Parts[0].Owners
	}
	var owners []report.Ref
	for _, p := range r.Parts {
		owners = append(owners, p.Owners...)
	}
	slices.SortFunc(owners, report.Ref.Compare)
	return slices.Compact(owners)
}

// Equal says whether two resources are the same in everything, bytes and their division into parts included.
func (r *Resource) Equal(o *Resource) bool {
	return r == o || r != nil && o != nil && r.Ref == o.Ref && r.Version == o.Version && slices.EqualFunc(r.Parts, o.Parts, (*Part).Equal)
}

// Marshal is the one deterministic encoding that everything which reaches Envoy goes through.
func Marshal(msg proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(msg)
}
