package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// PeerListener is what a Gateway binds for the members of the cluster set (ClusterSetPeerListener).
// It does not depend on what is exported, and not on who the members are.
type PeerListener struct {
	Port
	Cluster string // this cluster
}

// PeerHost is a pool of this cluster as members reach it at a peer listener. Members are the names
// of those that may; none: no request passes.
type PeerHost struct {
	Host     string // PeerAuthority
	Members  []string
	Backends []WeightedBackend
	Owners   []report.Ref
}

// PeerDomain ends the authorities at peer listeners.
const PeerDomain = "pool.penstock"

// maxHost bounds the name of a host (RFC 1035, 2.3.4).
const maxHost = 253

// PeerAuthority is server name and authority of a pool at the peer listeners of a cluster:
// "NAME.NAMESPACE.CLUSTER.pool.penstock". No two pools have the same: neither namespaces nor
// clusters have a dot. A pool whose name is too long for that has a hash in place of the name's
// end.
func PeerAuthority(namespace, name, cluster string) string {
	rest := "." + namespace + "." + cluster + "." + PeerDomain
	if most := maxHost - len(rest); len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = strings.TrimRight(name[:most-17], "-.") + "-" + hex.EncodeToString(sum[:8])
	}
	return name + rest
}

// GatewayURI is the SPIFFE ID of a cluster's Gateways. Their control plane has another one, so that
// no proxy's key speaks for a cluster.
func GatewayURI(cluster string) string { return "spiffe://" + cluster + "/gateway" }

// PeerChain is the name of the filter chain and of the route configuration of a peer listener.
func PeerChain(port uint16) string { return fmt.Sprintf("%s/%d", SchemePeer, port) }

const (
	// MemberCertificate is the SDS name of the certificate that this cluster's Gateways present to
	// members.
	MemberCertificate = "member/gateway"
	// memberTrust begins the SDS name of the CA certificates of one member.
	memberTrust = "trust/member/"
	// MembersTrust is the SDS name of what verifies the Gateways of all members.
	MembersTrust = "trust/members"
)

// MemberTrust is the SDS name of the CA certificates of a member, which vouch for its Gateways
// where they are dialled.
func MemberTrust(member string) string { return memberTrust + member }

// ParseMemberTrust reads the member of a MemberTrust.
func ParseMemberTrust(name string) (member string, ok bool) {
	return strings.CutPrefix(name, memberTrust)
}

// TrustDomain is a cluster whose Gateways are trusted, with the CA certificates that vouch for its
// IDs alone, in PEM.
type TrustDomain struct {
	Name   string
	Bundle []byte
}
