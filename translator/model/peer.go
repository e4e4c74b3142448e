package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// PeerListener is a Gateway's listener for members of the cluster set.
type PeerListener struct {
	Port
	Cluster string // this cluster
}

// PeerHost is a pool of this cluster at a peer listener. Only requests of Members pass.
type PeerHost struct {
	Host    string // result of PeerAuthority
	Members []string
	// Gated is set if AccessPolicies decided about Members, too.
	Gated bool
	// Believed has, for members, the parts of a caller's identity that they may state: the values
	// of v1alpha1.Identity.
	Believed map[string][]string
	Backends []WeightedBackend
	Owners   []report.Ref
}

// PeerDomain is the suffix of authorities at peer listeners.
const PeerDomain = "pool.penstock"

// maxHost limits the length of a host name (RFC 1035, 2.3.4).
const maxHost = 253

// PeerAuthority returns the server name and authority of a pool at a cluster's peer listeners:
// "NAME.NAMESPACE.CLUSTER.pool.penstock". If it is too long, a hash replaces the end of the pool's
// name.
func PeerAuthority(namespace, name, cluster string) string {
	rest := "." + namespace + "." + cluster + "." + PeerDomain
	if most := maxHost - len(rest); len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = strings.TrimRight(name[:most-17], "-.") + "-" + hex.EncodeToString(sum[:8])
	}
	return name + rest
}

// GatewayURI returns the SPIFFE ID of a cluster's Gateways. The control plane has another ID, so a
// proxy's key cannot act for the cluster.
func GatewayURI(cluster string) string { return "spiffe://" + cluster + "/gateway" }

// PeerChain names a peer listener's filter chain and route configuration.
func PeerChain(port uint16) string { return fmt.Sprintf("%s/%d", SchemePeer, port) }

const (
	// MemberCertificate is the SDS name of the Gateways' certificate for members.
	MemberCertificate = "member/gateway"
	memberTrust       = "trust/member/"
	// MembersTrust is the SDS name of all members' trust domains.
	MembersTrust = "trust/members"
)

// MemberTrust returns the SDS name of a member's CA certificates, which verify the member's
// Gateways.
func MemberTrust(member string) string { return memberTrust + member }

// ParseMemberTrust returns the member of a MemberTrust.
func ParseMemberTrust(name string) (member string, ok bool) {
	return strings.CutPrefix(name, memberTrust)
}

// TrustDomain is a cluster whose Gateways are trusted. Bundle has CA certificates, in PEM, which
// verify only IDs of this cluster.
type TrustDomain struct {
	Name   string
	Bundle []byte
}
