package envoy

import (
	_ "embed"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
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
)

// The names under which a virtual host or route starts a script.
const (
	scanCode = "scan"
	waitCode = "wait"
	portCode = "port"
)

// scripts is the Lua filter: it lifts the model's name out of the body, waits for the body, or corrects a redirect's port. It
// does nothing until a virtual host or route names a script; a change of a script is a change of the chain.
func scripts() *luav3.Lua {
	return &luav3.Lua{SourceCodes: map[string]*corev3.DataSource{
		scanCode: inline(scanScript), waitCode: inline(waitScript), portCode: inline(portScript),
	}}
}

func (b *builder) script(name string) *anypb.Any {
	return b.any(&luav3.LuaPerRoute{Override: &luav3.LuaPerRoute_Name{Name: name}})
}

// byModel reports whether a route of the host matches the model's name.
func byModel(vh *model.VirtualHost) bool {
	return slices.ContainsFunc(vh.Routes, func(r model.Route) bool {
		return slices.ContainsFunc(r.Match.Headers, func(h model.ValueMatch) bool { return h.Name == modelHeader })
	})
}

// scanModels starts the scanner on a virtual host. A filter runs only if some route is found at first, before the
// model is known, so there is a last one that takes everything and leads nowhere: 404, as if it were not there. It is no
// direct response, because that would ignore the buffer limit.
func (b *builder) scanModels(host *routev3.VirtualHost) {
	put(&host.TypedPerFilterConfig, filterScripts, b.script(scanCode))
	for _, r := range host.Routes { // all bodies are buffered now
		r.RequestBodyBufferLimit = wrapperspb.UInt64(maxBody)
		if r.GetRedirect() == nil {
			delete(r.TypedPerFilterConfig, filterScripts) // the scanner waits too
		}
	}
	host.Routes = append(host.Routes, &routev3.Route{
		Name:  "no model",
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier:            &routev3.RouteAction_Cluster{Cluster: unresolved},
			ClusterNotFoundResponseCode: routev3.RouteAction_NOT_FOUND,
		}},
		RequestBodyBufferLimit: wrapperspb.UInt64(maxBody),
	})
}
