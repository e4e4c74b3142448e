package model

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Names of Envoy resources. Object names have no '/', and namespaces no '.', so each name can be read back.

// OurPicker is the cluster of Penstock's own picker; it also takes access logs.
const OurPicker = "penstock-picker"

// Collector is the cluster of the OpenTelemetry collector, where one is configured.
const Collector = "penstock-otlp"

// ChainName is the name of a filter chain of requests and of its route configuration: "http/80",
// "https/443/*.example.com".
func ChainName(tls bool, port uint16, hostname string) string {
	if !tls {
		return fmt.Sprintf("http/%d", port)
	}
	return fmt.Sprintf("https/%d/%s", port, hostname)
}

// StreamName is the name of a filter chain that hands connections on: "tcp/5432", or "tls/443/db.example.com" for one
// server name of the TLS listeners of a port.
func StreamName(tls bool, port uint16, host string) string {
	if !tls {
		return fmt.Sprintf("tcp/%d", port)
	}
	return fmt.Sprintf("tls/%d/%s", port, host)
}

// ListenerKey is what a listener is known as in its Gateway: its name, or "NAMESPACE/SET/NAME" in a ListenerSet.
func ListenerKey(set report.Ref, name string) string {
	if set.Kind != "ListenerSet" {
		return name
	}
	return set.Namespace + "/" + set.Name + "/" + name
}

// ListenerName is the name of Envoy's listener for a port.
func ListenerName(port uint16) string { return fmt.Sprintf("listener/%d", port) }

// ServiceCluster is the cluster of one port of a Service.
func ServiceCluster(namespace, name string, port int32) string {
	return fmt.Sprintf("service/%s/%s/%d", namespace, name, port)
}

// GRPCCluster is the cluster of one port of a Service that is spoken to in gRPC, and so in HTTP/2, whatever the port's
// appProtocol says.
func GRPCCluster(namespace, name string, port int32) string {
	return fmt.Sprintf("grpc/%s/%s/%d", namespace, name, port)
}

// TCPCluster is the cluster of one port of a Service for connections that come without TLS, or whose TLS has ended at the
// listener: a BackendTLSPolicy has it begin TLS anew.
func TCPCluster(namespace, name string, port int32) string {
	return fmt.Sprintf("tcp/%s/%s/%d", namespace, name, port)
}

// PassthroughCluster is the TCPCluster for connections that are TLS already, which no policy changes.
func PassthroughCluster(tcpCluster string) string {
	return "passthrough/" + strings.TrimPrefix(tcpCluster, "tcp/")
}

// PickerCluster is the cluster of an external picker's Service.
func PickerCluster(namespace, name string, port int32) string {
	return fmt.Sprintf("picker/%s/%s/%d", namespace, name, port)
}

// PoolCluster is the cluster of an InferencePool.
func PoolCluster(namespace, name string) string { return "pool/" + namespace + "/" + name }

// ImportCluster is the cluster of one exporting cluster of an import: its pods.
func ImportCluster(namespace, name, member string) string {
	return "import/" + namespace + "/" + name + "/" + member
}

// ParentCluster is the same where its gateways are asked (ParentMode). It is another cluster, so that one whose mode changes is taken
// by new routes only: those in force would find pods where they do not pick, or gateways where they do.
func ParentCluster(namespace, name, member string) string {
	return "parent/" + namespace + "/" + name + "/" + member
}

// ImportPickerCluster is the cluster of the remote picker of one exporting cluster of an import.
func ImportPickerCluster(namespace, name, member string) string {
	return "import-picker/" + namespace + "/" + name + "/" + member
}

// HealthCluster is the name of the variant of an external picker's cluster in which the picker itself says whether it is the one to
// ask. It is another cluster because Envoy cuts every call that is under way through a cluster that changes, and which of the two is
// right is only known once the picker was heard.
func HealthCluster(picker string) string { return "health/" + picker }

// IsExternalPicker says whether a cluster is that of a picker that is not ours; not of its HealthCluster.
func IsExternalPicker(cluster string) bool {
	return strings.HasPrefix(cluster, "picker/") || strings.HasPrefix(cluster, "import-picker/")
}

// LastCluster is the name of the variant of a pool's cluster that spills no further.
func LastCluster(cluster string) string { return "last/" + cluster }

// HopsCluster is the name of the variant of a pool's cluster that holds hops alone (Pool.ViaHops). It is another cluster
// because its requests are not picked for: routes of one kind must not meet a cluster of the other while they change.
func HopsCluster(cluster string) string { return "hops/" + cluster }

// BaseCluster is the cluster of which a name is a variant, or the name itself; last says that it is LastCluster.
func BaseCluster(name string) (base string, last bool) {
	base, last = strings.CutPrefix(name, LastCluster(""))
	return strings.TrimPrefix(strings.TrimPrefix(base, HopsCluster("")), HealthCluster("")), last
}

// HopName is the internal listener in front of a pool or an import: "hop.NAMESPACE.pool.NAME"; that of one exporting cluster
// ends in "NAME@CLUSTER". It has no '/', because a picker names it as envoy://HOP/.
func HopName(kind, namespace, name string) string {
	k := "pool"
	if kind == "InferencePoolImport" {
		k = "import"
	}
	return "hop." + namespace + "." + k + "." + name
}

// HopAddress is how a picker names a hop in its list. Envoy compares the text exactly.
func HopAddress(hop string) string { return "envoy://" + hop + "/" }

// PoolName is what our picker knows a pool as: "namespace/name", or "namespace/name@cluster" for an import's.
func PoolName(namespace, name, member string) string {
	if member == "" {
		return namespace + "/" + name
	}
	return namespace + "/" + name + "@" + member
}

// SecretName is the SDS name of a Kubernetes Secret's certificate.
func SecretName(namespace, name string) string { return "secret/" + namespace + "/" + name }

// OwnTrust and OwnKey are the SDS names of the certificates by which proxies know Penstock's own services, and of the key that
// they show them.
const (
	OwnTrust = "trust/own"
	OwnKey   = "key/own"
)

// PolicyTrust is the SDS name of the CA certificates of a BackendTLSPolicy.
func PolicyTrust(namespace, name string) string { return "trust/policy/" + namespace + "/" + name }

// GatewayTrust is the SDS name of the CA certificates by which a Gateway knows its clients on a port; port 0 is for those
// that have none of their own.
func GatewayTrust(namespace, name string, port uint16) string {
	return fmt.Sprintf("trust/gateway/%s/%s/%d", namespace, name, port)
}

// SplitName cuts a resource name into its parts, the kind first.
func SplitName(name string) []string { return strings.Split(name, "/") }

// PortOf reads the port at the end of a name's parts; 0 if there is none.
func PortOf(parts []string) int32 {
	n, _ := strconv.ParseInt(parts[len(parts)-1], 10, 32)
	return int32(n)
}
