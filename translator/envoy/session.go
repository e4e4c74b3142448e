package envoy

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/cespare/xxhash/v2"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

func (b *builder) session(s *model.Session) *anypb.Any {
	var state *corev3.TypedExtensionConfig
	if s.Header {
		state = b.extension("envoy.http.stateful_session.header", &headerv3.HeaderBasedSessionState{Name: s.Name})
	} else {
		cookie := &httpv3.Cookie{Name: s.Name, Path: s.Path}
		if s.Timeout > 0 {
			cookie.Ttl = seconds(s.Timeout) // Envoy also checks the timeout in the cookie's value
		}
		state = b.extension("envoy.http.stateful_session.cookie", &cookiev3.CookieBasedSessionState{Cookie: cookie})
	}
	return b.any(&sessionv3.StatefulSessionPerRoute{Override: &sessionv3.StatefulSessionPerRoute_StatefulSession{
		StatefulSession: &sessionv3.StatefulSession{SessionState: state},
	}})
}

func (b *builder) keep(share *routev3.WeightedCluster_ClusterWeight, f *model.Forward, w *model.WeightedBackend) {
	if f.Session == nil || w.Cluster.IsZero() || !anyImported(f) {
		return
	}
	if !w.Imported() {
		put(&share.TypedPerFilterConfig, filterSession, b.session(f.Session))
		return
	}
	put(&share.TypedPerFilterConfig, filterStay, b.any(&luav3.LuaPerRoute{
		Override: &luav3.LuaPerRoute_Name{Name: sessionCode}, FilterContext: sessionContext(f.Session, w),
	}))
	switch {
	case len(w.Members) > 0:
		share.RequestHeadersToRemove = append(slices.Clip(share.RequestHeadersToRemove), peerCluster)
	case w.Peer == "" && !w.Hops:
		share.RequestHeadersToRemove = append(slices.Clip(share.RequestHeadersToRemove), peerSession)
	}
}

func anyImported(f *model.Forward) bool {
	return slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool { return w.Imported() })
}

func sessionContext(s *model.Session, w *model.WeightedBackend) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	if s.Header {
		fields["header"] = structpb.NewStringValue(s.Name)
	} else {
		fields["cookie"], fields["path"] = structpb.NewStringValue(s.Name), structpb.NewStringValue(s.Path)
	}
	if s.Timeout > 0 {
		fields["ttl"] = structpb.NewNumberValue(s.Timeout.Seconds())
	}
	if len(w.Members) == 0 {
		fields["cluster"] = structpb.NewStringValue(clusterID(w.Hop))
		return &structpb.Struct{Fields: fields}
	}
	hops := map[string]*structpb.Value{}
	for i := range w.Members {
		hops[clusterID(w.Members[i].Hop)] = structpb.NewStringValue(w.Members[i].Hop.Address())
	}
	fields["hops"] = structpb.NewStructValue(&structpb.Struct{Fields: hops})
	return &structpb.Struct{Fields: fields}
}

func clusterID(hop model.HopID) string { return fmt.Sprintf("%016x", xxhash.Sum64String(hop.String())) }

// faithful reports whether sessions need sessionRoutes: Envoy draws a backend by weight, and finds
// a cookie's endpoint only there.
func faithful(f *model.Forward) bool {
	return f.Session != nil && !f.Session.Header && len(f.Backends) > 1
}

// A second cookie identifies the backend, and a route for each backend takes the requests with that
// cookie. So a session survives a change of weights.
func (b *builder) sessionRoutes(vh *model.VirtualHost, r *model.Route) []*routev3.Route {
	f := *r.Action.Forward
	cookie := f.Session.Name + "-backend"
	var routes []*routev3.Route
	var known []string
	first := f
	first.Backends = nil
	for _, w := range f.Backends {
		if w.Cluster.IsZero() {
			first.Backends = append(first.Backends, w)
			continue
		}
		id := fmt.Sprintf("%016x", xxhash.Sum64String(w.Backend+" "+w.Cluster.String()))
		if w.Weight > 0 && !slices.Contains(known, id) {
			known = append(known, id)
			one := *r
			one.Name = fmt.Sprintf("%s#session#%s", r.Name, w.Cluster)
			one.Action = alone(r.Action, w, 0, million)
			for _, route := range b.route(vh, &one) {
				route.Match.Cookies = []*routev3.CookieMatcher{{Name: cookie, StringMatch: exact(id)}}
				routes = append(routes, route)
			}
		}
		w.ResponseHeaders.Add = append(slices.Clip(w.ResponseHeaders.Add),
			model.Header{Name: "set-cookie", Value: setCookie(cookie, id, f.Session)})
		first.Backends = append(first.Backends, w)
	}
	rest, action := *r, *r.Action
	rest.Action, action.Forward = &action, &first
	return append(routes, b.backendRoutes(vh, &rest)...)
}

func setCookie(name, value string, s *model.Session) string {
	c := http.Cookie{Name: name, Value: value, Path: s.Path, HttpOnly: true, MaxAge: int(s.Timeout.Seconds())}
	return c.String()
}
