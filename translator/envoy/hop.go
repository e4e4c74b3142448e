package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// hopRequests is how many requests a connection to a hop takes. Once half of 500 were given up before they were answered,
// Envoy takes the other side of a connection for an attacker and closes it (overload.premature_reset_total_stream_count),
// with whatever else streams through it: over HTTP/2 that is other people's answers. Here it never comes to count so many.
const hopRequests = 100

// HopListener is the internal listener of a hop. It takes HTTP/1.1, and HTTP/2 from a cluster whose pods speak that
// (Pool.PicksAgain). The bootstrap must have the internal listener extension.
func HopListener(cfg Config, h model.Hop) (*resource.Resource, error) {
	b, name := &builder{}, h.Name.String()
	m := b.manager(cfg, name, name, model.DefaultRequestTimeout, 0)
	m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{EnableTrailers: true} // grpc-status
	m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{MaxRequestsPerConnection: u32(hopRequests)}
	m.SkipXffAppend = true
	b.keepRequestID(m)
	m.EarlyHeaderMutationExtensions = b.strip(hopHeaders)
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY // the edge wrote it
	l := &listenerv3.Listener{
		Name:              name,
		ListenerSpecifier: &listenerv3.Listener_InternalListener{InternalListener: &listenerv3.Listener_InternalListenerConfig{}},
		FilterChains: []*listenerv3.FilterChain{{
			Name: name,
			Filters: []*listenerv3.Filter{{
				Name:       "hcm",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: b.any(m)},
			}},
		}},
	}
	if b.err != nil {
		return nil, b.err
	}
	return checked(resource.Listener, l.Name, l, b.refs, h.Owners)
}

// HopRoutes is the route configuration of a hop: everything goes to the hop's backends, with their own pickers.
func HopRoutes(h model.Hop) (*resource.Resource, error) {
	name := h.Name.String()
	host, err := VirtualHost(&model.VirtualHost{
		Chain: name,
		Host:  "*",
		Routes: []model.Route{{
			Name:   name,
			Match:  model.Match{PathKind: model.PathPrefix, Path: "/"},
			Action: &model.Action{Forward: &model.Forward{Backends: h.Backends}},
		}},
		Owners: h.Owners,
	})
	if err != nil {
		return nil, err
	}
	block, err := NewBlock([]*Encoded{host})
	if err != nil {
		return nil, err
	}
	return RouteConfiguration(name, model.Chain{}, block)
}
