package authz

import (
	"context"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ServiceName is the gRPC service of gates.
const ServiceName = "envoy.service.auth.v3.Authorization"

// PoliciesKey is the key of a gate's context extension: the policies above its route,
// comma-separated, the outermost first.
const PoliciesKey = "policies"

// Config configures a Server.
type Config struct {
	Table *Table
	// Gateway returns the Gateway whose proxy makes a call; "" if calls prove none.
	Gateway func(context.Context) string
	// Gates reports whether a route of a Gateway has a policy: its proxies may ask about no other.
	Gates func(gateway, policy string) bool
	Now   func() time.Time
}

// Server is the authorization service.
type Server struct{ cfg Config }

// New makes a Server.
func New(cfg Config) *Server { return &Server{cfg} }

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { authv3.RegisterAuthorizationServer(r, s) }

// Check implements authv3.AuthorizationServer. An error denies the request, with 503.
func (s *Server) Check(ctx context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	a := in.GetAttributes()
	var policies []string
	if list := a.GetContextExtensions()[PoliciesKey]; list != "" {
		policies = strings.Split(list, ",")
	}
	if gateway := s.cfg.Gateway(ctx); gateway != "" {
		for _, p := range policies {
			if !s.cfg.Gates(gateway, p) {
				return nil, status.Error(codes.Unavailable, "the policy gates no route of this Gateway, or not yet")
			}
		}
	}
	request := a.GetRequest().GetHttp()
	headers := read(request.GetHeaderMap())
	d, err := s.cfg.Table.Decide(policies, headers, s.cfg.Now())
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return reply(d, policies, client{path: request.GetPath(), grpc: isGRPC(headers)}), nil
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

func isGRPC(headers []Header) bool {
	for _, h := range headers {
		if h.Name == "content-type" {
			return strings.HasPrefix(h.Value, "application/grpc")
		}
	}
	return false
}
