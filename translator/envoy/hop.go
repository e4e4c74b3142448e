package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// HopListener is the internal listener of a hop. It wants HTTP/1.1: over HTTP/2, many failed requests cut unrelated
// streams of the same connection (envoy/INFERENCE.md, 4). The bootstrap must have the internal listener extension.
func HopListener(cfg Config, h model.Hop) (*resource.Resource, error) {
	b := &builder{}
	m := b.manager(cfg, h.Name, h.Name)
	m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{EnableTrailers: true} // grpc-status
	m.SkipXffAppend = true
	m.PreserveExternalRequestId = true
	m.EarlyHeaderMutationExtensions = b.strip(hopHeaders)
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY // the edge wrote it
	l := &listenerv3.Listener{
		Name:              h.Name,
		ListenerSpecifier: &listenerv3.Listener_InternalListener{InternalListener: &listenerv3.Listener_InternalListenerConfig{}},
		FilterChains: []*listenerv3.FilterChain{{
			Name: h.Name,
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
	host, err := VirtualHost(&model.VirtualHost{
		Chain: h.Name,
		Host:  "*",
		Routes: []model.Route{{
			Name:   h.Name,
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
	return RouteConfiguration(h.Name, model.Chain{}, block)
}
