package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Object names have no '/', and namespaces no '.', so each name of a listener, filter chain or
// secret can be parsed.

// Scheme is a filter chain's kind of traffic.
type Scheme string

const (
	SchemeHTTP  Scheme = "http"
	SchemeHTTPS Scheme = "https"
	SchemeTCP   Scheme = "tcp"
	SchemeTLS   Scheme = "tls"
	SchemeUDP   Scheme = "udp"
	SchemePeer  Scheme = "peer" // from members of the cluster set, over mTLS
)

// ChainName names a filter chain for requests: "http/80", "https/443/*.example.com".
func ChainName(tls bool, port uint16, hostname string) string {
	if !tls {
		return fmt.Sprintf("http/%d", port)
	}
	return fmt.Sprintf("https/%d/%s", port, hostname)
}

// filterGeneration ends the names of route configurations. It changes when the filter list gets a
// filter that acts unless routes switch it off, because routes of an earlier release do not switch
// it off. After a rollback, a filter chain of this release keeps its last routes until it has
// drained: the earlier release has no routes of that name. Names before generation 2 have no
// suffix.
const filterGeneration = "~2"

// RoutesName names the route configuration of a filter chain: "http/80~2".
func RoutesName(chain string) string { return chain + filterGeneration }

// ChainOfRoutes returns the filter chain of a route configuration.
func ChainOfRoutes(name string) string { return strings.TrimSuffix(name, filterGeneration) }

// StreamName names a filter chain for connections: "tcp/5432", "tls/443/db.example.com".
func StreamName(tls bool, port uint16, host string) string {
	if !tls {
		return fmt.Sprintf("tcp/%d", port)
	}
	return fmt.Sprintf("tls/%d/%s", port, host)
}

// DatagramName names a UDP port's stream: "udp/53".
func DatagramName(port uint16) string { return fmt.Sprintf("udp/%d", port) }

// ParseChain returns scheme and port of a filter chain's name, or false for another text.
func ParseChain(name string) (Scheme, uint16, bool) {
	scheme, rest, ok := strings.Cut(name, "/")
	number, host, named := strings.Cut(rest, "/")
	port, valid := parsePort(number)
	switch s := Scheme(scheme); s {
	case SchemeHTTP, SchemeTCP, SchemeUDP, SchemePeer:
		return s, port, ok && valid && !named
	case SchemeHTTPS, SchemeTLS:
		return s, port, ok && valid && host != ""
	}
	return "", 0, false
}

func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && strconv.FormatUint(n, 10) == text
}

// ListenerKey returns a listener's unique key in its Gateway: its name, or "NAMESPACE/SET/NAME" in
// a ListenerSet.
func ListenerKey(set report.Ref, name string) string {
	if set.Kind != "ListenerSet" {
		return name
	}
	return set.Namespace + "/" + set.Name + "/" + name
}

// Socket is a port that Envoy binds.
type Socket struct {
	UDP  bool
	Port uint16
}

// Compare orders sockets by port, TCP first.
func (s Socket) Compare(o Socket) int {
	if c := cmp.Compare(s.Port, o.Port); c != 0 || s.UDP == o.UDP {
		return c
	}
	if s.UDP {
		return 1
	}
	return -1
}

// String formats the socket for messages: "53", "53/UDP".
func (s Socket) String() string {
	if s.UDP {
		return fmt.Sprintf("%d/UDP", s.Port)
	}
	return strconv.Itoa(int(s.Port))
}

// Listener names the socket's Envoy listener: "listener/80", "listener/udp/53".
func (s Socket) Listener() string {
	if s.UDP {
		return fmt.Sprintf("listener/udp/%d", s.Port)
	}
	return ListenerName(s.Port)
}

// ListenerName names the Envoy listener of a TCP port.
func ListenerName(port uint16) string { return fmt.Sprintf("listener/%d", port) }

// ParseListenerName parses an Envoy listener's name, or returns false.
func ParseListenerName(name string) (s Socket, ok bool) {
	text, ok := strings.CutPrefix(name, "listener/")
	text, s.UDP = strings.CutPrefix(text, "udp/")
	port, valid := parsePort(text)
	s.Port = port
	return s, ok && valid
}

// SecretKind is the kind of an SDS secret's content.
type SecretKind string

const (
	// CertificateSecret is a Kubernetes Secret's certificate and key.
	CertificateSecret SecretKind = "secret"
	// PolicyTrustSecret holds the CA certificates of a BackendTLSPolicy.
	PolicyTrustSecret SecretKind = "trust/policy"
	// GatewayTrustSecret holds the CA certificates by which a Gateway verifies clients.
	GatewayTrustSecret SecretKind = "trust/gateway"
	// CredentialSecret is the key of a PoolPolicy for the pool's servers.
	CredentialSecret SecretKind = "credential"
)

// SecretID identifies an SDS secret of an object.
type SecretID struct {
	Kind            SecretKind
	Namespace, Name string
	Port            uint16 // 0: for all ports that have no CA certificates of their own
}

// String returns the SDS name.
func (id SecretID) String() string {
	name := string(id.Kind) + "/" + id.Namespace + "/" + id.Name
	if id.Kind == GatewayTrustSecret {
		name += "/" + strconv.Itoa(int(id.Port))
	}
	return name
}

// ParseSecretID parses an SDS name, or returns false.
func ParseSecretID(name string) (SecretID, bool) {
	for _, kind := range []SecretKind{CertificateSecret, PolicyTrustSecret, GatewayTrustSecret,
		CredentialSecret} {
		rest, ok := strings.CutPrefix(name, string(kind)+"/")
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		id := SecretID{Kind: kind}
		if kind == GatewayTrustSecret {
			if len(parts) != 3 {
				return SecretID{}, false
			}
			if id.Port, ok = parsePort(parts[2]); !ok {
				return SecretID{}, false
			}
			parts = parts[:2]
		}
		if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
			return SecretID{}, false
		}
		id.Namespace, id.Name = parts[0], parts[1]
		return id, true
	}
	return SecretID{}, false
}

// SecretName returns the SDS name of a Kubernetes Secret's certificate.
func SecretName(namespace, name string) string {
	return SecretID{Kind: CertificateSecret, Namespace: namespace, Name: name}.String()
}

// OwnTrust and OwnKey are the SDS names of the CAs for Penstock's services, and of the key that
// proxies present to them.
const (
	OwnTrust = "trust/own"
	OwnKey   = "key/own"
)

// PolicyTrust returns the SDS name of a BackendTLSPolicy's CA certificates.
func PolicyTrust(namespace, name string) string {
	return SecretID{Kind: PolicyTrustSecret, Namespace: namespace, Name: name}.String()
}

// GatewayTrust returns the SDS name of the CAs for clients on a port (SecretID.Port).
func GatewayTrust(namespace, name string, port uint16) string {
	return SecretID{Kind: GatewayTrustSecret, Namespace: namespace, Name: name, Port: port}.String()
}
