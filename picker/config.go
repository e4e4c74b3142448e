package picker

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Config of a Picker. Zero values mean the defaults given.
type Config struct {
	// ID tells this process's picks from those of other pickers that hear the same access log. Default: random.
	ID  string
	Log *slog.Logger // default: slog.Default()
	// Registerer takes the Prometheus metrics; nil for none.
	Registerer prometheus.Registerer
	// Tracer takes spans of picks whose caller is traced and sampled; nil for none.
	Tracer trace.TracerProvider
	// LeaseTimeout is when a request that nobody reports the end of stops counting; default 10 minutes.
	LeaseTimeout time.Duration
	// Scrape sets the scrapers' intervals; Jitter is filled in.
	Scrape endpoint.Config
	// Elsewhere is told of requests that ended and that another picker picked for: what one gateway's access log says may reach any
	// of the pickers that it asks. It must not block. Nil: nobody is.
	Elsewhere func(accesslog.Entry)
	// Learner is asked before a relayed pick is answered; nil if there are no relayed pools or Envoy dials anything.
	Learner Learner
	// Trouble is told when relayed picks of a pool begin to fail, and with the zero value when they succeed again, or the
	// pool is gone or another one. Nil: nobody is. It must not call the Picker.
	Trouble func(pool string, t RelayTrouble)
}

// Learner makes Envoy know endpoints that a remote picker named.
type Learner interface {
	// Learn returns once the pool's cluster has the addresses in every Envoy that may ask, or with an error: then the
	// request is answered 503.
	Learn(ctx context.Context, pool string, addrs []netip.AddrPort) error
	// Elsewhere says that no Envoy gets its configuration from this process, so that Learn would wait for nothing: the
	// request is left to another picker.
	Elsewhere() bool
}

// Body says what a pool wants of request bodies.
type Body string

// What a pool may want. A gateway that tells its body mode (Envoy does) is always answered in that mode.
const (
	// BodyNone picks as soon as the headers are known. The body, if the gateway sends it all the same, is passed on.
	BodyNone Body = ""
	// BodyBuffered picks when the body was read: the model's name is then in traces and on debug pages. A gateway that
	// does not tell its mode is taken to send BUFFERED.
	BodyBuffered Body = "Buffered"
	// BodyStreamed is the same for gateways that do not tell their mode and expect every byte of the body back
	// (FULL_DUPLEX_STREAMED).
	BodyStreamed Body = "Streamed"
)

// DefaultBodyLimit is the largest body that a pick waits for: 32 MiB.
const DefaultBodyLimit = 32 << 20

// Pool is one InferencePool, or one exporting cluster of an import, as the picker needs it. Nothing of it may be changed
// after it was handed over.
type Pool struct {
	// Name is the identity in x-penstock-pool.
	Name string
	// Default makes this the pool of gateways that name none. Of several the first by name counts.
	Default bool
	// Strategy is one of schedule.Names; "" is "load".
	Strategy string
	Weights  schedule.Weights // of strategy load
	Full     schedule.Full
	// Spills says that requests which find the pool full have somewhere else to go. One that does not say where, and was not
	// spilled already, comes from a route that does not know it yet (routes are a little behind, and a body takes its time):
	// it is not refused, as if nothing were full.
	Spills bool
	// Spill are the places to spill that Envoys have; of those that a request names, these alone are picked.
	Spill []string
	// Fallbacks is how many further endpoints a pick names, for Envoy to retry on in order; 0 to 8.
	Fallbacks int
	Endpoints []endpoint.Spec
	Metrics   endpoint.Metrics
	Body      Body
	// BodyLimit in bytes; 0 is DefaultBodyLimit.
	BodyLimit int
	// Relay, if set, asks a remote picker instead of choosing here.
	Relay *Relay
}

// Relay describes the remote picker of a pool whose pods are not known here.
type Relay struct {
	// Pickers are tried in order; required.
	Pickers []netip.AddrPort
	// TLS dials with TLS without verifying: pickers serve self-signed certificates by default. false is cleartext.
	TLS bool
	// CIDRs in which the remote pods may be. An address outside of them is refused. Without any, loopback, link-local and
	// multicast addresses are.
	CIDRs []netip.Prefix
	// Ports that may be named; empty allows any.
	Ports []uint16
}
