package report

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxAddresses is the maximum number of addresses in a Gateway's status (Gateway API,
// GatewayStatus.addresses).
const MaxAddresses = 16

const (
	IPAddress = "IPAddress"
	Hostname  = "Hostname"
)

// AddressType returns the type of an address in a Gateway's status: IPAddress for an IP address
// without a zone, Hostname for a DNS name, "" for other texts. The API server would reject a whole
// status with such a text.
func AddressType(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Zone() == "" {
		return IPAddress
	}
	if len(validation.IsDNS1123Subdomain(address)) > 0 {
		return ""
	}
	return Hostname
}

// Service has the fields that determine the addresses of a Kubernetes Service.
type Service struct {
	Type         string   // ClusterIP, NodePort or LoadBalancer
	ClusterIPs   []string // spec.clusterIPs
	ExternalIPs  []string // spec.externalIPs
	LoadBalancer []string // IP addresses and host names in status.loadBalancer
	Nodes        []string // addresses of the nodes that run ready pods of a NodePort Service
}

// Addresses returns the addresses of a Service for clients. For a NodePort Service, these are the
// nodes that run its pods, because they respond with every externalTrafficPolicy.
func (s Service) Addresses() (out []string) {
	var candidates []string
	switch s.Type {
	case "LoadBalancer":
		candidates = slices.Concat(s.LoadBalancer, s.ExternalIPs)
	case "NodePort":
		candidates = slices.Concat(s.ExternalIPs, slices.DeleteFunc(slices.Clone(s.Nodes), func(node string) bool {
			return !slices.ContainsFunc(s.ClusterIPs, func(own string) bool { return family(own) == family(node) })
		}))
	default:
		candidates = slices.Concat(s.ClusterIPs, s.ExternalIPs)
	}
	for _, a := range candidates {
		if a != "" && a != "None" && !slices.Contains(out, a) && len(out) < MaxAddresses {
			out = append(out, a)
		}
	}
	return out
}

// family returns the number of bits of an IP address, 32 or 128; 0 for a host name.
func family(address string) int {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return 0
	}
	return ip.BitLen()
}
