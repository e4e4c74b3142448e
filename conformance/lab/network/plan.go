package network

import (
	"fmt"
	"net/netip"
)

// Slots is the number of clusters that one machine can hold.
const Slots = 112

// Plan has the addresses of the cluster in a slot, 0 to Slots-1: slot 0 has 10.128.0.0/16, slot 1
// has 10.129.0.0/16. No route leads to Services: kube-proxy's rules implement them.
type Plan struct{ Slot int }

func (p Plan) prefix(third, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + p.Slot), byte(third), 0}), bits)
}

// All is the range of the cluster.
func (p Plan) All() netip.Prefix { return p.prefix(0, 16) }

// Pods is the range of pod addresses.
func (p Plan) Pods() netip.Prefix { return p.prefix(0, 17) }

// Services is the range of cluster IPs.
func (p Plan) Services() netip.Prefix { return p.prefix(128, 18) }

// LoadBalancers is the range for Services of type LoadBalancer.
func (p Plan) LoadBalancers() netip.Prefix { return p.prefix(192, 19) }

// Node is the node's own address, where the API server listens.
func (p Plan) Node() netip.Addr { return p.host(255, 1) }

// Outside is the address at which pods see the namespace where clients run.
func (p Plan) Outside() netip.Addr { return p.host(255, 2) }

// APIService is the cluster IP of the Service "kubernetes".
func (p Plan) APIService() netip.Addr { return p.host(128, 1) }

// DNSService is the cluster IP of the cluster's DNS.
func (p Plan) DNSService() netip.Addr { return p.host(128, 10) }

func (p Plan) host(third, fourth byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(128 + p.Slot), third, fourth})
}

// Link is the name of the slot's interface in the namespace outside.
func (p Plan) Link() string { return fmt.Sprintf("lab%d", p.Slot) }
