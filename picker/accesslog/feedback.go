package accesslog

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
)

// Entry is what the access log says about one request that was picked for.
type Entry struct {
	Lease  string // as the pick named it
	Served string // "ip:port" of the endpoint that answered, or a hop's address; "" if none did
	Status int    // of the response, as the client saw it; 0 if there was none
	// FirstByte is the time from the request's start to the response's first byte; 0 if there was none.
	FirstByte time.Duration
}

// Books takes entries. Settle is called by many streams at once.
type Books interface {
	Settle(Entry)
}

// Server is envoy.service.accesslog.v3.AccessLogService.
type Server struct {
	accesslogv3.UnimplementedAccessLogServiceServer
	books Books
}

// New makes a Server that tells books.
func New(books Books) *Server { return &Server{books: books} }

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { accesslogv3.RegisterAccessLogServiceServer(r, s) }

// StreamAccessLogs hears one Envoy until it goes.
func (s *Server) StreamAccessLogs(stream accesslogv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		batch, err := stream.Recv()
		if err != nil {
			return nil // the Envoy went away, or we do; either way nobody waits for an answer
		}
		for _, logged := range batch.GetHttpLogs().GetLogEntry() {
			if e, ok := entry(logged); ok {
				s.books.Settle(e)
			}
		}
	}
}

// entry reads what a picker wants; false for a request without a lease and for entries of requests still under way.
func entry(logged *datav3.HTTPAccessLogEntry) (Entry, bool) {
	common := logged.GetCommonProperties()
	e := Entry{
		Lease:  text(common.GetMetadata(), "penstock", "lease"),
		Served: text(common.GetMetadata(), "envoy.lb", "x-gateway-destination-endpoint-served"),
	}
	if e.Lease == "" {
		return Entry{}, false
	}
	switch common.GetAccessLogType() {
	case datav3.AccessLogType_NotSet, datav3.AccessLogType_DownstreamEnd:
	default:
		return Entry{}, false
	}
	e.Status = int(logged.GetResponse().GetResponseCode().GetValue())
	e.FirstByte = common.GetTimeToFirstUpstreamRxByte().AsDuration()
	return e, true
}

func text(m *corev3.Metadata, namespace, key string) string {
	return m.GetFilterMetadata()[namespace].GetFields()[key].GetStringValue()
}
