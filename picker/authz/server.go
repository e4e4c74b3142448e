package authz

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/authz/jwt"
)

// ServiceName is the gRPC service that ext_authz filters call.
const ServiceName = "envoy.service.auth.v3.Authorization"

// Keys of the context extensions in each call of an ext_authz filter. The values are
// comma-separated lists, or "true".
const (
	PoliciesKey = "policies"
	AnyKey      = "any"
	PoolsKey    = "pools" // Request.Pools; absent if unknown
	ListsKey    = "lists" // our picker answers the route's requests for the list of models
	FinalKey    = "final" // all possible routes have the same policies, so an early answer may be final
	WatchKey    = "watch" // open requests of the route are watched (Open)
)

// The early ext_authz filter, after which the route may still change, sends stageKey with the value
// earlyStage in its gRPC metadata.
const stageKey, earlyStage = "x-penstock-stage", "early"

// Config configures a Server.
type Config struct {
	Table *Table
	// Gateway returns the Gateway whose Envoy makes a call; "" if calls are not authenticated.
	Gateway func(context.Context) string
	// Gates reports whether a route of a Gateway has a policy. If not, Check returns an error for
	// calls about this policy.
	Gates func(gateway, policy string) bool
	// Tokens verifies tokens. A nil Tokens denies every token.
	Tokens Tokens
	// Failures records the calls that end with an error; may be nil.
	Failures *Failures
	Now      func() time.Time
}

// Server implements Envoy's authorization service for AccessPolicies.
type Server struct {
	cfg      Config
	attempts attempts
}

// New makes a Server.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { authv3.RegisterAuthorizationServer(r, s) }

// Check implements authv3.AuthorizationServer. After an error, Envoy tries again, and then denies
// the request with status 503.
func (s *Server) Check(ctx context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	a := in.GetAttributes()
	var policies []string
	if list := a.GetContextExtensions()[PoliciesKey]; list != "" {
		policies = strings.Split(list, ",")
	}
	if gateway := s.cfg.Gateway(ctx); gateway != "" {
		for _, p := range policies {
			if !s.cfg.Gates(gateway, p) {
				return nil, s.unavailable(causePolicy, "policy "+p+" gates no route of this Gateway, or not yet")
			}
		}
	}
	call := callOf(ctx, a)
	call.Policies = policies
	now := s.cfg.Now()
	credential, _ := presented(call.Headers)
	from := networkOf(a.GetSource().GetAddress().GetSocketAddress().GetAddress())
	limited := s.attempts.limited(from, credential, now)
	var token verdict
	if !limited {
		token = s.identify(ctx, &call, credential, now)
	}
	d, err := s.cfg.Table.Decide(call.Request, now)
	switch {
	case err != nil:
		return nil, s.unavailable(causeKeys, err.Error())
	case d.Reason != "" && token == pending:
		return nil, s.unavailable(causeTokens, jwt.ErrPending.Error())
	case ctx.Err() != nil:
		return nil, s.unavailable(causeLate, "the call has timed out: the machine may be overloaded")
	}
	switch {
	case limited:
		d = Decision{Reason: ReasonAttempts}
	case d.Reason == ReasonClosed && d.Key == nil: // Decide did not check the key
	case d.Key != nil || token == failed || !jwt.Formed(credential):
		s.attempts.note(from, credential, d.Key != nil, now)
	}
	if d.Reason == ReasonClosed {
		s.cfg.Failures.closed(d.Policy)
	}
	if d.Reason == "" && call.watch && call.decides(d) {
		call.grant = s.cfg.Table.grantOf(call.Request)
	}
	return call.reply(d), nil
}

func (s *Server) unavailable(cause, why string) error {
	s.cfg.Failures.call(cause, why)
	return status.Error(codes.Unavailable, why)
}

type call struct {
	Request
	path  string
	grpc  bool
	final bool
	watch bool
	grant string // "" if watch is false
	// preflight marks an early call about a CORS preflight request. Check permits it: the cors
	// filter or the late ext_authz filter answers the request.
	preflight bool
}

func callOf(ctx context.Context, a *authv3.AttributeContext) call {
	extensions, request := a.GetContextExtensions(), a.GetRequest().GetHttp()
	c := call{path: request.GetPath(), final: extensions[FinalKey] == "true",
		watch: extensions[WatchKey] == "true"}
	c.Headers = read(request.GetHeaderMap())
	c.grpc = strings.HasPrefix(c.header("content-type"), "application/grpc")
	meta, _ := metadata.FromIncomingContext(ctx)
	c.Early = slices.Contains(meta.Get(stageKey), earlyStage)
	c.Any = c.Early && extensions[AnyKey] == "true"
	list, known := extensions[PoolsKey]
	if c.Known = known; list != "" {
		c.Pools = strings.Split(list, ",")
	}
	c.Model = c.header(ModelHeader)
	c.Lists = !c.Early && extensions[ListsKey] == "true" && c.asksForModels(request.GetMethod())
	c.preflight = c.Early && request.GetMethod() == http.MethodOptions && c.header("origin") != "" &&
		c.header("access-control-request-method") != ""
	return c
}

func (c *call) asksForModels(method string) bool {
	path, _, _ := strings.Cut(c.path, "?")
	length := c.header("content-length")
	return (method == http.MethodGet || method == http.MethodHead) && strings.HasSuffix(path, "/v1/models") &&
		(length == "" || length == "0") && c.header(chunkedHeader) == "" && c.header("upgrade") == ""
}

func (c *call) header(name string) (value string) {
	for _, h := range c.Headers {
		switch {
		case h.Name != name:
		case value == "":
			value = h.Value
		default:
			value += "," + h.Value
		}
	}
	return value
}

func read(m *corev3.HeaderMap) []Header {
	out := make([]Header, 0, len(m.GetHeaders()))
	for _, h := range m.GetHeaders() {
		value := string(h.GetRawValue())
		if value == "" {
			value = h.GetValue()
		}
		out = append(out, Header{strings.ToLower(h.GetKey()), value})
	}
	return out
}
