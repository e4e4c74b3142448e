package clusterset

import (
	"net"
	"net/netip"
	"strconv"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/translator/model"
)

// gateways are those that route to a pool, with the addresses at which other clusters reach them.
func (s *Set) gateways(r store.Reader, list []model.ParentGateway, peer *v1alpha1.ClusterSetPeerListener) (out []export.Gateway) {
	for _, g := range list {
		one := export.Gateway{Namespace: g.Ref.Namespace, Name: g.Ref.Name, Addresses: s.addressesOf(r, g)}
		for _, p := range g.Ports {
			port := inferenceapi.Port{Number: int32(p.Number)}
			if p.HTTPS {
				port.AppProtocol = "https"
			}
			one.Ports = append(one.Ports, port)
		}
		if peer != nil && g.PeerPort > 0 {
			one.Peer = peerAddress(peer, one.Addresses)
		}
		out = append(out, one)
	}
	return out
}

// addressesOf are those of a Gateway: in a folder what it binds, and if that is every address, the one at which members reach this process.
func (s *Set) addressesOf(r store.Reader, g model.ParentGateway) (out []string) {
	if s.cfg.GatewayAddresses != nil {
		return s.cfg.GatewayAddresses(r, g.Ref)
	}
	for _, a := range g.Addresses {
		if ip, err := netip.ParseAddr(a); err != nil || !ip.IsUnspecified() {
			out = append(out, a)
			continue
		}
		if host, _, err := net.SplitHostPort(s.cfg.Address); err == nil && host != "" {
			if ip, err := netip.ParseAddr(host); err != nil || !ip.IsUnspecified() {
				out = append(out, host)
			}
		}
	}
	return out
}

// peerAddress is where members reach the peer listener of a Gateway with some addresses.
func peerAddress(l *v1alpha1.ClusterSetPeerListener, addresses []string) *inferenceapi.ServiceImport {
	out := &inferenceapi.ServiceImport{Addresses: addresses, Ports: []inferenceapi.Port{{Number: l.Port, AppProtocol: "https"}}}
	if host, port, err := net.SplitHostPort(l.Address); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			out.Addresses, out.Ports[0].Number = []string{host}, int32(n)
		}
	}
	return out
}
