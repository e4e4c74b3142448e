package gatewayapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/credential"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
)

var pathForm = regexp.MustCompile(`^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+$`)

// wideEscape is an escape above \xFF. Go accepts it; Envoy reads bytes, and rejects it.
var wideEscape = regexp.MustCompile(`(^|[^\\])(\\\\)*\\x\{0*[1-9a-fA-F][0-9a-fA-F]{2,}\}`)

var methods = []gatewayv1.HTTPMethod{
	gatewayv1.HTTPMethodGet, gatewayv1.HTTPMethodHead, gatewayv1.HTTPMethodPost, gatewayv1.HTTPMethodPut,
	gatewayv1.HTTPMethodDelete,
	gatewayv1.HTTPMethodConnect, gatewayv1.HTTPMethodOptions, gatewayv1.HTTPMethodTrace, gatewayv1.HTTPMethodPatch,
}

func matches[S any](b *ruleBuilder, specs []S, match func(spec *S, field string) model.Match,
	field string) (out []model.Match) {
	if len(specs) == 0 { // Gateway API's default matches
		specs = make([]S, 1)
	}
	for i := range specs {
		before := len(b.problems)
		m := match(&specs[i], fmt.Sprintf("%s.matches[%d]", field, i))
		if len(b.problems) == before {
			out = append(out, m)
		} else {
			b.unread = true
		}
	}
	return out
}

func (b *ruleBuilder) match(spec *gatewayv1.HTTPRouteMatch, field string) model.Match {
	m := model.Match{PathKind: model.PathPrefix, Path: "/"}
	b.path(&m, spec.Path, field+".path")
	if spec.Method != nil {
		m.Method = string(*spec.Method)
		if !slices.Contains(methods, *spec.Method) {
			b.unsupported(field+".method", "method %s is not supported", m.Method)
		}
		if *spec.Method == gatewayv1.HTTPMethodConnect {
			b.unreachable(field+".method", "Envoy hands no CONNECT request to a route", "remove the match")
		}
	}
	for i, h := range spec.Headers {
		typ := ptr.Deref(h.Type, gatewayv1.HeaderMatchExact)
		at := fmt.Sprintf("%s.headers[%d]", field, i)
		b.value(&m.Headers, string(typ), b.headerName(string(h.Name), at+".name"), h.Value, at)
		b.reachableHeader(string(h.Name), string(typ), h.Value, at)
	}
	for i, q := range spec.QueryParams {
		typ := ptr.Deref(q.Type, gatewayv1.QueryParamMatchExact)
		at := fmt.Sprintf("%s.queryParams[%d]", field, i)
		if q.Name == "" {
			b.unsupported(at+".name", "the name is empty")
		}
		b.value(&m.Query, string(typ), string(q.Name), q.Value, at)
		b.queryParameter(&m, q, typ, at)
	}
	return m
}

func (b *ruleBuilder) path(m *model.Match, spec *gatewayv1.HTTPPathMatch, field string) {
	if spec == nil {
		return
	}
	m.Path = ptr.Deref(spec.Value, m.Path)
	switch typ := ptr.Deref(spec.Type, gatewayv1.PathMatchPathPrefix); typ {
	case gatewayv1.PathMatchExact:
		m.PathKind = model.PathExact
	case gatewayv1.PathMatchPathPrefix:
		if m.Path != "/" {
			m.Path = strings.TrimSuffix(m.Path, "/")
		}
	case gatewayv1.PathMatchRegularExpression:
		m.PathKind = model.PathRegex
		if wrong := regexProblem(m.Path); wrong != "" {
			b.unsupported(field+".value", "%s", wrong)
			return
		}
		b.reachablePattern(m.Path, unreachableInPath, "no path has it once Envoy has normalized it", field+".value")
		return
	default:
		b.unsupported(field+".type", "path match type %s is not supported", typ)
		return
	}
	switch {
	case !strings.HasPrefix(m.Path, "/"):
		b.unsupported(field+".value", "path %q does not begin with /", m.Path)
	case !pathForm.MatchString(m.Path) || strings.Contains(m.Path, "//"):
		b.unsupported(field+".value", "path %q has something that no request's path has: ?, #, //, a space", m.Path)
	default:
		b.normalPath(m, field+".value")
	}
}

func (b *ruleBuilder) value(list *[]model.ValueMatch, typ, name, value, field string) {
	v := model.ValueMatch{Name: name, Value: value}
	switch typ {
	case string(gatewayv1.HeaderMatchExact):
	case string(gatewayv1.HeaderMatchRegularExpression):
		v.Regex = true
		wrong := regexProblem(value)
		if wrong != "" && credential.Named(name) { // reports do not quote credentials
			wrong = "the regular expression is not one of RE2, or is too large"
		}
		if wrong != "" {
			b.unsupported(field+".value", "%s", wrong)
			return
		}
	default:
		b.unsupported(field+".type", "match type %s is not supported", typ)
		return
	}
	if !slices.ContainsFunc(*list, func(o model.ValueMatch) bool { return o.Name == name }) {
		*list = append(*list, v)
	}
}

func regexProblem(pattern string) string {
	if wideEscape.MatchString(pattern) {
		return "characters above \\xFF must be written as they are, not as \\x{...}"
	}
	if err := envoy.CheckRegex(pattern); err != nil {
		return err.Error()
	}
	return ""
}

func (b *ruleBuilder) unsupported(field, format string, args ...any) {
	b.problem(field, gatewayv1.RouteReasonUnsupportedValue, fmt.Sprintf(format, args...), "")
}
