package set

import (
	"cmp"
	"net"
	"net/netip"
	"strconv"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/translator/model"
)

func (s *Set) gateways(r store.Reader, list []model.ParentGateway,
	peer *v1alpha1.ClusterSetPeerListener) (out []export.Gateway) {
	for _, g := range list {
		addresses, at := s.reached(r, g)
		one := export.Gateway{Namespace: g.Ref.Namespace, Name: g.Ref.Name, Addresses: addresses}
		for _, p := range g.Ports {
			port := inferenceapi.Port{Number: int32(cmp.Or(at(p.Number), p.Number))}
			if p.HTTPS {
				port.AppProtocol = "https"
			}
			one.Ports = append(one.Ports, port)
		}
		if peer != nil && g.PeerPort > 0 {
			one.Peer = peerAddress(peer, addresses, at(g.PeerPort))
		}
		out = append(out, one)
	}
	return out
}

// reached returns the addresses at which other clusters reach a Gateway, and maps a bound port to
// the port there. The host of Config.Address replaces unspecified addresses, such as 0.0.0.0.
func (s *Set) reached(r store.Reader, g model.ParentGateway) (out []string, port func(bound uint16) uint16) {
	if s.cfg.GatewayReached != nil {
		return s.cfg.GatewayReached(r, g.Ref)
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
	return out, func(bound uint16) uint16 { return bound }
}

func peerAddress(l *v1alpha1.ClusterSetPeerListener, addresses []string, port uint16) *inferenceapi.ServiceImport {
	out := &inferenceapi.ServiceImport{Addresses: addresses,
		Ports: []inferenceapi.Port{{Number: int32(port), AppProtocol: "https"}}}
	if host, own, err := net.SplitHostPort(l.Address); err == nil {
		if n, err := strconv.ParseUint(own, 10, 16); err == nil && n > 0 {
			out.Addresses, out.Ports[0].Number = []string{host}, int32(n)
		}
	}
	if out.Ports[0].Number == 0 {
		return nil
	}
	return out
}
