package envoy

import (
	_ "embed"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/translator/model"
)

// modelHeader carries the model's name, for routes to match. It comes from the body and never from a client.
const modelHeader = "x-gateway-model-name"

var (
	//go:embed scan.lua
	scanScript string
	//go:embed wait.lua
	waitScript string
	//go:embed port.lua
	portScript string
	//go:embed response.lua
	responseScript string
)

// The names under which a virtual host or route starts a script.
const (
	scanCode = "scan"
	waitCode = "wait"
	portCode = "port"
	// responseCode is of weighted clusters: it follows a pick.
	responseCode = "response"
)

// scripts is the Lua filter: it lifts the model's name out of the body, waits for the body, corrects a redirect's port, or
// reads a response's ID. It does nothing until a virtual host or route names a script; a change of a script is a change of the chain.
func scripts() *luav3.Lua {
	return &luav3.Lua{SourceCodes: map[string]*corev3.DataSource{
		scanCode: inline(scanScript), waitCode: inline(waitScript), portCode: inline(portScript),
		responseCode: inline(responseScript),
	}}
}

func (b *builder) script(name string) *anypb.Any {
	return b.any(&luav3.LuaPerRoute{Override: &luav3.LuaPerRoute_Name{Name: name}})
}

// notScanned matches requests whose body has not been read for a model. The dynamic metadata stands in a namespace that no
// client and no picker can write.
func notScanned() *matcherv3.MetadataMatcher {
	return &matcherv3.MetadataMatcher{
		Filter: "penstock.model",
		Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: "scanned"}}},
		Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_BoolMatch{BoolMatch: true}},
		Invert: true,
	}
}

// scanRoute is the route before one that matches the model's name. It takes the same requests, whatever their model is,
// reads the model, and has the route chosen again; so the bodies of requests that no such route can take are not held.
// Nil for a route that does not match the model's name, or takes gRPC, whose bodies are not read.
//
// It leads nowhere: 404. It is no direct response, because that would ignore the buffer limit.
func (b *builder) scanRoute(r *model.Route) *routev3.Route {
	ofModel := func(h model.ValueMatch) bool { return h.Name == modelHeader }
	if r.Match.GRPC != nil || !slices.ContainsFunc(r.Match.Headers, ofModel) {
		return nil
	}
	m := r.Match
	m.Headers = slices.DeleteFunc(slices.Clone(m.Headers), ofModel)
	scan := &routev3.Route{
		Name:  r.Name + "#model",
		Match: routeMatch(m),
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier:            &routev3.RouteAction_Cluster{Cluster: unresolved},
			ClusterNotFoundResponseCode: routev3.RouteAction_NOT_FOUND,
			IdleTimeout:                 seconds(streamIdle),
		}},
		RequestBodyBufferLimit: wrapperspb.UInt64(maxBody),
	}
	scan.Match.DynamicMetadata = []*matcherv3.MetadataMatcher{notScanned()}
	put(&scan.TypedPerFilterConfig, filterScripts, b.script(scanCode))
	return scan
}

// holdScanned lets every route of a host take a body that was held for its model: of all those it may be the one that is
// chosen then.
func holdScanned(routes []*routev3.Route) {
	for _, r := range routes {
		r.RequestBodyBufferLimit = wrapperspb.UInt64(maxBody)
	}
}
