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

// Type is a type of resources. The served types are in make-before-break order.
type Type uint8

const (
	Secret Type = iota
	Cluster
	Endpoints
	Listener
	RouteConfiguration
	numTypes
)

// VirtualHost is the type of references to hops. It is not served: a hop is a virtual host in the
// route configuration of an internal listener.
const VirtualHost = numTypes

// Types lists every served type, in order.
func Types() []Type { return []Type{Secret, Cluster, Endpoints, Listener, RouteConfiguration} }

var typeURLs = [numTypes]string{
	Secret:             resourcev3.SecretType,
	Cluster:            resourcev3.ClusterType,
	Endpoints:          resourcev3.EndpointType,
	Listener:           resourcev3.ListenerType,
	RouteConfiguration: resourcev3.RouteType,
}

// URL returns the type URL.
func (t Type) URL() string { return typeURLs[t] }

// String returns the short name of the type.
func (t Type) String() string {
	return [numTypes + 1]string{"secret", "cluster", "endpoints", "listener", "route", "virtual host"}[t]
}

// TypeOf returns the type of a type URL, or false if the type is not served.
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

// Part is an immutable piece of an encoded message, with its references and owners.
type Part struct {
	// Concatenated bodies of parts encode the whole message.
	Body []byte
	// Refs lists, sorted and distinct, the resources that the part names, also in per-filter
	// configuration.
	Refs []Ref
	// Owners are sorted and distinct.
	Owners []report.Ref
}

// NewPart creates a part from encoded bytes. It takes ownership of refs and owners, which need not
// be sorted or distinct.
func NewPart(body []byte, refs []Ref, owners []report.Ref) *Part {
	slices.SortFunc(refs, Ref.Compare)
	slices.SortFunc(owners, report.Ref.Compare)
	return &Part{Body: body, Refs: slices.Compact(refs), Owners: slices.Compact(owners)}
}

// Equal reports whether two parts have the same body, references and owners.
func (p *Part) Equal(o *Part) bool {
	return p == o || bytes.Equal(p.Body, o.Body) && slices.Equal(p.Refs, o.Refs) && slices.Equal(p.Owners, o.Owners)
}

// Resource is one encoded, immutable resource.
type Resource struct {
	Ref
	// Version is the hash of Body. It is equal on every replica and after a restart.
	Version string
	// Parts make up the message. Most resources have one part.
	Parts []*Part
	// Refs are the resources that the Resource names: sorted, distinct.
	Refs []Ref
	// Size is the length of Body in bytes.
	Size int
}

// New encodes msg deterministically; nested Any values must be encoded in the same way.
func New(t Type, name string, msg proto.Message, refs []Ref, owners []report.Ref) (*Resource, error) {
	body, err := Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", t, name, err)
	}
	return FromParts(t, name, NewPart(body, refs, owners)), nil
}

// FromParts creates a resource from encoded parts, at least one.
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

func refsOf(parts []*Part) []Ref {
	seen := map[Ref]struct{}{}
	for _, p := range parts {
		for _, r := range p.Refs {
			seen[r] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), Ref.Compare)
}

// Body returns the encoding of the proto message, without the Any around it. If there are several
// parts, each call concatenates them.
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

// Owners returns the objects from which the resource was made. A NACK is reported on them. The NACK
// of a single route is reported only on owners whose KIND/NAMESPACE/NAME/ is a prefix of the
// route's name. The caller must not modify the result.
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

// Equal reports whether two resources are equal, including their division into parts.
func (r *Resource) Equal(o *Resource) bool {
	return r == o || r != nil && o != nil && r.Ref == o.Ref && r.Version == o.Version &&
		slices.EqualFunc(r.Parts, o.Parts, (*Part).Equal)
}

// Marshal encodes a message deterministically.
func Marshal(msg proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(msg)
}
