package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// ClusterID identifies one Envoy cluster. String makes the cluster's name, ParseClusterID reads a
// name back. Two clusters are the same exactly when their IDs are equal; the zero ID is no cluster.
//
// IDs are keys of many maps, so the struct is small: its strings are those of the objects.
type ClusterID struct {
	Namespace, Name string // of the object
	// exporting cluster of an import, or subset of a pool's hops (SubsetMember); "" for others
	Member  string
	Port    int32          // of a Service; 0 for other kinds
	Kind    ClusterKind    // of object, and of protocol for a Service
	Variant ClusterVariant // what sets the cluster apart from the plain one of the same object
	// Config is a hash of an external picker's cluster, without its endpoints and a Gateway's own
	// certificate; 0 for other kinds, and in any configuration. Envoy ends every call in flight
	// through a cluster that changes, and such a call lasts as long as its request: so a cluster
	// with another configuration is another one, to which only new requests go.
	Config uint16
}

// PickerEncoding is the version of how package envoy writes the clusters of external pickers, which
// Config has in its hash. It grows with each change of that, because a new release's clusters are
// then others than those of the release before; a test there notices.
const PickerEncoding = 2

// ClusterKind is the kind of object that a cluster stands for, and so the protocol of a Service's
// clusters.
type ClusterKind uint8

// The kinds of clusters.
const (
	// FixedKind is a cluster of no object: OurPicker or Collector. Its Name is its name.
	FixedKind ClusterKind = iota
	// ServiceKind is one port of a Service. Its protocol follows the port's appProtocol.
	ServiceKind
	// GRPCKind is one port of a Service that serves gRPC, and so HTTP/2, whatever the port's
	// appProtocol is.
	GRPCKind
	// TCPKind is one port of a Service for connections without TLS, or whose TLS ended at the
	// listener. A BackendTLSPolicy makes the cluster originate TLS.
	TCPKind
	// PassthroughKind is one port of a Service for connections that are TLS already. No policy
	// changes them.
	PassthroughKind
	// PickerKind is one port of the Service of an external picker.
	PickerKind
	// PoolKind is an InferencePool.
	PoolKind
	// ImportKind is one exporting cluster of an import in EndpointMode: its pods.
	ImportKind
	// ParentKind is one exporting cluster of an import in ParentMode: its gateways. It differs from
	// ImportKind so that only new routes use a cluster whose mode changes: routes in force would
	// find gateways where they pick pods, or pods where they do not pick.
	ParentKind
	// ImportPickerKind is the remote picker of one exporting cluster of an import.
	ImportPickerKind
	// PeerKind is one exporting cluster of an import in ParentMode: the peer listeners of its
	// gateways. It differs from ParentKind because requests to them have another authority.
	PeerKind
	// MembersKind is an import with several exporting clusters: a hop to each of them.
	MembersKind
	// UDPKind is one port of a Service for datagrams. It is no cluster of Envoy's: its endpoints
	// are among those of a cluster of DatagramKind.
	UDPKind
	// DatagramKind is what a UDP listener sends to: all backends of its route. The object is the
	// Gateway, and Port the listener's.
	DatagramKind
)

// kinds are the kinds in names; FixedKind has none.
var kinds = [...]string{"", "service", "grpc", "tcp", "passthrough", "picker", "pool", "import", "parent",
	"import-picker", "peer", "members", "udp",
	"datagrams"}

// ClusterVariant sets a cluster apart from the plain one of the same object.
type ClusterVariant uint8

// The variants.
const (
	Plain ClusterVariant = iota
	// LastVariant is a pool's cluster that spills no further. Of an exporting cluster's gateways it
	// is the one behind the hop of an import with several clusters: another one serves while the
	// gateways cannot be reached.
	LastVariant
	// HopsVariant is a pool's cluster of hops alone (Pool.ViaHops). Its requests are not picked
	// for, so routes of one kind must not meet a cluster of the other while they change.
	HopsVariant
	// HealthVariant is an external picker's cluster in which the picker's own health service
	// decides which replica is asked. Whether the picker serves health is known only after its
	// first answer.
	HealthVariant
	// ImportedVariant is the cluster of a port of a ServiceImport, with the kind that it would have
	// for a Service.
	ImportedVariant
)

// variants are the variants in names; Plain has none.
var variants = [...]string{"", "last", "hops", "health", "imported"}

// OurPicker is the cluster of Penstock's own picker; it also takes access logs.
var OurPicker = ClusterID{Name: "penstock-picker"}

// Collector is the cluster of the OpenTelemetry collector, where one is configured.
var Collector = ClusterID{Name: "penstock-otlp"}

// ServiceCluster is the cluster of one port of a Service.
func ServiceCluster(namespace, name string, port int32) ClusterID {
	return ClusterID{Kind: ServiceKind, Namespace: namespace, Name: name, Port: port}
}

// GRPCCluster is the cluster of one port of a Service for gRPC.
func GRPCCluster(namespace, name string, port int32) ClusterID {
	return ClusterID{Kind: GRPCKind, Namespace: namespace, Name: name, Port: port}
}

// TCPCluster is the cluster of one port of a Service for connections.
func TCPCluster(namespace, name string, port int32) ClusterID {
	return ClusterID{Kind: TCPKind, Namespace: namespace, Name: name, Port: port}
}

// PickerCluster is the cluster of an external picker's Service.
func PickerCluster(namespace, name string, port int32) ClusterID {
	return ClusterID{Kind: PickerKind, Namespace: namespace, Name: name, Port: port}
}

// PoolCluster is the cluster of an InferencePool.
func PoolCluster(namespace, name string) ClusterID {
	return ClusterID{Kind: PoolKind, Namespace: namespace, Name: name}
}

// ImportCluster is the cluster of the pods of one exporting cluster of an import.
func ImportCluster(namespace, name, member string) ClusterID {
	return ClusterID{Kind: ImportKind, Namespace: namespace, Name: name, Member: member}
}

// ParentCluster is the cluster of the gateways of one exporting cluster of an import.
func ParentCluster(namespace, name, member string) ClusterID {
	return ClusterID{Kind: ParentKind, Namespace: namespace, Name: name, Member: member}
}

// ImportPickerCluster is the cluster of the remote picker of one exporting cluster of an import.
func ImportPickerCluster(namespace, name, member string) ClusterID {
	return ClusterID{Kind: ImportPickerKind, Namespace: namespace, Name: name, Member: member}
}

// PeerCluster is the cluster of the peer listeners of one exporting cluster of an import.
func PeerCluster(namespace, name, member string) ClusterID {
	return ClusterID{Kind: PeerKind, Namespace: namespace, Name: name, Member: member}
}

// MembersCluster is the cluster of hops to the exporting clusters of an import.
func MembersCluster(namespace, name string) ClusterID {
	return ClusterID{Kind: MembersKind, Namespace: namespace, Name: name}
}

// DatagramCluster is the cluster of a UDP listener of a Gateway.
func DatagramCluster(namespace, gateway string, port uint16) ClusterID {
	return ClusterID{Kind: DatagramKind, Namespace: namespace, Name: gateway, Port: int32(port)}
}

// Pool is the pool whose endpoints, gateways or exporting clusters the cluster has; zero if it has
// those of none.
func (id ClusterID) Pool() objectid.Target {
	switch id.Kind {
	case PoolKind:
		return objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name}}
	case ImportKind, ParentKind, PeerKind:
		return objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name}, Member: id.Member}
	case MembersKind:
		return objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name}, Import: true}
	}
	return objectid.Target{}
}

// InAnyConfig is the cluster without its configuration.
func (id ClusterID) InAnyConfig() ClusterID {
	id.Config = 0
	return id
}

// As is a variant of the cluster, in place of the one that it is, in any configuration.
func (id ClusterID) As(v ClusterVariant) ClusterID {
	id.Variant, id.Config = v, 0
	return id
}

// WithKind is the cluster of another kind for the same object.
func (id ClusterID) WithKind(k ClusterKind) ClusterID {
	id.Kind = k
	return id
}

// IsZero reports whether id is no cluster.
func (id ClusterID) IsZero() bool { return id == ClusterID{} }

// Key is the store's key of the object: "namespace/name".
func (id ClusterID) Key() string { return id.Namespace + "/" + id.Name }

// External reports whether the cluster is that of an external picker, in any variant.
func (id ClusterID) External() bool { return id.Kind == PickerKind || id.Kind == ImportPickerKind }

// Imported reports whether the cluster holds the pods of an exporting cluster of an import, and
// names their pool.
func (id ClusterID) Imported() (objectid.Target, bool) {
	if id.Kind != ImportKind || id.Variant == HopsVariant {
		return objectid.Target{}, false
	}
	return objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name}, Member: id.Member}, true
}

// Compare orders IDs by kind, object and the rest.
func (id ClusterID) Compare(o ClusterID) int {
	return cmp.Or(
		cmp.Compare(id.Kind, o.Kind),
		strings.Compare(id.Namespace, o.Namespace),
		strings.Compare(id.Name, o.Name),
		cmp.Compare(id.Port, o.Port),
		strings.Compare(id.Member, o.Member),
		cmp.Compare(id.Variant, o.Variant),
		cmp.Compare(id.Config, o.Config),
	)
}

// hasPort and hasMember report what stands behind the object in the names of a kind.
func (k ClusterKind) hasPort() bool   { return k >= ServiceKind && k <= PickerKind || k >= UDPKind }
func (k ClusterKind) hasMember() bool { return k >= ImportKind && k <= PeerKind }

// String is the cluster's name: "pool/NAMESPACE/NAME", "service/NAMESPACE/NAME/PORT",
// "import/NAMESPACE/NAME/CLUSTER", "members/NAMESPACE/NAME"; with the variant before it,
// "last/pool/NAMESPACE/NAME", and with a subset's member,
// "hops/pool/NAMESPACE/NAME/NAMESPACE.POLICY". Config is behind it,
// "picker/NAMESPACE/NAME/PORT/0f3c". That of the zero ID is "".
func (id ClusterID) String() string {
	var room [96]byte
	b := room[:0]
	if id.Variant != Plain {
		b = append(append(b, variants[id.Variant]...), '/')
	}
	if id.Kind == FixedKind {
		return string(append(b, id.Name...))
	}
	b = append(append(b, kinds[id.Kind]...), '/')
	b = append(append(b, id.Namespace...), '/')
	b = append(b, id.Name...)
	switch {
	case id.Kind.hasPort():
		b = strconv.AppendInt(append(b, '/'), int64(id.Port), 10)
	case id.Kind.hasMember(), id.Member != "":
		b = append(append(b, '/'), id.Member...)
	}
	if id.Config != 0 {
		b = fmt.Appendf(b, "/%04x", id.Config)
	}
	return string(b)
}

// ParseClusterID reads a cluster's name. It accepts exactly the names that String makes; "" is none
// of them.
func ParseClusterID(name string) (ClusterID, bool) {
	var id ClusterID
	kind, rest, more := strings.Cut(name, "/")
	if v := slices.Index(variants[:], kind); v > 0 && more {
		id.Variant = ClusterVariant(v)
		kind, rest, more = strings.Cut(rest, "/")
	}
	if !more {
		id.Name = kind
		return id, kind != ""
	}
	id.Kind = ClusterKind(max(0, slices.Index(kinds[:], kind)))
	var object bool
	if id.Namespace, rest, object = strings.Cut(rest, "/"); id.Kind == FixedKind || !object || id.Namespace == "" {
		return ClusterID{}, false
	}
	id.Name, rest, more = strings.Cut(rest, "/")
	if id.External() {
		var config string
		var some bool
		if rest, config, some = strings.Cut(rest, "/"); some {
			n, err := strconv.ParseUint(config, 16, 16)
			if id.Config = uint16(n); err != nil || n == 0 || config != fmt.Sprintf("%04x", n) {
				return ClusterID{}, false
			}
		}
	}
	switch {
	case id.Kind == MembersKind:
		return id, id.Name != "" && !more
	case id.Name == "" || more != (id.Kind != PoolKind) && (id.Kind != PoolKind || id.Variant != HopsVariant):
		return ClusterID{}, false
	case id.Kind == PoolKind:
		id.Member = rest
		return id, !more || rest != ""
	case id.Kind.hasPort():
		port, err := strconv.ParseInt(rest, 10, 32)
		id.Port = int32(port)
		return id, err == nil && strconv.FormatInt(port, 10) == rest
	case id.Kind.hasMember():
		id.Member = rest
		return id, rest != ""
	}
	return id, true
}

// MarshalText implements encoding.TextMarshaler: the cluster's name.
func (id ClusterID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It fails for a text that is not a cluster's
// name; "" is the zero ID.
func (id *ClusterID) UnmarshalText(text []byte) error {
	parsed, ok := ParseClusterID(string(text))
	if !ok && len(text) > 0 {
		return fmt.Errorf("%q is not the name of a cluster", text)
	}
	*id = parsed
	return nil
}
