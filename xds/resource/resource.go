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

// Type is an xDS resource type. The constants are in make-before-break order.
type Type uint8

const (
	Secret Type = iota
	Cluster
	Endpoints
	Listener
	RouteConfiguration
	numTypes
)

// VirtualHost is the type of references to virtual hosts behind internal listeners. It is not an
// xDS type: such a virtual host is a part of a route configuration.
const VirtualHost = numTypes

// Types lists every xDS type, in make-before-break order.
func Types() []Type { return []Type{Secret, Cluster, Endpoints, Listener, RouteConfiguration} }

var typeURLs = [numTypes]string{
	Secret:             resourcev3.SecretType,
	Cluster:            resourcev3.ClusterType,
	Endpoints:          resourcev3.EndpointType,
	Listener:           resourcev3.ListenerType,
	RouteConfiguration: resourcev3.RouteType,
}

func (t Type) URL() string { return typeURLs[t] }

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

func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Type, o.Type), strings.Compare(r.Name, o.Name))
}

// Part is an immutable piece of an encoded message, with its references and owners.
type Part struct {
	// Body is a piece of the encoded message. All bodies, concatenated, are the message.
	Body []byte
	// Refs lists the referenced resources, also in per-filter configuration; sorted and distinct.
	Refs []Ref
	// Owners are the source objects of the part, sorted and distinct.
	Owners []report.Ref
}

// NewPart takes ownership of refs and owners, which need not be sorted or distinct.
func NewPart(body []byte, refs []Ref, owners []report.Ref) *Part {
	slices.SortFunc(refs, Ref.Compare)
	slices.SortFunc(owners, report.Ref.Compare)
	return &Part{Body: body, Refs: slices.Compact(refs), Owners: slices.Compact(owners)}
}

func (p *Part) Equal(o *Part) bool {
	return p == o || bytes.Equal(p.Body, o.Body) && slices.Equal(p.Refs, o.Refs) && slices.Equal(p.Owners, o.Owners)
}

// Resource is an encoded, immutable resource.
type Resource struct {
	Ref
	// Version is the hash of Body, equal on every replica and after a restart.
	Version string
	Parts   []*Part
	// Refs are sorted and distinct.
	Refs []Ref
	// Size is the length of Body in bytes.
	Size int
}

// New encodes msg deterministically. The caller must do the same with nested Any values.
func New(t Type, name string, msg proto.Message, refs []Ref, owners []report.Ref) (*Resource, error) {
	body, err := Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", t, name, err)
	}
	return FromParts(t, name, NewPart(body, refs, owners)), nil
}

// FromParts creates a resource from at least one encoded part.
func FromParts(t Type, name string, parts ...*Part) *Resource {
	r := &Resource{Ref: Ref{Type: t, Name: name}, Parts: parts, Refs: parts[0].Refs}
	hash := xxhash.New()
	for _, p := range parts {
		_, _ = hash.Write(p.Body) // Write never returns an error
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

// Body returns the encoded message, without an Any. With several parts, each call allocates.
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

// Owners returns the source objects of the resource. A NACK is reported on them. The NACK of one
// route is reported only on owners whose KIND/NAMESPACE/NAME/ is a prefix of its name. The result
// must not be modified.
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

func (r *Resource) Equal(o *Resource) bool {
	return r == o || r != nil && o != nil && r.Ref == o.Ref && r.Version == o.Version &&
		slices.EqualFunc(r.Parts, o.Parts, (*Part).Equal)
}

// Marshal encodes a message deterministically.
func Marshal(msg proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(msg)
}
