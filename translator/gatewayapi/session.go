package gatewayapi

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// session supports Services and imports. A session of an import stays in one exporting cluster. For
// a pool, the picker chooses endpoints better than a cookie, by the prompts' common prefixes.
func (b *ruleBuilder) session(spec *gatewayv1.HTTPRouteRule, matches []model.Match, field string) *model.Session {
	s := spec.SessionPersistence
	if s == nil {
		return nil
	}
	for i := range spec.BackendRefs {
		ref := backendRef(b.out.Route.Namespace, &spec.BackendRefs[i].BackendObjectReference)
		if isPool(ref) && ref.Kind != store.InferencePoolImports.Kind() {
			b.problem(field, gatewayv1.RouteReasonUnsupportedValue,
				fmt.Sprintf("sessions do not go with %s, whose picker chooses the endpoint of each request", ref),
				"remove it; for sessions write picker.strategy: session into a PoolPolicy for the pool")
			return nil
		}
	}
	out := &model.Session{Header: s.Type != nil && *s.Type == gatewayv1.HeaderBasedSessionPersistence,
		Path: commonPrefix(matches)}
	permanent := s.CookieConfig != nil && s.CookieConfig.LifetimeType != nil &&
		*s.CookieConfig.LifetimeType == gatewayv1.PermanentCookieLifetimeType
	if d := b.duration(s.AbsoluteTimeout, field+".absoluteTimeout"); d != nil {
		out.Timeout = *d
	}
	switch {
	case out.Header && out.Timeout > 0:
		b.problem(field+".absoluteTimeout", gatewayv1.RouteReasonUnsupportedValue,
			"sessions in a header have no timeout", "remove it, or use type Cookie")
	case permanent && out.Timeout <= 0:
		b.problem(field+".absoluteTimeout", gatewayv1.RouteReasonUnsupportedValue, "a permanent cookie needs a timeout",
			"write one such as 12h")
	case !permanent && out.Timeout > 0:
		b.warn(field+".cookieConfig.lifetimeType",
			"a session cookie with a timeout is kept until that is over, also when the browser is closed before",
			"use Permanent, or remove absoluteTimeout")
	}
	out.Name = b.sessionName(s, out.Header, matches, spec.Name, field+".sessionName")
	if len(spec.BackendRefs) > 1 && out.Header {
		b.warn(field+".type",
			"a header keeps a client at an endpoint, and not at one of several backendRefs: there its session "+
				"begins anew", "use type Cookie")
	}
	return out
}

func (b *ruleBuilder) sessionName(s *gatewayv1.SessionPersistence, header bool, matches []model.Match,
	rule *gatewayv1.SectionName, field string) string {
	if s.SessionName != nil && *s.SessionName != "" {
		if !token.MatchString(*s.SessionName) {
			b.unsupported(field, "%q is not the name of a cookie or header", *s.SessionName)
		}
		if header {
			return strings.ToLower(*s.SessionName)
		}
		return *s.SessionName
	}
	id := b.out.Route.String()
	if rule != nil {
		id += "|" + string(*rule)
	} else {
		for i := range matches {
			id += "|" + matchKey(&matches[i])
		}
	}
	prefix := "session-"
	if header {
		prefix = "x-session-"
	}
	return fmt.Sprintf("%s%016x", prefix, xxhash.Sum64String(id))
}

func commonPrefix(matches []model.Match) string {
	path := ""
	for _, m := range matches {
		if m.PathKind != model.PathPrefix || path != "" && m.Path != path || strings.ContainsAny(m.Path, ";,") {
			return "/"
		}
		path = m.Path
	}
	return cmp.Or(path, "/")
}
