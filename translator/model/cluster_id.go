package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// ClusterID identifies an Envoy cluster. The zero ID means no cluster. The struct is small, because
// it is the key of many maps.
type ClusterID struct {
	Namespace, Name string
	// Member is the exporting cluster of an import, or the result of SubsetMember.
	Member  string
	Port    int32 // of a Service; 0 for other kinds
	Kind    ClusterKind
	Variant ClusterVariant
	// Config is a hash of the configuration of an external picker's cluster, without endpoints and
	// the Gateway's certificate. For other kinds it is 0. When a cluster changes, Envoy ends all
	// its calls in flight, and a call to a picker lasts as long as its request. So a new
	// configuration gets a new cluster.
	Config uint16
}

// PickerEncoding is part of the hash in ClusterID.Config. Increase it with each change to how
// package envoy encodes external pickers' clusters; a test checks this.
const PickerEncoding = 2

// ClusterKind is the kind of object behind a cluster and, for a Service, the protocol.
type ClusterKind uint8

const (
	// FixedKind is for IDs that have only a Name.
	FixedKind ClusterKind = iota
	// ServiceKind is a Service's port with the protocol that its appProtocol names.
	ServiceKind
	// GRPCKind is a Service's port for gRPC. Its appProtocol is ignored.
	GRPCKind
	// TCPKind is a Service's port for connections that arrive without TLS, or whose TLS ends at the
	// listener. A BackendTLSPolicy can add TLS.
	TCPKind
	// PassthroughKind is a Service's port for TLS connections that Envoy does not decrypt. No
	// policy changes them.
	PassthroughKind
	// PickerKind is a port of an external picker's Service.
	PickerKind
	PoolKind
	// ImportKind is for an exporting cluster's pods, in EndpointMode.
	ImportKind
	// ParentKind is for an exporting cluster's gateways, in ParentMode. The kind differs from
	// ImportKind, so that a change of the mode affects only new routes.
	ParentKind
	// ImportPickerKind is for the picker of an exporting cluster of an import.
	ImportPickerKind
	// PeerKind is for an exporting cluster's gateways that take requests over mTLS (PeerListener).
	// These requests have the authority of PeerAuthority.
	PeerKind
	// MembersKind is for the hops to the exporting clusters of an import.
	MembersKind
	// UDPKind is a Service's port for datagrams. Envoy has no such cluster: its endpoints are part
	// of a cluster of DatagramKind.
	UDPKind
	// DatagramKind is the target of a UDP listener, with the endpoints of all backends of its
	// route. Namespace and Name are the Gateway's, and Port is the listener's port.
	DatagramKind
)

var kinds = [...]string{"", "service", "grpc", "tcp", "passthrough", "picker", "pool", "import", "parent",
	"import-picker", "peer", "members", "udp",
	"datagrams"}

// ClusterVariant distinguishes clusters of the same object.
type ClusterVariant uint8

const (
	Plain ClusterVariant = iota
	// LastVariant is the Envoy cluster to which a hop forwards. Its endpoints are a pool's own
	// servers, without hops to spill targets, or the gateways of an exporting member.
	LastVariant
	// HopsVariant is a pool's cluster that has only hops, and no picker (Pool.ViaHops).
	HopsVariant
	// HealthVariant is the cluster of an external picker that has a gRPC health service. The
	// picker's first answer shows whether it has the service.
	HealthVariant
	// ImportedVariant is the cluster of a ServiceImport's port.
	ImportedVariant
)

var variants = [...]string{"", "last", "hops", "health", "imported"}

// OurPicker is Penstock's own picker, which also receives access logs.
var OurPicker = ClusterID{Name: "penstock-picker"}

// OurGate is Penstock's authorization service, on the picker's port. Its calls have other timeouts
// than calls to the picker.
var OurGate = ClusterID{Name: "penstock-gate"}

// Collector is the OpenTelemetry collector.
var Collector = ClusterID{Name: "penstock-otlp"}

// ServiceCluster returns the ID for a Service's port.
func ServiceCluster(namespace, name string, port int32) ClusterID {
	return ClusterID{Kind: ServiceKind, Namespace: namespace, Name: name, Port: port}
}

// GRPCCluster returns the ID for a Service's gRPC port.
func GRPCCluster(namespace, name string, port int32) ClusterID {
	return ClusterID{Kind: GRPCKind, Namespace: namespace, Name: name, Port: port}
}

// PickerCluster returns the ID for an external picker's Service.
func PickerCluster(namespace, name string, port int32) ClusterID {
	return ClusterID{Kind: PickerKind, Namespace: namespace, Name: name, Port: port}
}

// PoolCluster returns the ID for an InferencePool.
func PoolCluster(namespace, name string) ClusterID {
	return ClusterID{Kind: PoolKind, Namespace: namespace, Name: name}
}

// ImportCluster returns the ID for an exporting cluster's pods.
func ImportCluster(namespace, name, member string) ClusterID {
	return ClusterID{Kind: ImportKind, Namespace: namespace, Name: name, Member: member}
}

// ParentCluster returns the ID for an exporting cluster's gateways.
func ParentCluster(namespace, name, member string) ClusterID {
	return ClusterID{Kind: ParentKind, Namespace: namespace, Name: name, Member: member}
}

// ImportPickerCluster returns the ID for an exporting cluster's picker.
func ImportPickerCluster(namespace, name, member string) ClusterID {
	return ClusterID{Kind: ImportPickerKind, Namespace: namespace, Name: name, Member: member}
}

// PeerCluster returns the ID for an exporting cluster's peer listeners.
func PeerCluster(namespace, name, member string) ClusterID {
	return ClusterID{Kind: PeerKind, Namespace: namespace, Name: name, Member: member}
}

// MembersCluster returns the ID for the hops to an import's exporting clusters.
func MembersCluster(namespace, name string) ClusterID {
	return ClusterID{Kind: MembersKind, Namespace: namespace, Name: name}
}

// DatagramCluster returns the ID for a Gateway's UDP listener.
func DatagramCluster(namespace, gateway string, port uint16) ClusterID {
	return ClusterID{Kind: DatagramKind, Namespace: namespace, Name: gateway, Port: int32(port)}
}

// Pool returns the pool or import that the cluster's endpoints serve; zero for other kinds.
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

// InAnyConfig returns the ID without Config.
func (id ClusterID) InAnyConfig() ClusterID {
	id.Config = 0
	return id
}

// As returns the ID of another variant of the cluster, without Config.
func (id ClusterID) As(v ClusterVariant) ClusterID {
	id.Variant, id.Config = v, 0
	return id
}

// WithKind returns the ID of another kind for the same object.
func (id ClusterID) WithKind(k ClusterKind) ClusterID {
	id.Kind = k
	return id
}

// IsZero reports whether id is the zero ID.
func (id ClusterID) IsZero() bool { return id == ClusterID{} }

// Key returns the store key of the object.
func (id ClusterID) Key() string { return id.Namespace + "/" + id.Name }

// External reports whether the cluster belongs to an external picker.
func (id ClusterID) External() bool { return id.Kind == PickerKind || id.Kind == ImportPickerKind }

// Imported returns the pool of an exporting cluster's pods, or false for other clusters.
func (id ClusterID) Imported() (objectid.Target, bool) {
	if id.Kind != ImportKind || id.Variant == HopsVariant {
		return objectid.Target{}, false
	}
	return objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name}, Member: id.Member}, true
}

// Compare orders IDs by kind, then object, then the other fields.
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

func (k ClusterKind) hasPort() bool   { return k >= ServiceKind && k <= PickerKind || k >= UDPKind }
func (k ClusterKind) hasMember() bool { return k >= ImportKind && k <= PeerKind }

// String returns the cluster's name: "pool/NAMESPACE/NAME", "service/NAMESPACE/NAME/PORT",
// "import/NAMESPACE/NAME/CLUSTER" or "members/NAMESPACE/NAME". A variant precedes the name:
// "last/pool/NAMESPACE/NAME". A Member or Config follows: "hops/pool/NAMESPACE/NAME/MEMBER",
// "picker/NAMESPACE/NAME/PORT/0f3c".
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

// ParseClusterID accepts exactly the names that String returns for nonzero IDs.
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

// MarshalText implements encoding.TextMarshaler.
func (id ClusterID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; "" yields the zero ID.
func (id *ClusterID) UnmarshalText(text []byte) error {
	parsed, ok := ParseClusterID(string(text))
	if !ok && len(text) > 0 {
		return fmt.Errorf("%q is not the name of a cluster", text)
	}
	*id = parsed
	return nil
}
