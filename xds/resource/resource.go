package resource

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/discovery/report"
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

// Resource is one encoded resource. Immutable.
type Resource struct {
	Ref
	// Version is the hash of Body: equal on every replica and after a restart.
	Version string
	// Body is the deterministic encoding of the proto message (not of the Any around it).
	Body []byte
	// Refs are the resources that this one names, also inside per-filter configuration: sorted, without repeats.
	Refs []Ref
	// Owners are the objects that it was made from: sorted, without repeats. A NACK is reported to them; one of a single
	// route in a route configuration to those whose KIND/NAMESPACE/NAME/ its name begins with.
	Owners []report.Ref
}

// New encodes msg. The encoding is deterministic; nested Any values must have been marshalled the same way.
func New(t Type, name string, msg proto.Message, refs []Ref, owners []report.Ref) (*Resource, error) {
	body, err := Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", t, name, err)
	}
	return FromBytes(t, name, body, refs, owners), nil
}

// FromBytes makes a resource of a body that is already encoded.
func FromBytes(t Type, name string, body []byte, refs []Ref, owners []report.Ref) *Resource {
	slices.SortFunc(refs, Ref.Compare)
	slices.SortFunc(owners, report.Ref.Compare)
	return &Resource{
		Ref:     Ref{Type: t, Name: name},
		Version: strconv.FormatUint(xxhash.Sum64(body), 36),
		Body:    body,
		Refs:    slices.Compact(refs),
		Owners:  slices.Compact(owners),
	}
}

// Equal says whether two resources are the same in everything, bytes included.
func (r *Resource) Equal(o *Resource) bool {
	return r == o || r != nil && o != nil && r.Ref == o.Ref && r.Version == o.Version &&
		slices.Equal(r.Body, o.Body) && slices.Equal(r.Refs, o.Refs) && slices.Equal(r.Owners, o.Owners)
}

// AppendAny appends the encoding of the google.protobuf.Any that holds the resource.
func (r *Resource) AppendAny(b []byte) []byte {
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendString(b, r.Type.URL())
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	return protowire.AppendBytes(b, r.Body)
}

// Marshal is the one deterministic encoding that everything which reaches Envoy goes through.
func Marshal(msg proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(msg)
}
