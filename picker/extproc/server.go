package extproc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/request"
)

// Picker decides about requests. Many streams call it concurrently.
type Picker interface {
	// Begin may set r.Imported. An error ends the call.
	Begin(ctx context.Context, r *Request) (Pick, error)
}

// Pick decides about one stream's request.
type Pick interface {
	// Body is called after the headers have arrived.
	Body() BodyPolicy
	// Replacement returns the replacement of a model in the body, or nil, with BodyPolicy.Rewrite.
	// In STREAMED it may also be called after Answer.
	Replacement(model string) *request.Target
	// Answer answers the request, once. After Answer.Track's End, the Pick must not keep any part
	// of the request.
	Answer() Answer
	End()
}

// BodyPolicy describes how a pool uses request bodies.
type BodyPolicy struct {
	// Wait delays the pick until the body has been read, except in the body modes NONE and
	// STREAMED, and for upgrades and gRPC streams. Prompts does so only for APIs whose prompts the
	// picker can read.
	Wait, Prompts bool
	// Whole means that Pick needs Request.Body, not only Request.Facts.
	Whole bool
	// Keep fills Request.Body if Bodies has room for it.
	Keep bool
	// Valid answers 400 to bodies that are not JSON, for APIs whose prompts the picker can read. It
	// needs Keep.
	Valid bool
	// Rewrite replaces the model in bodies by Pick.Replacement. If Bodies has no room for a body,
	// the request gets a 503.
	Rewrite bool
	// TrustHeaders lets a pick in STREAMED, which precedes the body, take the model from
	// x-gateway-model-name.
	TrustHeaders bool
	// OwnWorkers removes the client's workers and token IDs from a body's nvext, except in
	// STREAMED. If Bodies has no room for a body, the request gets a 503.
	OwnWorkers bool
	// Process means that Pick sends the body (Request.Sent) to another process and may add token
	// IDs. The picker reads and removes the body's member "route". In BUFFERED, a request gets a
	// 503 if the picker cannot remove the member.
	Process bool
	// Usage adds stream_options.include_usage to streamed requests of OpenAI's APIs, if Bodies has
	// room for the body.
	Usage bool
	// UserMessages is the number of user messages of a chat completion that Facts.Spread hashes; 0
	// means no hash. A chat completion that is not JSON then gets a 400.
	UserMessages int
	// Assume is the mode of gateways that do not send their mode: ModeNone, ModeBuffered or
	// ModeFullDuplexStreamed.
	Assume Mode
	// Limit bounds a held body, in bytes. A larger body gets a 413.
	Limit int
	// Unavailable is like Answer.Unavailable, but ends the call before any response: after a
	// response, Envoy does not retry a call.
	Unavailable bool
}

// Config configures a Server.
type Config struct {
	Picker Picker  // required
	Bodies *Bodies // for this cluster's Gateways; default: NewBodies(0)
	// ImportBodies are for calls from other clusters; default: NewBodies(0).
	ImportBodies *Bodies
	Calls        *Calls // for calls from other clusters; default: NewCalls(0)
	// Gateway returns the Gateway whose key a call has, or ""; may be nil.
	Gateway func(context.Context) string
	// Member returns the other cluster that a call's connection authenticates, or ""; may be nil.
	Member   func(context.Context) string
	Uploads  Uploads // nil means no limit
	Failures Failures
	Watches  Watches // nil denies all requests that are watched
	Names    Names
	// If Pool is set, all callers are from another cluster. They may pick only from Pool, and need
	// not name it.
	Pool string
}

// Server implements envoy.service.ext_proc.v3.ExternalProcessor.
type Server struct{ Config }

// New returns a Server, with defaults for c's zero values.
func New(c Config) *Server {
	if c.Gateway == nil {
		c.Gateway = func(context.Context) string { return "" }
	}
	if c.Member == nil {
		c.Member = func(context.Context) string { return "" }
	}
	if c.Uploads == nil {
		c.Uploads = unlimited{}
	}
	if c.Watches == nil {
		c.Watches = unwatched{}
	}
	if c.Failures == nil {
		c.Failures = working{}
	}
	if c.Bodies == nil {
		c.Bodies = NewBodies(0)
	}
	if c.ImportBodies == nil {
		c.ImportBodies = NewBodies(0)
	}
	if c.Calls == nil {
		c.Calls = NewCalls(0)
	}
	c.Names = c.Names.WithDefaults()
	return &Server{c}
}

// ServiceName is the service's name on the wire and in health checks.
const ServiceName = "envoy.service.ext_proc.v3.ExternalProcessor"

const processMethod = "/" + ServiceName + "/Process"

// Register adds the service to a gRPC server, which must use Codec.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName:    "Process",
			Handler:       func(srv any, stream grpc.ServerStream) error { return srv.(*Server).process(stream) },
			ServerStreams: true,
			ClientStreams: true,
		}},
		Metadata: "envoy/service/ext_proc/v3/external_processor.proto",
	}, s)
}

// process never treats the stream's end as an error: Envoy resets a stream that needs no more
// responses.
func (s *Server) process(stream grpc.ServerStream) error {
	ctx := stream.Context()
	call := callOf(ctx)
	other := call.upload > 0 || call.failed != "" || call.watch
	if s.Pool != "" && (other || call.pool != "" && call.pool != s.Pool) {
		return status.Error(codes.PermissionDenied, "this port serves picks from pool "+s.Pool+" alone")
	}
	member := s.Member(ctx)
	if member != "" && (other || call.pool == "") {
		return status.Error(codes.PermissionDenied, "a call of a member of the cluster set names a pool")
	}
	if call.upload > 0 {
		return s.upload(stream, call.upload)
	}
	if call.failed != "" {
		return s.failed(stream, call)
	}
	if call.watch {
		return s.watch(stream, call)
	}
	x := exchanges.Get().(*exchange)
	defer x.close()
	x.request.exchange = x
	x.bodies, x.names, x.stream, x.ctx = s.Bodies, &s.Names, stream, ctx
	x.request.Pool, x.request.Pools, x.request.Retries, x.request.Spill, x.request.Last, x.request.Subset = call.pool,
		call.pools, call.retries, call.spill, call.last, call.subset
	x.request.Fixed, x.request.Exact = call.fixed, call.exact
	x.request.TraceParent, x.request.Gateway, x.request.Member, x.request.Imported, x.request.Open = call.traceParent,
		s.Gateway(ctx), member, call.imported, call.open
	if s.Pool != "" {
		x.request.Pool, x.request.Gateway, x.request.Imported, x.request.One = s.Pool, "", true, call.pool == ""
	}
	var err error
	if x.pick, err = s.Picker.Begin(ctx, &x.request); err != nil {
		return err
	}
	if x.request.Imported { // another cluster must not set the fields about this cluster's routes
		x.request.Pools, x.request.Retries, x.request.Spill, x.request.Last, x.request.Subset, x.request.Open = nil, 0,
			nil, false, "", false
		x.request.Fixed, x.request.Exact = false, false
		if err := s.Calls.begin(member); err != nil {
			return err
		}
		defer s.Calls.end(member)
		x.bodies = s.ImportBodies
	}
	for {
		m := newMessage()
		if err := stream.RecvMsg(m); err != nil {
			m.Free()
			return nil
		}
		if err := x.handle(m); err != nil {
			if x.ctx.Err() != nil {
				return nil
			}
			return err
		}
		if x.done {
			return nil
		}
	}
}

// Number parses up to four decimal digits; 0 for other text.
func Number[T string | []byte](text T) int { return Digits(text, 4) }

// Digits parses up to most decimal digits; 0 for other text.
func Digits[T string | []byte](text T, most int) (n int) {
	if len(text) > most {
		return 0
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
		n = 10*n + int(text[i]-'0')
	}
	return n
}
