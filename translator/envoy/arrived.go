package envoy

import (
	"net/http"
	"slices"
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// Request is a client's HTTP/1.1 request.
type Request struct {
	Method    string
	Authority string // authority of the URL, or the header Host
	Target    string // path and query
	Header    http.Header
	Model     string // model's name in the body; "" if absent
	TLS       bool
}

// Arrived is a request as an edge's routes receive it.
type Arrived struct {
	Method    string
	Authority string // with the port
	Host      string // lower case, without the port
	Path      string
	Query     string // "", or begins with "?"
	Header    map[string][]string
}

// Arrive returns a request as Envoy's routes receive it, or the answer of Envoy's HTTP connection
// manager (TestExplain_NeverDiffersFromEnvoy).
func Arrive(e model.Edge, r Request) (a Arrived, answer *model.Direct) {
	bad := func(why string) (Arrived, *model.Direct) {
		return a, &model.Direct{Status: http.StatusBadRequest, Body: why}
	}
	r.Target = strings.TrimRight(r.Target, " \t")
	header, why := codecHeader(e, r.Header)
	switch {
	case why != "":
		return bad(why)
	case !slices.Contains(knownMethods, r.Method):
		return bad("the method " + r.Method + " is not known")
	case strings.IndexFunc(r.Target, func(c rune) bool { return c > 126 || c <= ' ' }) >= 0:
		return bad("the URL has a character that a client must escape")
	case r.Method == http.MethodConnect:
		return a, &model.Direct{Status: http.StatusNotFound, Body: "no route takes CONNECT"}
	case r.Authority == "":
		return bad("the request has no host")
	case strings.IndexFunc(r.Authority, noAuthority) >= 0:
		return bad("the host has a character that no host has")
	case strings.Contains(r.Target, "#"):
		return bad("the path has a fragment")
	case !strings.HasPrefix(r.Target, "/"):
		return a, &model.Direct{Status: http.StatusNotFound, Body: "the path does not begin with /"}
	}
	a = Arrived{Method: r.Method, Authority: withoutDot(r.Authority), Header: header}
	var status uint32
	a.Path, a.Query, status = arrivedPath(e.EscapedSlashes, r.Target)
	switch {
	case status == http.StatusTemporaryRedirect && GRPCType(a.Header["content-type"]):
		return a, &model.Direct{Status: http.StatusOK, Body: "INTERNAL: the path has an escaped slash"}
	case status == http.StatusTemporaryRedirect:
		return a, &model.Direct{Status: status, Body: "redirect to " + a.Path + a.Query + ", without escaped slashes"}
	case status != 0:
		return bad("the path is invalid, or has an escaped slash")
	}
	a.Host = strings.ToLower(withoutPort(a.Authority))
	a.change(e, r)
	return a, nil
}

// UpgradesTwice reports whether the Upgrade header names websocket more than once. If a route
// matches such a request, Envoy answers 403.
func (a *Arrived) UpgradesTwice() bool {
	to := a.Header["upgrade"]
	return to != nil && !strings.EqualFold(to[0], websocket)
}

// GRPCType reports whether a request's content type is gRPC.
func GRPCType(contentType []string) bool {
	rest, ok := strings.CutPrefix(strings.Join(contentType, ","), "application/grpc")
	return ok && (rest == "" || rest[0] == '+')
}

var knownMethods = []string{
	"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "COPY", "LOCK", "MKCOL",
	"MOVE", "PROPFIND",
	"PROPPATCH", "SEARCH", "UNLOCK", "BIND", "REBIND", "UNBIND", "ACL", "REPORT", "MKACTIVITY", "CHECKOUT",
	"MERGE", "M-SEARCH",
	"NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "PURGE", "MKCALENDAR", "LINK", "UNLINK", "SOURCE",
}

func noAuthority(c rune) bool {
	letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	return !letter && !strings.ContainsRune("-._~%!$&'()[]*+,;=:@", c)
}

func withoutDot(authority string) string {
	i := strings.LastIndexByte(authority, '.')
	if i >= 0 && (i == len(authority)-1 || authority[i+1] == ':') {
		return authority[:i] + authority[i+1:]
	}
	return authority
}

func withoutPort(authority string) string {
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		return authority[:i]
	}
	return authority
}

func codecHeader(e model.Edge, in http.Header) (out map[string][]string, why string) {
	out = map[string][]string{}
	for name, values := range in {
		name = strings.ToLower(name)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, "the name of a header is invalid"
		}
		if strings.Contains(name, "_") && e.Underscores != v1alpha1.AllowUnderscores {
			if e.Underscores != v1alpha1.DropUnderscores {
				return nil, "the header " + name +
					" has an underscore (clients.headersWithUnderscores of the EnvoyFleet)"
			}
			continue
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, "the value of the header " + name + " is invalid"
			}
			out[name] = append(out[name], strings.Trim(v, " \t"))
		}
		if slices.Contains(joined, name) {
			parts := slices.DeleteFunc(out[name], func(v string) bool { return v == "" })
			out[name] = []string{strings.Join(parts, ",")}
		}
	}
	delete(out, "host")
	return out, ""
}

// Envoy joins the values of these headers. It matches each value of other headers separately.
var joined = []string{
	"accept", "accept-encoding", "access-control-request-headers", "access-control-request-method",
	"access-control-request-private-network",
	"authorization", "cache-control", "connection", "content-encoding", "content-length", "content-type", "expect",
	"grpc-accept-encoding",
	"grpc-timeout", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "origin",
	"pragma", "proxy-status",
	"referer", "te", "upgrade", "user-agent", "via", "x-client-trace-id", "x-envoy-attempt-count",
	"x-forwarded-for", "x-forwarded-host",
	"x-forwarded-port", "x-forwarded-proto", "x-request-id",
}

func (a *Arrived) change(e model.Edge, r Request) {
	upgrade := slices.DeleteFunc(tokens(a.Header["upgrade"]), func(to string) bool {
		return !strings.EqualFold(to,
			websocket)
	})
	a.Header["upgrade"] = []string{strings.Join(upgrade, ",")}
	if len(upgrade) == 0 || !slices.ContainsFunc(tokens(a.Header["connection"]),
		func(t string) bool { return strings.EqualFold(t, "upgrade") }) {
		delete(a.Header, "connection")
		delete(a.Header, "upgrade")
	}
	for name := range a.Header {
		if Removed(name) || name == "x-forwarded-client-cert" {
			delete(a.Header, name)
		}
	}
	if te := a.Header["te"]; te != nil {
		a.Header["te"] = []string{"trailers"}
		if !slices.Contains(tokens(te), "trailers") {
			delete(a.Header, "te")
		}
	}
	if expect := a.Header["expect"]; expect != nil && strings.EqualFold(expect[0], "100-continue") {
		delete(a.Header, "expect")
	}
	scheme := "http"
	if r.TLS {
		scheme = "https"
	}
	if e.TrustedHops == 0 || a.Header["x-forwarded-proto"] == nil {
		a.Header["x-forwarded-proto"] = []string{scheme}
	}
	if e.RequestIDs != v1alpha1.KeepRequestIDs || a.Header["x-request-id"] == nil {
		a.Header["x-request-id"] = []string{"00000000-0000-4000-8000-000000000000"} // Envoy generates an ID
	}
	a.Header["x-forwarded-for"] = []string{strings.Join(append(a.Header["x-forwarded-for"], unknownAddress), ",")}
	a.Header["x-envoy-external-address"] = []string{unknownAddress}
	a.Header["host"] = []string{a.Authority}
	if r.Model != "" {
		a.Header[ModelHeader] = []string{r.Model}
	}
}

func tokens(values []string) (out []string) {
	for t := range strings.SplitSeq(strings.Join(values, ","), ",") {
		out = append(out, strings.TrimSpace(t))
	}
	return out
}

const unknownAddress = "0.0.0.0"

// Removed reports whether an edge removes a client's header. The name must be in lower case.
func Removed(name string) bool {
	return slices.Contains(internalHeaders, name) || slices.ContainsFunc(edgeHeaders,
		func(m *mutationv3.HeaderMutation) bool {
			if prefix := m.GetRemoveOnMatch().GetKeyMatcher().GetPrefix(); prefix != "" {
				return strings.HasPrefix(name, prefix)
			}
			return m.GetRemove() != "" && m.GetRemove() == name
		})
}

var internalHeaders = []string{
	"keep-alive", "proxy-connection", "transfer-encoding", "x-envoy-internal",
	"x-envoy-decorator-operation", "x-envoy-downstream-service-cluster", "x-envoy-downstream-service-node",
	"x-envoy-retry-on", "x-envoy-retry-grpc-on", "x-envoy-max-retries", "x-envoy-upstream-alt-stat-name",
	"x-envoy-upstream-rq-timeout-ms", "x-envoy-upstream-rq-per-try-timeout-ms",
	"x-envoy-upstream-rq-timeout-alt-response",
	"x-envoy-expected-rq-timeout-ms", "x-envoy-force-trace", "x-envoy-ip-tags", "x-envoy-original-url",
	"x-envoy-hedge-on-per-try-timeout", "x-envoy-retriable-status-codes", "x-envoy-retriable-header-names",
	"x-envoy-is-timeout-retry",
	"x-envoy-original-path", "x-envoy-original-host",
}
