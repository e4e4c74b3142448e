package extproc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Initial metadata of the ext_proc call, set by the gateway's configuration.
const (
	// MetadataKeyPool names the pool to pick from.
	MetadataKeyPool = "x-penstock-pool"
	// MetadataKeyRetries is how many retries the route's own retry policy allows, as decimal text.
	MetadataKeyRetries = "x-penstock-retries"
	// MetadataKeySpill lists the request's spill targets, comma-separated, such as "envoy://hop-b.default/".
	MetadataKeySpill = "x-penstock-spill"
	// MetadataKeyPools lists the pools of the route's rule, comma-separated, on routes whose requests for the list of models may be answered
	// for all of them.
	MetadataKeyPools = "x-penstock-pools"
	// MetadataKeyLast is "true" for a request that was spilled already. It can't be spilled again: its call has no
	// MetadataKeySpill.
	MetadataKeyLast = "x-penstock-last"
)

// Picker decides about requests. Its methods are called by many streams concurrently.
type Picker interface {
	// Permit returns an error that ends the call if its Gateway may not pick from the pool. No message is read before.
	Permit(ctx context.Context, r *Request) error
	// Body returns what a pool needs of request bodies, and the mode that is assumed for gateways that don't send theirs.
	// pool is "" for a gateway that names none.
	Body(pool string) BodyPolicy
	// Pick answers one request. It must not keep r or anything in it after Answer.Track's End.
	Pick(ctx context.Context, r *Request) Answer
}

// BodyPolicy is what a pool needs of request bodies.
type BodyPolicy struct {
	// Wait delays the pick until the body has been read, in modes that allow it (not NONE and STREAMED), unless the body is a
	// stream. Prompts does so only for requests of an API whose prompts are known.
	Wait, Prompts bool
	// Whole means that Pick needs the body itself, not only its Facts.
	Whole bool
	// Keep means that Pick can use the body itself, and does without if too many are held.
	Keep bool
	// UserMessages of a chat completion are in the key of which Facts.Spread is the hash; 0: it is not computed. A chat completion
	// that is no JSON is answered 400.
	UserMessages int
	// Assume is the mode of gateways that don't send theirs: ModeNone, ModeBuffered or ModeFullDuplexStreamed.
	Assume Mode
	// Limit is the largest body, in bytes, that is held for a pick; larger ones are answered 413.
	Limit int
	// Unavailable ends the call as Answer.Unavailable does, but before its first response: Envoy doesn't retry a call that was
	// answered in part.
	Unavailable bool
}

// Config of a Server.
type Config struct {
	Picker Picker  // required
	Bodies *Bodies // default: NewBodies(0)
	// Gateway returns the Gateway whose key a call has; "" if calls need none.
	Gateway func(context.Context) string
	Uploads Uploads // nil: all are taken
}

// Server is envoy.service.ext_proc.v3.ExternalProcessor. It has no state of its own.
type Server struct{ Config }

// New returns a Server.
func New(c Config) *Server {
	if c.Gateway == nil {
		c.Gateway = func(context.Context) string { return "" }
	}
	if c.Uploads == nil {
		c.Uploads = unlimited{}
	}
	if c.Bodies == nil {
		c.Bodies = NewBodies(0)
	}
	return &Server{c}
}

// ServiceName is the service's name on the wire and in health checks.
const ServiceName = "envoy.service.ext_proc.v3.ExternalProcessor"

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

// process serves one HTTP request. Envoy resets the stream as soon as it needs no more responses, so no end of the stream is
// an error.
func (s *Server) process(stream grpc.ServerStream) error {
	if limit, is := uploadLimit(stream.Context()); is {
		return s.upload(stream, limit)
	}
	x := exchange{picker: s.Picker, bodies: s.Bodies, stream: stream, ctx: stream.Context()}
	x.request.readCall(x.ctx)
	x.request.Gateway = s.Gateway(x.ctx)
	if err := s.Picker.Permit(x.ctx, &x.request); err != nil {
		return err
	}
	defer x.close()
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

// readCall reads the call's initial metadata.
func (r *Request) readCall(ctx context.Context) {
	first := func(key string) string {
		if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	r.Pool, r.Retries, r.TraceParent = first(MetadataKeyPool), Number(first(MetadataKeyRetries)), first("traceparent")
	if spill := first(MetadataKeySpill); spill != "" {
		r.Spill = strings.Split(spill, ",")
	}
	if pools := first(MetadataKeyPools); pools != "" {
		r.Pools = strings.Split(pools, ",")
	}
	r.Last = first(MetadataKeyLast) == "true"
}

// Number parses a decimal of up to four digits, such as a status or a number of retries. It returns 0 for anything else.
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
