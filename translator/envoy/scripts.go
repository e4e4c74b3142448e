package envoy

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/translator/model"
)

// ModelHeader has the model's name from the request's body, for routes to match.
const ModelHeader = "x-gateway-model-name"

var (
	//go:embed scan.lua
	scanScript string
	//go:embed wait.lua
	waitScript string
	//go:embed port.lua
	portScript string
	//go:embed response.lua
	responseScript string
	//go:embed session.lua
	sessionScript string
)

const (
	scanCode     = "scan"
	waitCode     = "wait"
	portCode     = "port"
	responseCode = "response"
	sessionCode  = "session"
)

func scripts() *luav3.Lua {
	return &luav3.Lua{SourceCodes: map[string]*corev3.DataSource{
		scanCode: inline(scanScript), waitCode: inline(waitScript), portCode: inline(portScript),
		responseCode: inline(responseScript),
	}}
}

func stays() *luav3.Lua {
	return &luav3.Lua{SourceCodes: map[string]*corev3.DataSource{sessionCode: inline(sessionScript)}}
}

func (b *builder) script(name string) *anypb.Any {
	return b.any(&luav3.LuaPerRoute{Override: &luav3.LuaPerRoute_Name{Name: name}})
}

// Clients and pickers cannot write this metadata.
func scanned(inverted bool) *matcherv3.MetadataMatcher {
	return &matcherv3.MetadataMatcher{
		Filter: "penstock.model",
		Path: []*matcherv3.MetadataMatcher_PathSegment{
			{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: "scanned"}},
		},
		Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_BoolMatch{BoolMatch: true}},
		Invert: inverted,
	}
}

// scanRoute returns a route that precedes r. Its script reads the model from the body, and makes
// Envoy choose a route again, so Envoy buffers only bodies of r's requests. scanRoute returns nil
// if no match or gate of r needs the model. The route has no direct response, which would ignore
// the buffer limit. In strict mode, its script rejects bodies that servers may parse differently.
func (b *builder) scanRoute(vh *model.VirtualHost, r *model.Route) *routev3.Route {
	ofModel := func(h model.ValueMatch) bool { return h.Name == ModelHeader }
	if b.hops || r.Match.GRPC != nil || !byModel(r) && !r.ByModel {
		return nil
	}
	m := r.Match
	m.Headers = slices.DeleteFunc(slices.Clone(m.Headers), ofModel)
	scan := &routev3.Route{
		Name:                   r.Name + "#model",
		Match:                  routeMatch(m),
		Action:                 nowhere(),
		RequestBodyBufferLimit: wrapperspb.UInt64(maxBody),
	}
	scan.Match.DynamicMetadata = []*matcherv3.MetadataMatcher{scanned(true)}
	put(&scan.TypedPerFilterConfig, filterScripts, b.any(&luav3.LuaPerRoute{
		Override: &luav3.LuaPerRoute_Name{Name: scanCode},
		FilterContext: &structpb.Struct{Fields: map[string]*structpb.Value{
			"strict": structpb.NewBoolValue(vh.ByModel),
		}},
	}))
	return scan
}

func nowhere() *routev3.Route_Route {
	return &routev3.Route_Route{Route: &routev3.RouteAction{
		ClusterSpecifier:            &routev3.RouteAction_Cluster{Cluster: unresolved},
		ClusterNotFoundResponseCode: routev3.RouteAction_NOT_FOUND,
		IdleTimeout:                 seconds(streamIdle),
	}}
}

const noModelRoute = "no-model"

const maxModelNames = 20

const noModelText = "this host has no route for model %CEL('" + ModelHeader +
	"' in request.headers ? request.headers['" + ModelHeader +
	"'] : '(none)')%%METADATA(ROUTE:" + noModelRoute + ":models)%"

// noModel answers requests whose model has no route. The answer lists the host's models, but not if
// one of its routes is hidden. Like scanRoute, noModel has no direct response.
func noModel(vh *model.VirtualHost) *routev3.Route {
	var names []string
	for i := range vh.Routes {
		r := &vh.Routes[i]
		if hidden(vh, r) {
			names = nil
			break
		}
		for _, h := range r.Match.Headers {
			if h.Name == ModelHeader && !h.Regex && !h.Present && !slices.Contains(names, h.Value) {
				names = append(names, h.Value)
			}
		}
	}
	text := "; give one that a route of this host has"
	if len(names) > 0 {
		slices.Sort(names)
		text = "; it has " + strings.Join(names[:min(len(names), maxModelNames)], ", ")
		if more := len(names) - maxModelNames; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return without(text)
}

// without returns a route without a backend. Its answer ends with the text.
func without(text string) *routev3.Route {
	return &routev3.Route{
		Name: noModelRoute,
		Match: &routev3.RouteMatch{
			PathSpecifier:   &routev3.RouteMatch_Prefix{Prefix: "/"},
			DynamicMetadata: []*matcherv3.MetadataMatcher{scanned(false)},
		},
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			noModelRoute: textOf(text),
		}},
		Action: nowhere(),
	}
}

func holdScanned(routes []*routev3.Route) {
	for _, r := range routes {
		r.RequestBodyBufferLimit = wrapperspb.UInt64(maxBody)
	}
}
