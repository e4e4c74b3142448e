package envoy

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/penstock-project/penstock/translator/model"
)

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
		if name == "host" { // Envoy matches only the HTTP/2 name
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

// HTTPRouteMatch ignores trailing slashes of a prefix.
func elements(prefix string) string { return strings.TrimRight(prefix, "/") }

// Only the first match of a repeated name counts (HTTPRouteMatch).
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
		return byRegex(v.Value)
	}
	return exact(v.Value)
}

func exact(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

func byRegex(pattern string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(pattern)}}
}

func regex(s string) *matcherv3.RegexMatcher { return &matcherv3.RegexMatcher{Regex: s} }

// Matches reports whether a request meets a match, as in Envoy.
func (a *Arrived) Matches(m model.Match) bool { return a.matches(m, nil) }

// OtherModel returns the model with which a request would meet a match.
func (a *Arrived) OtherModel(m model.Match) (name string, ok bool) {
	i := slices.IndexFunc(m.Headers, func(h model.ValueMatch) bool { return h.Name == ModelHeader })
	if i < 0 || !a.matches(m, func(h model.ValueMatch) bool { return h.Name == ModelHeader }) {
		return "", false
	}
	return m.Headers[i].Value, true
}

func (a *Arrived) matches(m model.Match, without func(model.ValueMatch) bool) bool {
	ok := false
	switch prefix := elements(m.Path); m.PathKind {
	case model.PathExact:
		ok = a.Path == m.Path
	case model.PathRegex:
		ok = fullMatch(m.Path, a.Path)
	case model.PathBeginning:
		ok = strings.HasPrefix(a.Path, m.Path)
	default:
		ok = a.Path == prefix || strings.HasPrefix(a.Path, prefix+"/")
	}
	if !ok || m.Method != "" && m.Method != a.Method || m.GRPC != nil && !GRPCType(a.Header["content-type"]) {
		return false
	}
	for _, h := range firsts(m.Headers) {
		if without != nil && without(h) {
			continue
		}
		if !slices.ContainsFunc(a.Header[h.Name], func(v string) bool { return valueMatches(h, v) }) {
			return false
		}
	}
	for _, q := range firsts(m.Query) {
		if v, has := a.parameter(q.Name); !has || !valueMatches(q, v) {
			return false
		}
	}
	return true
}

func (a *Arrived) parameter(name string) (string, bool) {
	for text := range strings.SplitSeq(strings.TrimPrefix(a.Query, "?"), "&") {
		if n, value, _ := strings.Cut(text, "="); n == name && text != "" {
			return value, true
		}
	}
	return "", false
}

func valueMatches(m model.ValueMatch, value string) bool {
	switch {
	case m.Present:
		return true
	case m.Regex:
		return fullMatch(m.Value, value)
	}
	return m.Value == value
}

// Like Envoy, fullMatch reads each byte as one character.
func fullMatch(pattern, text string) bool {
	re, err := regexp.Compile("^(?:" + latin1(pattern) + ")$")
	return err == nil && re.MatchString(latin1(text))
}
