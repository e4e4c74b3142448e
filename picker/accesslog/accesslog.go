package accesslog

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	aidatav3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/penstock-project/penstock/picker/request"
)

// Entry is Envoy's access log entry of a picked request.
type Entry struct {
	Lease   string
	Gateway string `json:",omitempty"` // of the stream's key, "namespace/name"; "" if calls need no key
	Pool    string `json:"-"`
	// Open marks a periodic entry of a request in flight.
	Open   bool   `json:",omitempty"`
	Served string // "ip:port" of the serving endpoint, or a hop's address; "" if none
	Status int    // status that the client received; 0 without a response
	// Sent is the time from the request's start until Envoy has sent its last byte to the server; 0
	// until then.
	Sent time.Duration `json:",omitempty"`
	// Headers is the time from the request's start to the response's headers, and FirstByte to the
	// first byte of the response's body; 0 until then. Servers send a stream's headers before they
	// read the prompt, so only FirstByte shows the first token.
	Headers   time.Duration `json:"FirstByte"`
	FirstByte time.Duration `json:"FirstBodyByte,omitempty"`
	// Whole means that the response is not a stream, by its content type.
	Whole bool `json:",omitempty"`
	// Took is the time from the request's start to its end; 0 if not reported.
	Took time.Duration `json:",omitempty"`
	// Canceled means that the client ended the request or its connection.
	Canceled bool `json:",omitempty"`
	// LastByte is the time from the request's start to the server's last byte. Bytes is the size of
	// the response's body.
	LastByte time.Duration `json:",omitempty"`
	Bytes    int64         `json:",omitempty"`
	// OutputTokens is the response's number of tokens; 0 if not read.
	OutputTokens int64 `json:",omitempty"`
	// Response identifies a response that a server stores for the Responses API, or is zero. Client
	// is a hash of the client's IP address (of the /64 network for IPv6).
	Response request.ResponseID `json:",omitzero"`
	Client   uint64             `json:",omitempty"`
	// Error is the HTTP status of an error inside a stream or gRPC call; 0 without an error.
	Error int `json:",omitempty"`
	// Cut means that the server's connection or stream ended before the response's end.
	Cut bool `json:",omitempty"`
	// Body means that the client received a part of the response's body.
	Body bool `json:",omitempty"`
}

// Sink receives entries, from many streams concurrently.
type Sink interface {
	Log(Entry)
}

// Config configures a Server.
type Config struct {
	Sink Sink // required
	// Gateway returns the Gateway whose key authenticates a call; "" or a nil Gateway means that
	// calls need no key.
	Gateway func(context.Context) string
	// Attempts receives the requests of MembersLog. Attempts and Usage are called concurrently;
	// both may be nil.
	Attempts func(Attempt)
	// Usage receives the requests of UsageLog, all of one message in one call.
	Usage func([]Used)
}

// Server implements envoy.service.accesslog.v3.AccessLogService.
type Server struct {
	accesslogv3.UnimplementedAccessLogServiceServer
	cfg Config
}

// New returns a Server.
func New(c Config) *Server {
	if c.Gateway == nil {
		c.Gateway = func(context.Context) string { return "" }
	}
	return &Server{cfg: c}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { accesslogv3.RegisterAccessLogServiceServer(r, s) }

// StreamAccessLogs receives one Envoy's entries.
func (s *Server) StreamAccessLogs(stream accesslogv3.AccessLogService_StreamAccessLogsServer) error {
	gateway, name := s.cfg.Gateway(stream.Context()), ""
	for {
		batch, err := stream.Recv()
		if err != nil {
			return nil // Envoy needs no status of the ended stream
		}
		if id := batch.GetIdentifier(); id != nil {
			name = id.GetLogName()
		}
		if name == UsageLog {
			s.usage(batch.GetHttpLogs().GetLogEntry())
			continue
		}
		for _, logged := range batch.GetHttpLogs().GetLogEntry() {
			if e, ok := entry(logged); ok && name != MembersLog {
				e.Gateway = gateway
				s.cfg.Sink.Log(e)
			}
			if s.cfg.Attempts == nil || !mayBeAttempt(logged) && name != MembersLog {
				continue
			}
			if a, ok := attempt(logged); ok {
				a.Gateway = gateway
				s.cfg.Attempts(a)
			}
		}
	}
}

func (s *Server) usage(entries []*datav3.HTTPAccessLogEntry) {
	if s.cfg.Usage == nil {
		return
	}
	list := make([]Used, 0, len(entries))
	for _, logged := range entries {
		if u, ok := used(logged); ok {
			list = append(list, u)
		}
	}
	if len(list) > 0 {
		s.cfg.Usage(list)
	}
}

func entry(logged *datav3.HTTPAccessLogEntry) (Entry, bool) {
	common := logged.GetCommonProperties()
	e := Entry{
		Lease:  text(common.GetMetadata(), "penstock", "lease"),
		Pool:   text(common.GetMetadata(), "penstock", "pool"),
		Served: text(common.GetMetadata(), "envoy.lb", "x-gateway-destination-endpoint-served"),
	}
	if e.Lease == "" {
		return Entry{}, false
	}
	switch common.GetAccessLogType() {
	case datav3.AccessLogType_NotSet, datav3.AccessLogType_DownstreamEnd:
	case datav3.AccessLogType_DownstreamPeriodic:
		e.Open = true
	default:
		return Entry{}, false
	}
	e.Status = int(logged.GetResponse().GetResponseCode().GetValue())
	if e.Served != "" && e.Status > 0 {
		e.Served = answered(e.Served, common.GetUpstreamRemoteAddress().GetSocketAddress())
	}
	e.Sent = common.GetTimeToLastUpstreamTxByte().AsDuration()
	e.Headers, e.FirstByte = begun(common)
	e.Whole = Whole(logged.GetResponse().GetResponseHeaders()["content-type"])
	if !e.Open {
		e.Took = common.GetDuration().AsDuration()
	}
	e.LastByte = common.GetTimeToLastUpstreamRxByte().AsDuration()
	e.Bytes = int64(logged.GetResponse().GetResponseBodyBytes())
	e.Canceled = canceled(common)
	e.OutputTokens = outputTokens(common.GetMetadata())
	e.Response = request.ResponseOf(text(common.GetMetadata(), responseNamespace, "id"))
	if e.Response != (request.ResponseID{}) {
		e.Client = client(common.GetDownstreamRemoteAddress().GetSocketAddress().GetAddress())
	}
	e.Error = cmp.Or(streamError(common.GetMetadata()), grpcError(logged.GetResponse()))
	e.Cut = strings.HasPrefix(logged.GetResponse().GetResponseCodeDetails(), cutDetails)
	e.Body = logged.GetResponse().GetResponseBodyBytes() > 0
	return e, true
}

// answered returns the address of the endpoint that responded. If Envoy tries two endpoints
// concurrently, named is from the later attempt, and from is the address that responded. For a hop,
// from is not an IP address.
func answered(named string, from *corev3.SocketAddress) string {
	addr := at(from)
	if own, err := netip.ParseAddrPort(named); !addr.IsValid() || err == nil && own == addr {
		return named
	}
	return addr.String()
}

// Begun returns the time from the request's last byte to the body's first byte; 0 if unknown.
func (e *Entry) Begun() time.Duration {
	if e.FirstByte == 0 {
		return 0
	}
	return max(e.FirstByte-e.Sent, 0)
}

const firstBodyTag = "first_body"

func begun(common *datav3.AccessLogCommon) (headers, body time.Duration) {
	headers = common.GetTimeToFirstUpstreamRxByte().AsDuration()
	after, err := strconv.ParseUint(common.GetCustomTags()[firstBodyTag], 10, 40)
	if err != nil {
		return headers, 0 // the tag is no number, as if the response began before the request's end
	}
	return headers, common.GetTimeToLastUpstreamTxByte().AsDuration() + time.Duration(after)*time.Microsecond
}

// Whole reports whether responses with this content type are not streamed.
func Whole(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

const responseNamespace = "penstock.response"

func client(address string) uint64 {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return 0
	}
	if ip = ip.Unmap(); ip.Is6() {
		network, _ := ip.WithZone("").Prefix(64)
		ip = network.Addr()
	}
	raw := ip.As16()
	return xxhash.Sum64(raw[:])
}

const maxOutputTokens = 1 << 24

func outputTokens(m *corev3.Metadata) int64 {
	found := m.GetTypedFilterMetadata()["envoy.ai.token_usage"]
	if found == nil {
		return 0
	}
	var usage aidatav3.TokenUsage
	if err := found.UnmarshalTo(&usage); err != nil {
		return 0
	}
	return int64(min(usage.GetOutputTokens().GetValue(), maxOutputTokens))
}

func streamError(m *corev3.Metadata) int {
	found := m.GetFilterMetadata()["penstock.stream"].GetFields()
	if !found["error"].GetBoolValue() {
		return 0
	}
	code := found["code"]
	number := code.GetNumberValue()
	if n, err := strconv.ParseUint(code.GetStringValue(), 10, 10); err == nil {
		number = float64(n)
	}
	if number >= 400 && number < 600 {
		return int(number)
	}
	return cmp.Or(statusOf(code.GetStringValue()), statusOf(found["kind"].GetStringValue()))
}

// kinds maps the names of errors in the streams of TGI, vLLM, SGLang, llama.cpp, Anthropic's API
// and the Responses API to an HTTP status. A name matches if it contains one of names, without "_"
// and "-".
var kinds = []struct {
	status int
	names  []string
}{
	{http.StatusTooManyRequests, []string{"ratelimit", "toomanyrequests", "overloaded", "insufficientquota"}},
	{http.StatusBadRequest, []string{
		"invalid", "badrequest", "validation", "toolarge", "contextlength", "exceedcontext", "templateerror",
		"toolerror", "authentication", "permission", "notfound", "unprocessable", "notsupported",
	}},
	{http.StatusInternalServerError, []string{
		"apierror", "internal", "servererror", "generation", "unavailable", "timeout",
	}},
}

// statusOf returns the HTTP status of an error's names. An error of unknown kind gets 0 and counts
// against no server, because the client may have caused it.
func statusOf(names string) int {
	names = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(names))
	for _, kind := range kinds {
		if slices.ContainsFunc(kind.names, func(part string) bool { return strings.Contains(names, part) }) {
			return kind.status
		}
	}
	return 0
}

const cutDetails = "upstream_reset_after_response_started"

func grpcError(r *datav3.HTTPResponseProperties) int {
	status := cmp.Or(r.GetResponseTrailers()["grpc-status"], r.GetResponseHeaders()["grpc-status"])
	switch code, err := strconv.ParseUint(status, 10, 8); {
	case status == "" || err == nil && codes.Code(code) == codes.OK:
		return 0
	case err != nil:
		return http.StatusInternalServerError
	default:
		switch codes.Code(code) {
		case codes.Unknown, codes.Internal, codes.Unavailable, codes.DataLoss:
			return http.StatusInternalServerError
		case codes.ResourceExhausted:
			return http.StatusTooManyRequests
		}
		return http.StatusBadRequest
	}
}

func text(m *corev3.Metadata, namespace, key string) string {
	return m.GetFilterMetadata()[namespace].GetFields()[key].GetStringValue()
}
