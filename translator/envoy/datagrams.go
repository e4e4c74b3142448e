package envoy

import (
	"fmt"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	udpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// DatagramListener encodes a UDP port of a Gateway. A change of the listener ends all sessions, so
// routes change only the endpoints of its one cluster. The listener has no traffic direction: at
// shutdown, Envoy closes inbound listeners at once, and would lose answers in flight.
func DatagramListener(cfg Config, p model.Port) (*resource.Resource, error) {
	if len(p.Addresses) == 0 || p.Datagrams.IsZero() {
		return nil, fmt.Errorf("port %s of Gateway %s has no address or no cluster", p.Socket(), p.Gateway)
	}
	b := &builder{}
	size := &corev3.UdpSocketConfig{MaxRxDatagramSize: wrapperspb.UInt64(maxDatagram)}
	l := &listenerv3.Listener{
		Name:              p.Socket().Listener(),
		Address:           datagramAddress(p.Addresses[0], p.Number),
		UdpListenerConfig: &listenerv3.UdpListenerConfig{DownstreamSocketConfig: size},
		ListenerFilters: []*listenerv3.ListenerFilter{b.listenerFilter("udp", &udpv3.UdpProxyConfig{
			StatPrefix: "datagrams",
			RouteSpecifier: &udpv3.UdpProxyConfig_Matcher{
				Matcher: b.always(&udpv3.Route{Cluster: b.cluster(p.Datagrams)}),
			},
			IdleTimeout:          seconds(datagramIdle),
			UpstreamSocketConfig: size,
			AccessLog:            b.datagramLog(cfg, p),
		})},
	}
	for _, a := range p.Addresses[1:] {
		l.AdditionalAddresses = append(l.AdditionalAddresses,
			&listenerv3.AdditionalAddress{Address: datagramAddress(a, p.Number)})
	}
	return b.resource(resource.Listener, l.Name, l, p.Owners)
}

func (b *builder) always(route *udpv3.Route) *xdsmatcherv3.Matcher {
	return &xdsmatcherv3.Matcher{OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "route", TypedConfig: b.any(route)},
	}}}
}

func datagramAddress(ip string, port uint16) *corev3.Address {
	a := address(ip, uint32(port))
	a.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	return a
}

func (b *builder) datagramLog(cfg Config, p model.Port) []*accesslogv3.AccessLog {
	counted := func(what string) string { return "%DYNAMIC_METADATA(udp.proxy.session:" + what + ")%" }
	return b.fileLog(cfg, map[string]string{
		"time":               "%START_TIME%",
		"client":             "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
		"chain":              model.DatagramName(p.Number),
		"cluster":            p.Datagrams.String(),
		"served":             "%UPSTREAM_HOST%",
		"received":           counted("bytes_received"),
		"received_datagrams": counted("datagrams_received"),
		"sent":               counted("bytes_sent"),
		"sent_datagrams":     counted("datagrams_sent"),
		"total_ms":           "%DURATION%",
	})
}
