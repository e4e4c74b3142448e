package envoy

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/penstock-project/penstock/translator/model"
)

var redirectCodes = map[uint32]routev3.RedirectAction_RedirectResponseCode{
	301: routev3.RedirectAction_MOVED_PERMANENTLY,
	302: routev3.RedirectAction_FOUND,
	303: routev3.RedirectAction_SEE_OTHER,
	307: routev3.RedirectAction_TEMPORARY_REDIRECT,
	308: routev3.RedirectAction_PERMANENT_REDIRECT,
}

// redirect implements HTTPRequestRedirectFilter. The Location omits the scheme's default port.
func (b *builder) redirect(vh *model.VirtualHost, route *routev3.Route, m model.Match, r *model.Redirect) {
	code, ok := redirectCodes[r.Code]
	if !ok {
		b.fail("redirect with status %d", r.Code)
	}
	ra := &routev3.RedirectAction{HostRedirect: r.Host, ResponseCode: code}
	scheme, own := "http", uint32(0)
	if s, port, ok := model.ParseChain(vh.Chain); ok {
		scheme, own = string(s), uint32(port)
	}
	if r.Scheme != "" {
		scheme = r.Scheme
		own = wellKnown(scheme)
		ra.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: scheme}
	}
	port := uint32(r.Port)
	if port == 0 {
		port = own
	}
	switch {
	case port != wellKnown(scheme):
		ra.PortRedirect = port
	case ra.HostRedirect != "":
	case !strings.HasPrefix(vh.Host, "*"):
		ra.HostRedirect = vh.Host
	default:
		// Envoy keeps the port of the Host header unless the redirect sets a port.
		ra.PortRedirect = port
		put(&route.TypedPerFilterConfig, filterScripts, b.script(portCode))
	}
	switch c := r.Path; {
	case c.Full != nil:
		ra.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: *c.Full}
	case c.Prefix != nil:
		prefix, re := b.prefixRewrite(m, *c.Prefix)
		if re != nil {
			ra.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: re}
		} else {
			ra.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: prefix}
		}
	}
	route.Action = &routev3.Route_Redirect{Redirect: ra}
}

func wellKnown(scheme string) uint32 {
	if scheme == "https" {
		return 443
	}
	return 80
}
