package envoy

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Config configures all gateways. A change modifies listeners, and so ends streams.
type Config struct {
	// AccessLog is the file that gets a JSON line for each request; "" means no file.
	AccessLog string
	// OwnPorts makes listeners bind their ports exclusively. Otherwise the kernel distributes
	// connections between two Envoys on one machine (SO_REUSEPORT).
	OwnPorts bool
	// Waits makes gates wait while the only authorization process is replaced. With several
	// processes, another process answers sooner.
	Waits bool
	// Tracing is nil if Envoy sends no spans.
	Tracing *Tracing
}

// Tracing sends spans to model.Collector by OTLP over gRPC.
type Tracing struct {
	SamplingPercent float64 // 0 to 100; of requests without a sampling decision
	ServiceName     string  // "" means "penstock"
}

const (
	// maxBody is the largest request body, in bytes, that a picker or the scan for the model reads,
	// or that a retry may repeat. Larger bodies get 413.
	maxBody = 32 << 20
	// streamIdle ends a silent stream or connection. A model may take long to produce its first
	// token.
	streamIdle     = time.Hour
	headersTimeout = 30 * time.Second
	// silentPicker replaces streamIdle on routes with an external picker and no timeout: nothing
	// else ends a call to a silent picker in FULL_DUPLEX_STREAMED.
	silentPicker = 5 * time.Minute
	// connectionBuffer limits a connection's memory in each direction, in bytes. Envoy's default of
	// 1 MiB is too much for tens of thousands of connections.
	connectionBuffer = 32 << 10
	connectTimeout   = time.Second
	connectAttempts  = 3
	// datagramIdle ends a client's session without datagrams: Envoy's default.
	datagramIdle = time.Minute
	// By default, Envoy drops datagrams above 1,500 bytes.
	maxDatagram = 65535
	// maxSessions limits the sessions of one UDP listener, because each source address starts a
	// session, and each session has an open file. Without a free file, Envoy 1.40's udp_proxy
	// crashes (TestUDPRoute_DatagramsOfManyAddressesEndNothingElse).
	maxSessions          = 2048
	pickerConnectTimeout = 250 * time.Millisecond
	// upstreamIdle closes idle HTTP/1.1 connections before a model server does (uvicorn: 5
	// seconds): a request that crosses the server's FIN is lost.
	upstreamIdle = 4 * time.Second
	// Envoy pings connections to our picker every pickerPing, and at a pick after silentBefore
	// without traffic. The answer is due within silentPing. The sum of the three, with Envoy's
	// jitter of 15 %, must stay well below messageTimeout.
	pickerPing   = 750 * time.Millisecond
	silentBefore = 10 * time.Millisecond
	silentPing   = 750 * time.Millisecond
	// messageTimeout limits each answer of a picker. Envoy's default of 200 ms is shorter than a
	// connection retry. A picker whose requests wait for room, or for the start of a model server,
	// may extend it to maxMessageTimeout, which is Envoy's maximum.
	messageTimeout    = 2 * time.Second
	maxMessageTimeout = time.Hour
	authTimeout       = 5 * time.Second
	// feedbackInterval is how long Envoy buffers an access log entry. It must be well below
	// picker.Config.EndWait.
	feedbackInterval = 5 * time.Millisecond
	// Without a report for 4.3 s, a request in flight no longer counts (leaseTimeout). Two reports
	// fit into that time, because a process may end before it passes a report on.
	renewalInterval = 2 * time.Second
)

func seconds(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
func u32(n uint32) *wrapperspb.UInt32Value         { return wrapperspb.UInt32(n) }
func boolean(b bool) *wrapperspb.BoolValue         { return wrapperspb.Bool(b) }
