package extproc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/request"
)

// Picker decides about requests. Its methods are called by many streams concurrently.
type Picker interface {
	// Begin begins the pick of a call's request, of which no message is read yet. Its error ends
	// the call: the gateway may not pick from the pool. It may set r.Imported.
	Begin(ctx context.Context, r *Request) (Pick, error)
}

// Pick decides about one request, whose stream calls it.
type Pick interface {
	// Body returns what the pick needs of the request's body, and the mode that is assumed for
	// gateways that don't send theirs. The headers have arrived.
	Body() BodyPolicy
	// Replacement returns what replaces a model that the body names; nil if it stays. It is called
	// with BodyPolicy.Rewrite alone, in STREAMED also after Answer.
	Replacement(model string) *request.Target
	// Answer answers the request, once. It must not keep the request or anything in it after
	// Answer.Track's End.
	Answer() Answer
	// End ends the use of the Pick.
	End()
}

// BodyPolicy is what a pool needs of request bodies.
type BodyPolicy struct {
	// Wait delays the pick until the body has been read, in modes that allow it (not NONE and
	// STREAMED), unless the body is a stream. Prompts does so only for requests of an API whose
	// prompts are known.
	Wait, Prompts bool
	// Whole means that Pick needs the body itself, not only its Facts.
	Whole bool
	// Keep means that Pick can use the body itself, and does without if too many are held.
	Keep bool
	// Valid answers a request of an API whose prompts are known 400 if its body is no JSON: Pick
	// has nothing else to go by. It needs Keep.
	Valid bool
	// Rewrite has Pick.Replacement replace the models of bodies. They are held, in modes that allow
	// it: a request whose body cannot be held is answered 503.
	Rewrite bool
	// TrustHeaders has a pick in STREAMED, which precedes the body, go by the model in the header
	// x-gateway-model-name.
	TrustHeaders bool
	// OwnWorkers removes the workers and token IDs that a body names in nvext: the pick decides
	// about them. As with Rewrite, bodies are held. In STREAMED they pass as they are.
	OwnWorkers bool
	// Process means that Pick sends the body elsewhere (Request.Sent), and may add token IDs to it.
	// The member "route" is removed: it is for the picker. As with Keep, a request does without if
	// too many bodies are held; the member is removed there too, but for a body in BUFFERED that
	// the gateway is not asked for: it would be sent in one piece, which is what there is no room
	// for.
	Process bool
	// UserMessages of a chat completion are in the key of which Facts.Spread is the hash; 0: it is
	// not computed. A chat completion that is no JSON is answered 400.
	UserMessages int
	// Assume is the mode of gateways that don't send theirs: ModeNone, ModeBuffered or
	// ModeFullDuplexStreamed.
	Assume Mode
	// Limit is the largest body, in bytes, that is held for a pick; larger ones are answered 413.
	Limit int
	// Unavailable ends the call as Answer.Unavailable does, but before its first response: Envoy
	// doesn't retry a call that was answered in part.
	Unavailable bool
}

// Config of a Server.
type Config struct {
	Picker Picker  // required
	Bodies *Bodies // of this cluster's Gateways; default: NewBodies(0)
	// ImportBodies are those of calls from other clusters, which so take no room from Bodies;
	// default: NewBodies(0).
	ImportBodies *Bodies
	Calls        *Calls // of other clusters; default: NewCalls(0)
	// Gateway returns the Gateway whose key a call has; "" if calls need none.
	Gateway func(context.Context) string
	// Member returns the other cluster whose gateway makes a call, as its connection proves; nil:
	// none does.
	Member  func(context.Context) string
	Uploads Uploads // nil: all are taken
	// Failures judges responses; nil: no server is dead.
	Failures Failures
	Names    Names
	// Pool is the only pool of this server's callers, who are of another cluster and need not name
	// it; "": they name one.
	Pool string
}

// Server is envoy.service.ext_proc.v3.ExternalProcessor. Its state is that of Config.
type Server struct{ Config }

// New returns a Server.
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

// Register adds the service to a gRPC server, which must have been made with Codec.
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

// process serves one HTTP request. Envoy resets the stream as soon as it needs no more responses,
// so no end of the stream is an error.
func (s *Server) process(stream grpc.ServerStream) error {
	ctx := stream.Context()
	call := callOf(ctx)
	other := call.upload > 0 || call.failed != ""
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
	x := newExchange()
	defer x.close()
	x.request.exchange = x
	x.bodies, x.names, x.stream, x.ctx = s.Bodies, &s.Names, stream, ctx
	x.request.Pool, x.request.Pools, x.request.Retries, x.request.Spill, x.request.Last, x.request.Subset = call.pool,
		call.pools, call.retries, call.spill, call.last, call.subset
	x.request.Fixed = call.fixed
	x.request.TraceParent, x.request.Gateway, x.request.Member, x.request.Imported, x.request.Open = call.traceParent,
		s.Gateway(ctx), member, call.imported, call.open
	if s.Pool != "" {
		x.request.Pool, x.request.Gateway, x.request.Imported, x.request.One = s.Pool, "", true, call.pool == ""
	}
	var err error
	if x.pick, err = s.Picker.Begin(ctx, &x.request); err != nil {
		return err
	}
	if x.request.Imported { // what else a call names is about the routes of this cluster
		x.request.Pools, x.request.Retries, x.request.Spill, x.request.Last, x.request.Subset, x.request.Open = nil, 0,
			nil, false, "", false
		x.request.Fixed = false
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

// Number parses a decimal of up to four digits, such as a status or a number of retries. It returns
// 0 for anything else.
func Number[T string | []byte](text T) int {
	if len(text) == 0 || len(text) > 4 {
		return 0
	}
	n := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
		n = 10*n + int(text[i]-'0')
	}
	return n
}
