package envoy

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Config is what an operator decides for all gateways. A change of it changes listeners, and so
// cuts streams.
type Config struct {
	// AccessLog is the file that each request is logged to as a line of JSON, "/dev/stdout" for
	// Envoy's own output; "" for none. The access log that reports the outcome of picks to the
	// picker is always there.
	AccessLog string
	// OwnPorts has listeners bind their ports alone. Without it Envoy shares a port with any other
	// that asks for it (SO_REUSEPORT), which is what a fleet of one Envoy a machine wants for its
	// workers, and what two of them on one machine must not do: the kernel would deal connections
	// out between them.
	OwnPorts bool
	// Tracing is nil for none.
	Tracing *Tracing
}

// Tracing sends spans to the cluster model.Collector by OTLP over gRPC.
type Tracing struct {
	SamplingPercent float64 // of requests that come without a sampling decision of their own; 0 to 100
	ServiceName     string  // "" means "penstock"
}

// Limits and times. They are not settings yet: each has a reason, and a setting for each would hide
// it.
const (
	// maxBody is the largest request body that a picker or the scan for the model reads, 413 above,
	// or that a retry may repeat. Prompts with images are megabytes; Envoy's default is 1 MiB.
	maxBody = 32 << 20
	// streamIdle ends a stream, or a connection that is handed on, without a byte in either
	// direction. A model may think for long before its first token. Envoy's default is 5 minutes
	// for requests.
	streamIdle = time.Hour
	// headersTimeout ends a connection whose client does not finish its headers; streamIdle would
	// let it stay.
	headersTimeout = 30 * time.Second
	// silentPicker is streamIdle for external pickers, on routes without a timeout of their own:
	// nothing else gives up on one that falls silent in FULL_DUPLEX_STREAMED.
	silentPicker = 5 * time.Minute
	// connectionBuffer is what one connection may hold in each direction, in bytes, beside the
	// bodies that filters hold. Envoy's default is 1 MiB, too much for tens of thousands of
	// connections.
	connectionBuffer = 32 << 10
	// connectTimeout covers TCP and TLS towards pods, servers and gateways, which may be an ocean
	// away.
	connectTimeout = time.Second
	// connectAttempts is how many endpoints a connection that is handed on may try before it is
	// closed.
	connectAttempts = 3
	// datagramIdle ends the session of a client's address that sends nothing, and gets nothing; its
	// next datagram may go to another endpoint. It is Envoy's default.
	datagramIdle = time.Minute
	// maxDatagram is the largest datagram that is handed on, in bytes: any. Envoy drops what is
	// above its default of 1,500.
	maxDatagram = 65535
	// maxSessions is how many sessions of one UDP listener an Envoy has. Each takes an open file
	// and a port of the machine, and a datagram with any address of a sender makes one. Envoy
	// 1.40's udp_proxy dies at a session for which no file is left
	// (TestUDPRoute_DatagramsOfManyAddressesEndNothingElse), so this is far below every usual
	// limit.
	maxSessions = 2048
	// pickerConnectTimeout is short because a client waits for it before its request is even
	// placed.
	pickerConnectTimeout = 250 * time.Millisecond
	// upstreamIdle closes idle HTTP/1.1 connections before a model server does: uvicorn's default
	// is 5 seconds, and a request that meets its FIN is lost (a POST that may have been read is not
	// repeated).
	upstreamIdle = 4 * time.Second
	// A connection to our picker is asked for a sign of life every pickerPing, and with a pick
	// after silentBefore without one; it has silentPing for that. The sum, with Envoy's jitter of
	// 15 %, must stay well below messageTimeout.
	pickerPing   = 750 * time.Millisecond
	silentBefore = 10 * time.Millisecond
	silentPing   = 750 * time.Millisecond
	// messageTimeout is how long a picker may take for each answer; Envoy's default of 200 ms is
	// less than a connection retry takes. A picker that queues asks for more, up to
	// maxMessageTimeout.
	messageTimeout    = 2 * time.Second
	maxMessageTimeout = 300 * time.Second
	// authTimeout is how long an external authorization service may take; the request is denied
	// then.
	authTimeout = 5 * time.Second
	// feedbackInterval is how long an entry of the access log waits for others. It must leave most
	// of picker.Config.EndWait for the way to another process.
	feedbackInterval = 5 * time.Millisecond
	// renewalInterval is how often the picker learns that a request goes on, and which endpoint
	// serves it. A request that is not reported for 4.3 s counts no more (picker, leaseTimeout):
	// its Envoy is gone. Two reports fit into that, because the process that receives one may end
	// before it has passed the report on.
	renewalInterval = 2 * time.Second
)

func seconds(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
func u32(n uint32) *wrapperspb.UInt32Value         { return wrapperspb.UInt32(n) }
func boolean(b bool) *wrapperspb.BoolValue         { return wrapperspb.Bool(b) }
