package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Names of Envoy's listeners, filter chains and secrets. Object names have no '/', and namespaces
// no '.', so each name can be read back; only this package does. Clusters, hops and pools have
// types of their own.

// Scheme names what a filter chain takes.
type Scheme string

// The schemes.
const (
	SchemeHTTP  Scheme = "http"
	SchemeHTTPS Scheme = "https"
	SchemeTCP   Scheme = "tcp"
	SchemeTLS   Scheme = "tls"
	SchemeUDP   Scheme = "udp"
	SchemePeer  Scheme = "peer" // requests of members of the cluster set, over mTLS
)

// ChainName is the name of a filter chain of requests and of its route configuration: "http/80",
// "https/443/*.example.com".
func ChainName(tls bool, port uint16, hostname string) string {
	if !tls {
		return fmt.Sprintf("http/%d", port)
	}
	return fmt.Sprintf("https/%d/%s", port, hostname)
}

// StreamName is the name of a filter chain that hands connections on: "tcp/5432", or
// "tls/443/db.example.com" for one server name of the TLS listeners of a port.
func StreamName(tls bool, port uint16, host string) string {
	if !tls {
		return fmt.Sprintf("tcp/%d", port)
	}
	return fmt.Sprintf("tls/%d/%s", port, host)
}

// DatagramName is the name of what hands the datagrams of a port on: "udp/53".
func DatagramName(port uint16) string { return fmt.Sprintf("udp/%d", port) }

// ParseChain reads scheme and port of a name that ChainName, StreamName, DatagramName or PeerChain
// made; false for any other, as of hops.
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

// ListenerKey is what a listener is known as in its Gateway: its name, or "NAMESPACE/SET/NAME" in a
// ListenerSet.
func ListenerKey(set report.Ref, name string) string {
	if set.Kind != "ListenerSet" {
		return name
	}
	return set.Namespace + "/" + set.Name + "/" + name
}

// Socket is a port that Envoy binds: TCP and UDP have ports of their own.
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

// String is the socket for people: "53", "53/UDP".
func (s Socket) String() string {
	if s.UDP {
		return fmt.Sprintf("%d/UDP", s.Port)
	}
	return strconv.Itoa(int(s.Port))
}

// Listener is the name of Envoy's listener for a socket: "listener/80", "listener/udp/53".
func (s Socket) Listener() string {
	if s.UDP {
		return fmt.Sprintf("listener/udp/%d", s.Port)
	}
	return ListenerName(s.Port)
}

// ListenerName is the name of Envoy's listener for a port of TCP.
func ListenerName(port uint16) string { return fmt.Sprintf("listener/%d", port) }

// ParseListenerName reads the socket back from the name of its listener; false for any other name,
// as of hops.
func ParseListenerName(name string) (s Socket, ok bool) {
	text, ok := strings.CutPrefix(name, "listener/")
	text, s.UDP = strings.CutPrefix(text, "udp/")
	port, valid := parsePort(text)
	s.Port = port
	return s, ok && valid
}

// SecretKind is what an SDS secret holds.
type SecretKind string

// The kinds of secrets.
const (
	// CertificateSecret is the certificate and key of a Kubernetes Secret.
	CertificateSecret SecretKind = "secret"
	// PolicyTrustSecret is the CA certificates of a BackendTLSPolicy.
	PolicyTrustSecret SecretKind = "trust/policy"
	// GatewayTrustSecret is the CA certificates by which a Gateway verifies the clients of a port.
	GatewayTrustSecret SecretKind = "trust/gateway"
)

// SecretID identifies an SDS secret that is made from an object.
type SecretID struct {
	Kind            SecretKind
	Namespace, Name string
	Port            uint16 // of GatewayTrustSecret; 0 for ports without CA certificates of their own
}

// String is the SDS name.
func (id SecretID) String() string {
	name := string(id.Kind) + "/" + id.Namespace + "/" + id.Name
	if id.Kind == GatewayTrustSecret {
		name += "/" + strconv.Itoa(int(id.Port))
	}
	return name
}

// ParseSecretID reads an SDS name; false for OwnTrust, OwnKey, those of members and any text that
// String does not make.
func ParseSecretID(name string) (SecretID, bool) {
	for _, kind := range []SecretKind{CertificateSecret, PolicyTrustSecret, GatewayTrustSecret} {
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

// SecretName is the SDS name of a Kubernetes Secret's certificate.
func SecretName(namespace, name string) string {
	return SecretID{Kind: CertificateSecret, Namespace: namespace, Name: name}.String()
}

// OwnTrust and OwnKey are the SDS names of the certificates by which proxies verify Penstock's own
// services, and of the key that proxies present to them.
const (
	OwnTrust = "trust/own"
	OwnKey   = "key/own"
)

// PolicyTrust is the SDS name of the CA certificates of a BackendTLSPolicy.
func PolicyTrust(namespace, name string) string {
	return SecretID{Kind: PolicyTrustSecret, Namespace: namespace, Name: name}.String()
}

// GatewayTrust is the SDS name of the CA certificates by which a Gateway verifies its clients on a
// port; port 0 is for those that have none of their own.
func GatewayTrust(namespace, name string, port uint16) string {
	return SecretID{Kind: GatewayTrustSecret, Namespace: namespace, Name: name, Port: port}.String()
}
