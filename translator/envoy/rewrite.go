package envoy

import (
	"regexp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// Weighted clusters change the host, because a host on the route would override theirs.
func (b *builder) rewrite(m model.Match, f *model.Forward, ra *routev3.RouteAction) {
	switch c := f.RewritePath; {
	case c.Full != nil:
		ra.RegexRewrite = wholePath(*c.Full)
	case c.Prefix != nil:
		ra.PrefixRewrite, ra.RegexRewrite = b.prefixRewrite(m, *c.Prefix)
	}
}

func wholePath(path string) *matcherv3.RegexMatchAndSubstitute {
	return &matcherv3.RegexMatchAndSubstitute{Pattern: regex("^/.*"), Substitution: literal(path)}
}

// Envoy's prefix_rewrite follows HTTPPathModifier unless the replacement is empty: /foo/bar becomes
// /bar, but /foo must become /.
func (b *builder) prefixRewrite(m model.Match, replacement string) (string, *matcherv3.RegexMatchAndSubstitute) {
	if m.PathKind == model.PathExact || m.PathKind == model.PathRegex {
		b.fail("a prefix can be replaced only where a prefix is matched, not in %s %q", m.PathKind, m.Path)
		return "", nil
	}
	prefix, replacement := elements(m.Path), elements(replacement)
	switch {
	case prefix == "":
		return replacement + "/", nil
	case replacement == "":
		return "", &matcherv3.RegexMatchAndSubstitute{
			Pattern: regex("^" + regexp.QuoteMeta(prefix) + "/?"), Substitution: "/",
		}
	default:
		return replacement, nil
	}
}

func literal(s string) string { return strings.ReplaceAll(s, `\`, `\\`) }
