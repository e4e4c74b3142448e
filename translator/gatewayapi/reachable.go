package gatewayapi

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
)

// Envoy changes requests before matching, and matches query parameters in encoded form. unreachable
// warns of matches that cannot be converted to these forms.

func (b *ruleBuilder) unreachable(field, why, fix string) {
	b.warn(field, "no request meets this match: "+why, fix)
}

func (b *ruleBuilder) normalPath(m *model.Match, field string) {
	path, ok := envoy.NormalizePath(m.Path)
	switch {
	case !ok:
		b.unreachable(field, "Envoy answers requests for such a path 400", "write the path without %00")
		return
	case envoy.EscapesSlash(m.Path):
		b.warn(field,
			"requests meet this match only where clients.escapedSlashes of the Gateway's EnvoyFleet is KeepUnchanged: "+
				"the path has an escaped slash", "write the path without the escape")
	}
	if m.PathKind == model.PathPrefix && path != "/" {
		path = strings.TrimSuffix(path, "/")
	}
	m.Path = path
}

func (b *ruleBuilder) reachableHeader(name, typ, value, field string) {
	name = strings.ToLower(name)
	exact := typ == string(gatewayv1.HeaderMatchExact)
	switch {
	case name == envoy.ModelHeader:
	case envoy.Removed(name):
		b.unreachable(field+".name", "the gateway removes the header "+name+" of clients", "match another header")
	case strings.Contains(name, "_"):
		b.warn(field+".name",
			"requests meet this match only where clients.headersWithUnderscores of the Gateway's EnvoyFleet is Allow",
			"match a header without an underscore")
	case exact && (strings.Trim(value, " \t") != value || strings.IndexFunc(value, isControl) >= 0):
		b.unreachable(field+".value", "no value of a header begins or ends with a space, or has a control character",
			"remove these characters")
	case exact && name == "host" && strings.HasSuffix(value, "."):
		b.unreachable(field+".value", "the gateway removes the dot at the end of a host", "write the host without it")
	case exact && (name == "upgrade" && !strings.EqualFold(value, "websocket") || name == "te" && value != "trailers" ||
		name == "expect" && strings.EqualFold(value, "100-continue")):
		b.unreachable(field+".value",
			"the gateway handles the header "+name+" with this value itself, and removes it", "match another header")
	case !exact:
		b.reachablePattern(value, func(text string) bool { return strings.IndexFunc(text, isControl) >= 0 },
			"no value of a header has it", field+".value")
	}
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

func (b *ruleBuilder) queryParameter(m *model.Match, q gatewayv1.HTTPQueryParamMatch,
	typ gatewayv1.QueryParamMatchType, field string) {
	if strings.ContainsAny(string(q.Name), "#&") {
		b.unreachable(field+".name", "the name of a query parameter has no # or &",
			"write the name in the form in which clients send it: %23, %26")
	}
	switch typ {
	case gatewayv1.QueryParamMatchRegularExpression:
		b.reachablePattern(q.Value, unreachableInQuery,
			"Envoy matches query parameters as clients send them, encoded", field+".value")
	case gatewayv1.QueryParamMatchExact:
		for i := range m.Query {
			v := &m.Query[i]
			if pattern := sentForms(v.Value); v.Name == string(q.Name) && !v.Regex && pattern != "" {
				v.Written, v.Value, v.Regex = v.Value, pattern, true
			}
		}
	}
}

// sentForms returns a regular expression for all encodings of a query parameter's value, or "" if
// only one exists.
func sentForms(value string) string {
	var out strings.Builder
	several := false
	for i := 0; i < len(value); {
		c, n := value[i], 1
		if decoded, ok := envoy.Unescape(value[i:]); ok {
			c, n = decoded, 3
		}
		i += n
		form := string(c)
		if plain := envoy.Unreserved(c); !plain || n > 1 {
			several = true
			form = sentForm(c, plain)
		} else {
			form = regexp.QuoteMeta(form)
		}
		out.WriteString(form)
	}
	if !several {
		return ""
	}
	return out.String()
}

func sentForm(c byte, plain bool) string {
	forms := []string{fmt.Sprintf("%%(?i:%02x)", c)}
	switch {
	case c == ' ':
		forms = append(forms, `\+`)
	case plain, c > ' ' && c < 0x7f && c != '#' && c != '&' && c != '%':
		forms = append(forms, regexp.QuoteMeta(string(rune(c))))
	}
	if len(forms) == 1 {
		return forms[0]
	}
	return "(?:" + strings.Join(forms, "|") + ")"
}

func (b *ruleBuilder) reachablePattern(pattern string, never func(string) bool, why, field string) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return
	}
	if text := demanded(re, never); text != "" {
		b.unreachable(field, fmt.Sprintf("the expression demands %q, and %s", text, why),
			"write it in the form that requests have")
	}
}

// demanded returns a text that every match of a regular expression contains, and that never
// reports to be in no request. It returns "" without such a text.
func demanded(re *syntax.Regexp, never func(string) bool) string {
	switch re.Op {
	case syntax.OpLiteral:
		if text := string(re.Rune); re.Flags&syntax.FoldCase == 0 && never(text) {
			return text
		}
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		for _, s := range re.Sub {
			if text := demanded(s, never); text != "" {
				return text
			}
		}
	case syntax.OpRepeat:
		if re.Min > 0 {
			return demanded(re.Sub[0], never)
		}
	}
	return ""
}

func unreachableInPath(text string) bool {
	path, ok := envoy.NormalizePath("/x" + text + "x")
	return !ok || path != "/x"+text+"x"
}

func unreachableInQuery(text string) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' || c == '&' }) >= 0
}
