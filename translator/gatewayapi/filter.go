package gatewayapi

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

type filters struct {
	redirect          *model.Redirect
	rewriteHost       string
	rewritePath       model.PathChange
	request, response model.HeaderChanges
	mirrors           []model.Mirror
	cors              *model.CORS
	auth              *model.ExternalAuth
	clusters          []model.ClusterID
	subset            *v1alpha1.PoolPolicy
	fails             bool
}

func (f *filters) own() *model.OwnFilters {
	if f.redirect == nil && f.rewritePath == (model.PathChange{}) && f.mirrors == nil && f.cors == nil &&
		f.auth == nil {
		return nil
	}
	return &model.OwnFilters{Redirect: f.redirect, RewritePath: f.rewritePath, Mirrors: f.mirrors, CORS: f.cors,
		Auth: f.auth}
}

func (b *ruleBuilder) filters(specs []gatewayv1.HTTPRouteFilter, matches []model.Match, field string,
	backend bool) filters {
	var f filters
	var seen []gatewayv1.HTTPRouteFilterType
	for i := range specs {
		spec := &specs[i]
		at := fmt.Sprintf("%s[%d]", field, i)
		if slices.Contains(seen, spec.Type) && spec.Type != gatewayv1.HTTPRouteFilterRequestMirror &&
			spec.Type != gatewayv1.HTTPRouteFilterExtensionRef {
			b.problem(at, gatewayv1.RouteReasonIncompatibleFilters, fmt.Sprintf("filter %s is given twice", spec.Type),
				"put all into one")
		}
		seen = append(seen, spec.Type)
		switch {
		case spec.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && spec.RequestHeaderModifier != nil:
			f.request = b.headers(spec.RequestHeaderModifier, at+".requestHeaderModifier", &f.rewriteHost)
		case spec.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && spec.ResponseHeaderModifier != nil:
			f.response = b.headers(spec.ResponseHeaderModifier, at+".responseHeaderModifier", nil)
		case spec.Type == gatewayv1.HTTPRouteFilterRequestRedirect && spec.RequestRedirect != nil:
			f.redirect = b.redirect(spec.RequestRedirect, matches, at+".requestRedirect")
		case spec.Type == gatewayv1.HTTPRouteFilterURLRewrite && spec.URLRewrite != nil:
			if spec.URLRewrite.Hostname != nil {
				f.rewriteHost = string(*spec.URLRewrite.Hostname)
				b.text(f.rewriteHost, at+".urlRewrite.hostname")
			}
			f.rewritePath = b.pathChange(spec.URLRewrite.Path, matches, at+".urlRewrite.path")
		case spec.Type == gatewayv1.HTTPRouteFilterRequestMirror && spec.RequestMirror != nil:
			b.mirror(&f, spec.RequestMirror, at+".requestMirror")
		case spec.Type == gatewayv1.HTTPRouteFilterCORS && spec.CORS != nil:
			f.cors = b.cors(spec.CORS, at+".cors")
		case spec.Type == gatewayv1.HTTPRouteFilterExternalAuth && spec.ExternalAuth != nil:
			b.externalAuth(&f, spec.ExternalAuth, at+".externalAuth")
		case spec.Type == gatewayv1.HTTPRouteFilterExtensionRef && spec.ExtensionRef != nil:
			b.extension(&f, spec.ExtensionRef, at, backend)
		default:
			b.unsupported(at, "filter %s is not supported", spec.Type)
		}
	}
	if slices.Contains(seen, gatewayv1.HTTPRouteFilterRequestRedirect) &&
		slices.Contains(seen, gatewayv1.HTTPRouteFilterURLRewrite) {
		b.problem(field, gatewayv1.RouteReasonIncompatibleFilters, "RequestRedirect and URLRewrite do not go together",
			"remove one of them")
	}
	if f.redirect != nil && len(f.mirrors) > 0 {
		b.warn(field, "requests that are redirected are not mirrored", "remove the RequestMirror filter")
	}
	return f
}

// headers reads a header filter. Envoy changes Host only by a host rewrite, so headers stores the
// filter's Host in *host; nil means that the filter cannot set Host.
func (b *ruleBuilder) headers(spec *gatewayv1.HTTPHeaderFilter, field string, host *string) model.HeaderChanges {
	read := func(list []gatewayv1.HTTPHeader, field string, set bool) (out []model.Header) {
		for i, h := range list {
			at := fmt.Sprintf("%s[%d]", field, i)
			name := b.modified(string(h.Name), at+".name")
			b.text(h.Value, at+".value")
			switch {
			case name == "host" && set && host != nil:
				if *host == "" {
					*host = h.Value
				}
			case name == "host":
				b.unsupported(at, "the Host header cannot be changed here")
			case !slices.ContainsFunc(out, func(o model.Header) bool { return o.Name == name }):
				out = append(out, model.Header{Name: name, Value: h.Value})
			}
		}
		return out
	}
	out := model.HeaderChanges{Set: read(spec.Set, field+".set", true), Add: read(spec.Add, field+".add", false)}
	for i, h := range spec.Remove {
		at := fmt.Sprintf("%s.remove[%d]", field, i)
		name := b.modified(h, at)
		if name == "host" {
			b.unsupported(at, "the Host header cannot be removed")
		}
		if !slices.Contains(out.Remove, name) {
			out.Remove = append(out.Remove, name)
		}
	}
	return out
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ownHeaders are prefixes of the headers in which Penstock passes on the caller's identity. A route
// that sets such a header would forge the identity.
var ownHeaders = []string{"x-penstock-", "penstock-peer-"}

// headerName reports an invalid name, because Envoy rejects a whole route configuration for it.
func (b *ruleBuilder) headerName(name, field string) string {
	if !token.MatchString(name) {
		b.unsupported(field, "%q is not the name of a header", name)
	}
	return strings.ToLower(name)
}

// modified checks the name of a header that a filter changes, and returns it in lower case.
func (b *ruleBuilder) modified(name, field string) string {
	name = b.headerName(name, field)
	for _, prefix := range ownHeaders {
		if strings.HasPrefix(name, prefix) {
			b.problem(field, gatewayv1.RouteReasonUnsupportedValue, "headers "+prefix+"* are Penstock's own",
				"use another name")
		}
	}
	return name
}

func (b *ruleBuilder) text(s, field string) {
	if strings.ContainsAny(s, "\x00\r\n") {
		b.unsupported(field, "%q has a character that ends a header", s)
	}
}

func (b *ruleBuilder) redirect(spec *gatewayv1.HTTPRequestRedirectFilter, matches []model.Match,
	field string) *model.Redirect {
	out := &model.Redirect{Code: 302, Path: b.pathChange(spec.Path, matches, field+".path")}
	if spec.Scheme != nil {
		out.Scheme = strings.ToLower(*spec.Scheme)
		if out.Scheme != "http" && out.Scheme != "https" {
			b.unsupported(field+".scheme", "scheme %s is not supported", *spec.Scheme)
		}
	}
	if spec.Hostname != nil {
		out.Host = string(*spec.Hostname)
		b.text(out.Host, field+".hostname")
	}
	out.Port = uint16(ptr.Deref(spec.Port, 0))
	if spec.StatusCode != nil {
		out.Code = uint32(*spec.StatusCode)
		if !slices.Contains([]uint32{301, 302, 303, 307, 308}, out.Code) {
			b.unsupported(field+".statusCode", "status code %d is not supported", *spec.StatusCode)
		}
	}
	return out
}

func (b *ruleBuilder) pathChange(spec *gatewayv1.HTTPPathModifier, matches []model.Match,
	field string) model.PathChange {
	switch {
	case spec == nil:
		return model.PathChange{}
	case spec.Type == gatewayv1.FullPathHTTPPathModifier && spec.ReplaceFullPath != nil:
		b.text(*spec.ReplaceFullPath, field+".replaceFullPath")
		return model.PathChange{Full: spec.ReplaceFullPath}
	case spec.Type == gatewayv1.PrefixMatchHTTPPathModifier && spec.ReplacePrefixMatch != nil:
		b.text(*spec.ReplacePrefixMatch, field+".replacePrefixMatch")
		if slices.ContainsFunc(matches, func(m model.Match) bool { return m.PathKind != model.PathPrefix }) {
			b.unsupported(field, "replacing the matched prefix needs PathPrefix matches")
		}
		return model.PathChange{Prefix: spec.ReplacePrefixMatch}
	}
	b.unsupported(field+".type", "path modifier %s is not supported or has no value", spec.Type)
	return model.PathChange{}
}

// gep2257 is the form of durations (GEP-2257), a subset of Go's form.
var gep2257 = regexp.MustCompile(`^([0-9]{1,5}(h|m|s|ms)){1,4}$`)

func (b *ruleBuilder) duration(spec *gatewayv1.Duration, field string) *time.Duration {
	if spec == nil {
		return nil
	}
	d, err := time.ParseDuration(string(*spec))
	if err != nil || !gep2257.MatchString(string(*spec)) {
		b.problem(field, gatewayv1.RouteReasonUnsupportedValue, fmt.Sprintf("%q is not a duration", *spec),
			"write one such as 500ms, 10s or 1h30m")
		return nil
	}
	return &d
}

func (b *ruleBuilder) timeouts(spec *gatewayv1.HTTPRouteTimeouts, field string) (request, backend *time.Duration) {
	if spec == nil {
		return nil, nil
	}
	request, backend = b.duration(spec.Request, field+".request"),
		b.duration(spec.BackendRequest, field+".backendRequest")
	if request != nil && backend != nil && *request > 0 && *backend > *request {
		b.unsupported(field+".backendRequest", "one attempt (%s) may not take longer than the whole request (%s)",
			*backend, *request)
	}
	return request, backend
}

func (b *ruleBuilder) retry(spec *gatewayv1.HTTPRouteRetry, field string) *model.Retry {
	if spec == nil {
		return nil
	}
	out := &model.Retry{Attempts: uint32(max(0, ptr.Deref(spec.Attempts, 1)))}
	for i, c := range spec.Codes {
		if c < 400 || c > 599 {
			b.unsupported(fmt.Sprintf("%s.codes[%d]", field, i), "status %d cannot be retried on", c)
			continue
		}
		out.Codes = append(out.Codes, uint32(c))
	}
	out.Codes = sorted(out.Codes, cmp.Compare[uint32])
	if d := b.duration(spec.Backoff, field+".backoff"); d != nil {
		out.Backoff = *d
	}
	return out
}
