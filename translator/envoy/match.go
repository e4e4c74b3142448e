package envoy

import (
	"cmp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// routeMatch is one HTTPRouteMatch or GRPCRouteMatch.
func routeMatch(m model.Match) *routev3.RouteMatch {
	rm := &routev3.RouteMatch{}
	switch prefix := elements(m.Path); {
	case m.PathKind == model.PathBeginning:
		rm.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: cmp.Or(m.Path, "/")}
	case m.PathKind == model.PathExact:
		rm.PathSpecifier = &routev3.RouteMatch_Path{Path: m.Path}
	case m.PathKind == model.PathRegex:
		rm.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regex(m.Path)}
	case prefix == "":
		rm.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: "/"}
	default:
		rm.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: prefix}
	}
	if m.GRPC != nil {
		rm.Grpc = &routev3.RouteMatch_GrpcRouteMatchOptions{}
	}
	if m.Method != "" {
		rm.Headers = append(rm.Headers, header(":method", exact(m.Method)))
	}
	for _, h := range firsts(m.Headers) {
		name := h.Name
		if name == "host" { // Envoy matches it by its HTTP/2 name only
			name = ":authority"
		}
		if h.Present {
			rm.Headers = append(rm.Headers, &routev3.HeaderMatcher{
				Name:                 name,
				HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
			})
			continue
		}
		rm.Headers = append(rm.Headers, header(name, value(h)))
	}
	for _, q := range firsts(m.Query) {
		if q.Present {
			rm.QueryParameters = append(rm.QueryParameters, &routev3.QueryParameterMatcher{
				Name:                         q.Name,
				QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true},
			})
			continue
		}
		rm.QueryParameters = append(rm.QueryParameters, &routev3.QueryParameterMatcher{
			Name: q.Name,
			QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_StringMatch{
				StringMatch: value(q),
			},
		})
	}
	return rm
}

// elements is a path prefix without the slash at its end, which means nothing in element-wise comparison: "" for "/".
func elements(prefix string) string { return strings.TrimRight(prefix, "/") }

// firsts drops repetitions of a name: only the first counts (Gateway API, HTTPRouteMatch).
func firsts(in []model.ValueMatch) []model.ValueMatch {
	seen := map[string]bool{}
	var out []model.ValueMatch
	for _, v := range in {
		if !seen[v.Name] {
			seen[v.Name] = true
			out = append(out, v)
		}
	}
	return out
}

func header(name string, m *matcherv3.StringMatcher) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{
		Name:                 name,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m},
	}
}

func value(v model.ValueMatch) *matcherv3.StringMatcher {
	if v.Regex {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(v.Value)}}
	}
	return exact(v.Value)
}

func exact(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

// regex matches a whole path or value, as RE2.
func regex(s string) *matcherv3.RegexMatcher { return &matcherv3.RegexMatcher{Regex: s} }
