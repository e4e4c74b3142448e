package gatewayapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/translator/model"
)

var originForm = regexp.MustCompile(`^https?://(\*|(\*\.)?([a-zA-Z0-9-]+\.)*[a-zA-Z0-9-]+)(:[0-9]{1,5})?$`)

func (b *ruleBuilder) cors(spec *gatewayv1.HTTPCORSFilter, field string) *model.CORS {
	out := &model.CORS{MaxAge: 5 * time.Second} // default of MaxAge in Gateway API
	if spec.MaxAge > 0 {
		out.MaxAge = time.Duration(spec.MaxAge) * time.Second
	}
	out.Credentials = spec.AllowCredentials != nil && *spec.AllowCredentials
	for i, o := range spec.AllowOrigins {
		if o != "*" && !originForm.MatchString(string(o)) {
			b.unsupported(fmt.Sprintf("%s.allowOrigins[%d]", field, i),
				"%q is not an origin such as https://example.com or https://*.example.com", o)
			continue
		}
		out.Origins = append(out.Origins, origin(string(o)))
	}
	for i, m := range spec.AllowMethods {
		if m != "*" && !token.MatchString(string(m)) {
			b.unsupported(fmt.Sprintf("%s.allowMethods[%d]", field, i), "%q is not a method", m)
		}
		out.Methods = append(out.Methods, string(m))
	}
	read := func(list []gatewayv1.HTTPHeaderName, field string) (names []string) {
		for i, h := range list {
			if !token.MatchString(string(h)) {
				b.unsupported(fmt.Sprintf("%s[%d]", field, i), "%q is not the name of a header", h)
			}
			names = append(names, string(h))
		}
		return names
	}
	out.Headers = read(spec.AllowHeaders, field+".allowHeaders")
	out.Expose = read(spec.ExposeHeaders, field+".exposeHeaders")
	if out.Credentials && slices.Contains(out.Expose, "*") {
		// With credentials, browsers take "*" for a header's name.
		out.Expose = slices.DeleteFunc(out.Expose, func(h string) bool { return h == "*" })
		b.warn(field+".exposeHeaders", `"*" exposes nothing where credentials are allowed`, "name the headers")
	}
	return out
}

func origin(o string) string {
	o = strings.ToLower(o)
	for scheme, port := range map[string]string{"http://": ":80", "https://": ":443"} {
		if strings.HasPrefix(o, scheme) {
			o = strings.TrimSuffix(o, port)
		}
	}
	return o
}
