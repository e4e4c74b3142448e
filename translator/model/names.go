package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// In Kubernetes, object names contain no '/', and namespaces no '.'. So the names of listeners,
// filter chains and secrets that this file makes can be parsed.

// Scheme is the kind of traffic of a filter chain.
type Scheme string

const (
	SchemeHTTP  Scheme = "http"
	SchemeHTTPS Scheme = "https"
	SchemeTCP   Scheme = "tcp"
	SchemeTLS   Scheme = "tls"
	SchemeUDP   Scheme = "udp"
	SchemePeer  Scheme = "peer" // from members of the cluster set, over mTLS
)

// ChainName returns the name of a filter chain for HTTP: "http/80", "https/443/*.example.com".
func ChainName(tls bool, port uint16, hostname string) string {
	if !tls {
		return fmt.Sprintf("http/%d", port)
	}
	return fmt.Sprintf("https/%d/%s", port, hostname)
}

// filterGeneration is the suffix of route configurations' names since generation 2. It changes when
// a release adds an HTTP filter that routes must disable explicitly, because routes of an earlier
// release do not disable it. After a rollback, a filter chain of this release keeps its last routes
// until it has drained: the earlier release sends no routes of that name.
const filterGeneration = "~2"

// RoutesName returns the name of a filter chain's route configuration: "http/80~2".
func RoutesName(chain string) string { return chain + filterGeneration }

// ChainOfRoutes returns the filter chain of a RoutesName.
func ChainOfRoutes(name string) string { return strings.TrimSuffix(name, filterGeneration) }

// StreamName returns the name of a filter chain for connections: "tcp/5432",
// "tls/443/db.example.com".
func StreamName(tls bool, port uint16, host string) string {
	if !tls {
		return fmt.Sprintf("tcp/%d", port)
	}
	return fmt.Sprintf("tls/%d/%s", port, host)
}

// DatagramName returns the name of a UDP port's Stream: "udp/53".
func DatagramName(port uint16) string { return fmt.Sprintf("udp/%d", port) }

// ParseChain returns scheme and port of a filter chain's name; ok is false for other strings.
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

// ListenerKey returns a listener's key, unique in its Gateway: the listener's name or, in a
// ListenerSet, "NAMESPACE/SET/NAME".
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

// String returns the socket for messages: "53", "53/UDP".
func (s Socket) String() string {
	if s.UDP {
		return fmt.Sprintf("%d/UDP", s.Port)
	}
	return strconv.Itoa(int(s.Port))
}

// Listener returns the name of the socket's Envoy listener: "listener/80", "listener/udp/53".
func (s Socket) Listener() string {
	if s.UDP {
		return fmt.Sprintf("listener/udp/%d", s.Port)
	}
	return ListenerName(s.Port)
}

// ListenerName returns the name of a TCP port's Envoy listener.
func ListenerName(port uint16) string { return fmt.Sprintf("listener/%d", port) }

// ParseListenerName parses the result of Socket.Listener.
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
	// CertificateSecret is a Kubernetes Secret's certificate with its key.
	CertificateSecret SecretKind = "secret"
	// PolicyTrustSecret has the CA certificates of a BackendTLSPolicy.
	PolicyTrustSecret SecretKind = "trust/policy"
	// GatewayTrustSecret has the CA certificates with which a Gateway verifies clients.
	GatewayTrustSecret SecretKind = "trust/gateway"
	// CredentialSecret is the key of a PoolPolicy for the pool's servers.
	CredentialSecret SecretKind = "credential"
)

// SecretID identifies an SDS secret of an object.
type SecretID struct {
	Kind            SecretKind
	Namespace, Name string
	Port            uint16 // for GatewayTrustSecret; 0: for all ports without CA certificates of their own
}

// String returns the SDS name.
func (id SecretID) String() string {
	name := string(id.Kind) + "/" + id.Namespace + "/" + id.Name
	if id.Kind == GatewayTrustSecret {
		name += "/" + strconv.Itoa(int(id.Port))
	}
	return name
}

// ParseSecretID parses the result of SecretID.String.
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

// OwnTrust is the SDS name of the CAs with which proxies verify Penstock's own services. OwnKey is
// the SDS name of the key that proxies present to these services.
const (
	OwnTrust = "trust/own"
	OwnKey   = "key/own"
)

// PolicyTrust returns the SDS name of a BackendTLSPolicy's CA certificates.
func PolicyTrust(namespace, name string) string {
	return SecretID{Kind: PolicyTrustSecret, Namespace: namespace, Name: name}.String()
}

// GatewayTrust returns the SDS name of the CAs for clients on a port; for port 0 see SecretID.Port.
func GatewayTrust(namespace, name string, port uint16) string {
	return SecretID{Kind: GatewayTrustSecret, Namespace: namespace, Name: name, Port: port}.String()
}
