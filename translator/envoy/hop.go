package envoy

import (
	"slices"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// hopRequests is how many requests a connection to a hop takes. Once half of 500 were given up
// before they were answered, Envoy takes the other side of a connection for an attacker and closes
// it (overload.premature_reset_total_stream_count), with whatever else streams through it: over
// HTTP/2 that is other people's answers. Here it never comes to count so many.
const hopRequests = 100

// hopHeader has the hop that a connection was opened for, while the hop's virtual host is looked up
// by it. It is the ID of the endpoint that Envoy has chosen: no client, no picker and no retry
// changes it, and Host stays the client's own.
const hopHeader = peerHeaders + "hop"

// hopFilters are those of edges that the routes of hops use. Each of the others costs a request
// some microseconds.
var hopFilters = []string{filterScripts, filterHeaders, filterMetadata, filterPicker, filterTokenUsage, filterRouter}

// HopListener is the internal listener of all hops of a Gateway. It takes HTTP/1.1, and HTTP/2 from
// a cluster whose pods speak that (Pool.PicksAgain). The bootstrap must have the internal listener
// extension. A hop that comes or goes changes nothing in it.
func HopListener(cfg Config, owners []report.Ref) (*resource.Resource, error) {
	b, name := &builder{}, model.HopListener
	m := b.manager(cfg, name, name, model.DefaultRequestTimeout, 0,
		&headersv3.HeaderMutation{Mutations: &headersv3.Mutations{
			RequestMutations: []*mutationv3.HeaderMutation{removeHeader(hopHeader)}, // no picker and no pod sees it
		}})
	m.HttpFilters = slices.DeleteFunc(m.HttpFilters,
		func(f *hcmv3.HttpFilter) bool { return !slices.Contains(hopFilters, f.Name) })
	m.LocalReplyConfig = b.localReplies(marks()...)
	m.HttpProtocolOptions.EnableTrailers = true // grpc-status
	m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{MaxRequestsPerConnection: u32(hopRequests)}
	m.SkipXffAppend = true
	b.keepRequestID(m)
	m.EarlyHeaderMutationExtensions = b.strip(append(slices.Clip(hopHeaders), noteHop()))
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY // the edge wrote it
	l := &listenerv3.Listener{
		Name: name,
		ListenerSpecifier: &listenerv3.Listener_InternalListener{
			InternalListener: &listenerv3.Listener_InternalListenerConfig{},
		},
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
	return checked(resource.Listener, l.Name, l, b.refs, owners)
}

// noteHop writes the ID of the endpoint that a connection leads to.
func noteHop() *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: hopHeader, Value: "%DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID%"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}}
}

// HopHost is the virtual host of a hop: everything goes to the hop's backends, with their own
// pickers, but for gRPC requests that they cannot take: these are declined, so that another hop
// takes them.
func HopHost(h model.Hop) (*Encoded, error) {
	name := h.Name.String()
	all := model.Match{PathKind: model.PathPrefix, Path: "/"}
	routes := []model.Route{
		{Name: name, Match: all, Action: &model.Action{Forward: &model.Forward{Backends: h.Backends}}},
	}
	if h.NoGRPC {
		calls := all
		calls.GRPC = &model.GRPCMethod{}
		why := "the servers of " + h.Name.Target().String() + " speak HTTP/1.1, and take no gRPC"
		declined := &model.Action{Direct: &model.Direct{Status: 503, Body: why}}
		routes = append([]model.Route{{Name: name, Match: calls, Action: declined}}, routes...)
	}
	host, err := VirtualHost(&model.VirtualHost{Chain: model.HopListener, Host: name, Routes: routes, Owners: h.Owners})
	if err != nil {
		return nil, err
	}
	// the last of the types: still sorted
	host.Refs = append(host.Refs, resource.Ref{Type: resource.VirtualHost, Name: name})
	return host, nil
}

// HopRoutes is the route configuration of all hops of a Gateway, made of blocks of their virtual
// hosts. Requests for a hop that is not there, because its endpoint comes before it or leaves after
// it, are answered 503: so they go where a full hop sends them.
func HopRoutes(hops ...*Block) (*resource.Resource, error) {
	return routesOf(&routev3.RouteConfiguration{
		Name:        model.HopListener,
		VhostHeader: hopHeader,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    "none",
			Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Name:   "none",
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: directResponse(&model.Direct{Status: 503}),
			}},
		}},
	}, hops)
}
