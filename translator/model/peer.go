package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// PeerListener is a Gateway's listener for requests from other members of the cluster set.
type PeerListener struct {
	Port
	Cluster string // name of this cluster
}

// PeerHost is the virtual host of a pool of this cluster at a peer listener. Only requests from
// Members are permitted.
type PeerHost struct {
	Host    string // result of PeerAuthority
	Members []string
	// Gated is set if AccessPolicies restrict Members further.
	Gated bool
	// Believed lists, for each member, the parts of a caller's identity that the member may state
	// (v1alpha1.Identity).
	Believed map[string][]string
	Backends []WeightedBackend
	Owners   []report.Ref
}

// PeerDomain is the suffix of authorities at peer listeners.
const PeerDomain = "pool.penstock"

// maxHost is the maximum length of a host name (RFC 1035, 2.3.4).
const maxHost = 253

// PeerAuthority returns the server name and authority of a pool at a cluster's peer listeners:
// "NAME.NAMESPACE.CLUSTER.pool.penstock". If the result is too long, a hash replaces the end of the
// pool's name.
func PeerAuthority(namespace, name, cluster string) string {
	rest := "." + namespace + "." + cluster + "." + PeerDomain
	if most := maxHost - len(rest); len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = strings.TrimRight(name[:most-17], "-.") + "-" + hex.EncodeToString(sum[:8])
	}
	return name + rest
}

// GatewayURI returns the SPIFFE ID of a cluster's Gateways. The control plane has another ID, so a
// proxy's key cannot act as the control plane.
func GatewayURI(cluster string) string { return "spiffe://" + cluster + "/gateway" }

// PeerChain returns the name of a peer listener's filter chain and route configuration.
func PeerChain(port uint16) string { return fmt.Sprintf("%s/%d", SchemePeer, port) }

const (
	// MemberCertificate is the SDS name of the certificate that Gateways present to other members.
	MemberCertificate = "member/gateway"
	memberTrust       = "trust/member/"
	// MembersTrust is the SDS name of the trust domains of all members.
	MembersTrust = "trust/members"
)

// MemberTrust returns the SDS name of the CA certificates that verify a member's Gateways.
func MemberTrust(member string) string { return memberTrust + member }

// ParseMemberTrust returns the argument of MemberTrust; ok is false for other names.
func ParseMemberTrust(name string) (member string, ok bool) {
	return strings.CutPrefix(name, memberTrust)
}

// TrustDomain is a cluster whose Gateways are trusted. Bundle has CA certificates, in PEM, which
// verify only SPIFFE IDs of this cluster.
type TrustDomain struct {
	Name   string
	Bundle []byte
}
