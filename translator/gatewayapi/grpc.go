package gatewayapi

import (
	"fmt"
	"regexp"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/translator/model"
)

func (b *ruleBuilder) grpcRules(rules []gatewayv1.GRPCRouteRule) {
	if len(rules) == 0 { // a route without rules takes every gRPC request, and has no backend
		rules = []gatewayv1.GRPCRouteRule{{}}
	}
	for i := range rules {
		spec := &rules[i]
		as := gatewayv1.HTTPRouteRule{Name: spec.Name, Filters: grpcFilters(spec.Filters),
			SessionPersistence: spec.SessionPersistence}
		for j := range spec.BackendRefs {
			ref := &spec.BackendRefs[j]
			as.BackendRefs = append(as.BackendRefs,
				gatewayv1.HTTPBackendRef{BackendRef: ref.BackendRef, Filters: grpcFilters(ref.Filters)})
		}
		b.out.Rules = append(b.out.Rules,
			b.rule(&as, i, func(field string) []model.Match { return matches(b, spec.Matches, b.grpcMatch, field) }))
	}
}

func grpcFilters(specs []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	var out []gatewayv1.HTTPRouteFilter
	for _, f := range specs {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type:                  gatewayv1.HTTPRouteFilterType(f.Type),
			RequestHeaderModifier: f.RequestHeaderModifier, ResponseHeaderModifier: f.ResponseHeaderModifier,
			RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
		})
	}
	return out
}

func (b *ruleBuilder) grpcMatch(spec *gatewayv1.GRPCRouteMatch, field string) model.Match {
	m := model.Match{PathKind: model.PathPrefix, Path: "/", GRPC: &model.GRPCMethod{}}
	if spec.Method != nil {
		b.grpcMethod(&m, spec.Method, field+".method")
	}
	for i, h := range spec.Headers {
		typ := ptr.Deref(h.Type, gatewayv1.GRPCHeaderMatchExact)
		at := fmt.Sprintf("%s.headers[%d]", field, i)
		b.value(&m.Headers, string(typ), b.headerName(string(h.Name), at+".name"), h.Value, at)
		b.reachableHeader(string(h.Name), string(typ), h.Value, at)
	}
	return m
}

const anyName = "[^/]+"

func (b *ruleBuilder) grpcMethod(m *model.Match, spec *gatewayv1.GRPCMethodMatch, field string) {
	service, method := ptr.Deref(spec.Service, ""), ptr.Deref(spec.Method, "")
	m.GRPC.Service, m.GRPC.Method = service, method
	switch typ := ptr.Deref(spec.Type, gatewayv1.GRPCMethodMatchExact); typ {
	case gatewayv1.GRPCMethodMatchExact:
		b.grpcName(service, field+".service")
		b.grpcName(method, field+".method")
		switch {
		case service != "" && method != "":
			m.PathKind, m.Path = model.PathExact, "/"+service+"/"+method
		case service != "":
			m.Path = "/" + service
		case method != "":
			m.PathKind, m.Path = model.PathRegex, "/"+anyName+"/"+regexp.QuoteMeta(method)
		}
	case gatewayv1.GRPCMethodMatchRegularExpression:
		m.PathKind = model.PathRegex
		m.Path = "/" + b.grpcPattern(service, field+".service") + "/" + b.grpcPattern(method, field+".method")
		if wrong := regexProblem(m.Path); wrong != "" {
			b.unsupported(field, "%s", wrong)
		}
	default:
		b.unsupported(field+".type", "method match type %s is not supported", typ)
	}
}

func (b *ruleBuilder) grpcPattern(pattern, field string) string {
	if pattern == "" {
		return anyName
	}
	if wrong := regexProblem(pattern); wrong != "" {
		b.unsupported(field, "%s", wrong)
	}
	return "(?:" + pattern + ")"
}

var grpcNameForm = regexp.MustCompile(`^[A-Za-z0-9_.]+$`)

func (b *ruleBuilder) grpcName(name, field string) {
	if name != "" && !grpcNameForm.MatchString(name) {
		b.unsupported(field, "%q is not a name of gRPC: letters, digits, underscores and dots", name)
	}
}
