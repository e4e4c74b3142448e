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

// hopRequests limits the requests of a connection to a hop. If half of 500 requests are cancelled
// before an answer, Envoy closes the connection (overload.premature_reset_total_stream_count). Over
// HTTP/2, this would end other clients' streams.
const hopRequests = 100

// hopHeader has the ID of the endpoint that Envoy chose, and selects the hop's virtual host.
// Clients and pickers cannot change it, and Host stays the client's.
const hopHeader = peerHeaders + "hop"

// A hop has only these filters, because each filter takes some microseconds per request.
var hopFilters = []string{filterScripts, filterHeaders, filterMetadata, filterPicker, filterTokenUsage, filterRouter}

// HopListener encodes the internal listener of all hops of a Gateway. A hop forwards requests to
// another pool or cluster. New hops do not change the listener.
func HopListener(cfg Config, owners []report.Ref) (*resource.Resource, error) {
	b, name := &builder{}, model.HopListener
	m := b.manager(cfg, name, name, model.DefaultRequestTimeout, 0,
		&headersv3.HeaderMutation{Mutations: &headersv3.Mutations{
			RequestMutations: []*mutationv3.HeaderMutation{
				removeHeader(hopHeader), removeHeader(peerCaller), removeHeader(peerGroups),
				setHeader(peerCaller, "%REQ("+callerHeader+")%"), setHeader(peerGroups, "%REQ("+groupsHeader+")%"),
			},
		}})
	m.HttpFilters = slices.DeleteFunc(m.HttpFilters,
		func(f *hcmv3.HttpFilter) bool { return !slices.Contains(hopFilters, f.Name) })
	m.LocalReplyConfig = b.localReplies(marks()...)
	m.HttpProtocolOptions.EnableTrailers = true
	m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{MaxRequestsPerConnection: u32(hopRequests)}
	m.SkipXffAppend = true
	b.keepRequestID(m)
	m.EarlyHeaderMutationExtensions = b.strip(append(slices.Clip(hopHeaders),
		setHeader(hopHeader, "%DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID%")))
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY
	l := &listenerv3.Listener{
		Name: name,
		ListenerSpecifier: &listenerv3.Listener_InternalListener{
			InternalListener: &listenerv3.Listener_InternalListenerConfig{},
		},
		FilterChains: []*listenerv3.FilterChain{{
			Name: name, Filters: b.only("hcm", m),
		}},
	}
	return b.resource(resource.Listener, l.Name, l, owners)
}

// HopHost encodes a hop's virtual host. If its backends take no gRPC, gRPC requests get a 503, and
// Envoy retries them at another hop.
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
	// resource.VirtualHost sorts last, so Refs stay sorted.
	host.Refs = append(host.Refs, resource.Ref{Type: resource.VirtualHost, Name: name})
	return host, nil
}

// HopRoutes encodes the route configuration of all hops of a Gateway. A missing hop answers 503,
// like a full hop.
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
