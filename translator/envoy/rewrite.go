package envoy

import (
	"regexp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// rewrite changes only the path: a host on the route would override the hosts of weighted clusters.
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

// If the replacement is empty, /foo/bar becomes /bar and /foo becomes / (HTTPPathModifier). Envoy's
// prefix_rewrite cannot do both, so a regular expression does.
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
