package picker

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/recording"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Config configures a Picker. Zero values mean the defaults given.
type Config struct {
	Log        *slog.Logger // default: slog.Default()
	Registerer prometheus.Registerer
	// Tracer records sampled picks; may be nil.
	Tracer trace.TracerProvider

	// May be nil.
	Reports Reports
	// May be nil.
	Sharing Sharing
	// Observer receives all prompts that this process and others (Learn) sent; may be nil.
	Observer  Observer
	Recording *recording.File
	// Troubles receives failures. If nil, idle pools are not watched.
	Troubles Troubles
	// HeldBodies bounds the bodies held for picks, in bytes over all streams; 0 means
	// extproc.DefaultBodies. Calls from other clusters have a separate quarter of it.
	HeldBodies int64
	// KVEvents accepts model servers that publish KV events; may be nil. Run closes it.
	KVEvents net.Listener
	// Peers are the pickers of other processes for the same gateways; may be nil.
	Peers Peers
	// Settle bounds the wait of a pick that may take an endpoint's last slot until Peers count it;
	// 0 means 100 ms. After it, the pick takes the slot: a peer may be frozen.
	Settle time.Duration
	// EndWait bounds a pick's wait for another request's end, before its pool counts as full or
	// chwbl passes over the key's endpoint; 0 means 15 ms. Envoy sends its access log every 5 ms
	// (translator/envoy, feedbackInterval), and peers publish it 2 ms later.
	EndWait time.Duration
	// Callers identifies callers; nil admits all.
	Callers Callers
	// Stops delays picks after this process was stopped for a while; may be nil.
	Stops Stops
	// Access maps the key of a Gateway to its pools; nil allows all.
	Access Access
	// Permits reports whether API keys, as a gate names them, permit a pool (the text of an
	// objectid.Target) or a model; nil permits nothing.
	Permits func(keys, pool, model string) bool
	// Keyed means that this cluster's Gateways send keys. A call without one then comes from
	// another cluster, or a gateway that Penstock does not configure.
	Keyed bool
	// Chooser chooses among the clusters of imports; nil without Pool.Clusters.
	Chooser Chooser
	// Learner runs before a relayed pick is answered; nil without relayed pools, or if Envoy dials
	// any address.
	Learner  Learner
	Protocol Protocol
	// May be nil.
	Addresses Addresses
}

func (c Config) withDefaults() Config {
	c.Protocol.Names = c.Protocol.Names.WithDefaults()
	c.Settle, c.EndWait = cmp.Or(c.Settle, 100*time.Millisecond), cmp.Or(c.EndWait, 15*time.Millisecond)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Peers == nil {
		c.Peers = alone{}
	}
	if c.Reports == nil {
		c.Reports = discarded{}
	}
	if c.Troubles == nil {
		c.Troubles = discarded{}
	}
	if c.Callers == nil {
		c.Callers = unrestricted{}
	}
	if c.Addresses == nil {
		c.Addresses = unrestricted{}
	}
	return c
}

// Callers identifies the callers of a picker.
type Callers interface {
	Gateway(context.Context) string
	Member(context.Context) string
	// Exported reports whether a member may pick from a pool. "" is any cluster whose connection
	// proves none.
	Exported(pool objectid.Target, member string) bool
}

// Reports receives facts from the access logs of gateways. It must not block.
type Reports interface {
	// Forward receives entries with another picker's lease: a gateway with several pickers may send
	// an entry to any of them.
	Forward(accesslog.Entry)
	// Attempt receives a request's outcome, including requests to exporting clusters of imports.
	Attempt(accesslog.Attempt)
}

// Sharing receives facts for the pickers of other processes. It must not block.
type Sharing interface {
	// Sent receives a prompt that a pick sent (Picker.Learn). It must not keep the Chain.
	Sent(Sent)
	// Session receives a pool's session (Picker.LearnSession).
	Session(Session)
	// Page receives a metrics page's reading (endpoint.Registry.Receive).
	Page(addr netip.AddrPort, page uint64, r endpoint.Reading)
}

// Observer receives the prompts that picks sent. It must not block, nor keep the Chain.
type Observer interface{ Sent(Sent) }

// Stops delays picks after a stop of this process.
type Stops interface {
	// Behind returns how long a new pick waits: the process may have missed changes during the
	// stop.
	Behind(now time.Time) time.Duration
}

// Troubles receives failures. It must not call the Picker.
type Troubles interface {
	// Panicked receives a panic of a scrape, with its page, or of reading KV events, with their
	// server.
	Panicked(page string, value any, stack []byte)
	// RelayFailed receives the first failure of a pool's relayed picks, and the zero value when
	// they succeed again, or the pool is removed or replaced.
	RelayFailed(pool objectid.Target, f RelayFailure)
	// Unserved receives a pool without a serving server, and the zero value when one serves again
	// or the pool is removed.
	Unserved(pool objectid.Target, u Unserved)
}

// Addresses excludes addresses.
type Addresses interface {
	// Never returns the kind of an address whose page must not be read, or "".
	Never(netip.Addr) string
	// Outside returns why no remote picker may name an address, whatever its pool's ranges, or "".
	Outside(netip.Addr) string
}

type unrestricted struct{}

func (unrestricted) Gateway(context.Context) string        { return "" }
func (unrestricted) Member(context.Context) string         { return "" }
func (unrestricted) Exported(objectid.Target, string) bool { return true }
func (unrestricted) Never(netip.Addr) string               { return "" }
func (unrestricted) Outside(netip.Addr) string             { return "" }

type discarded struct{}

func (discarded) Forward(accesslog.Entry)                   {}
func (discarded) Attempt(accesslog.Attempt)                 {}
func (discarded) Panicked(string, any, []byte)              {}
func (discarded) RelayFailed(objectid.Target, RelayFailure) {}
func (discarded) Unserved(objectid.Target, Unserved)        {}

// Protocol configures gateways that Penstock does not configure.
type Protocol struct {
	extproc.Names
	// Duplex assumes FULL_DUPLEX_STREAMED for gateways that do not send their mode, as the protocol
	// demands.
	Duplex bool
	// Upstream registers metrics with the names of llm-d's EPP, for the default pool.
	Upstream bool
	// OnePool fails health checks without a default pool, because gateways send no pool.
	OnePool bool
	// IgnoreSubset ignores the gateway's subset hint.
	IgnoreSubset bool
	// Conformance obeys the header test-epp-endpoint-selection and sends
	// x-conformance-test-served-endpoint, for the inference extension's conformance suite. Any
	// client can then choose its endpoint.
	Conformance bool
}

// Sent is a prompt that a pick sent to a server, and a request for an adapter. Denied reverts an
// earlier pick's: the server has not read the prompt.
type Sent struct {
	Pool objectid.Target // of the pick
	// Sender is the other cluster's process that chose this one (SenderHeader), or "".
	Sender  string
	Server  netip.AddrPort
	Chain   prefix.Chain
	Denied  bool   // Adapter and Slots are not set
	Adapter uint64 // hash; 0 for none
	Slots   int    // of the server, for adapters
}

// Session is the endpoint of a pool's session, or the cluster for an import. Or it is the place of
// a response that a server stores.
type Session struct {
	Pool objectid.Target `json:"p"`
	ID   uint64          `json:"i"` // schedule.Session.ID
	At   netip.AddrPort  `json:"a"`
	// Cluster replaces At for an import.
	Cluster string `json:"c,omitempty"`
	// Response is a stored response, instead of ID. Served is its server, as in access logs,
	// instead of At.
	Response request.ResponseID `json:"r,omitzero"`
	Served   string             `json:"s,omitempty"`
	Client   uint64             `json:"l,omitempty"`
	// Age is the time since the session's last request, in milliseconds.
	Age int64 `json:"t,omitempty"`
}

// Peers are the pickers of other processes for the same gateways.
type Peers interface {
	// Alive reports whether the picker with an Owner's name exists. If it is gone, the picker that
	// receives its requests' access log counts them.
	Alive(owner string) bool
	// Order returns the number of other pickers, and whether this one is first in an order shared
	// by all.
	Order() (others int, first bool)
	// Settle returns once the others count this process's current requests in flight, or ctx ends.
	Settle(ctx context.Context)
}

type alone struct{}

func (alone) Alive(string) bool      { return false }
func (alone) Order() (int, bool)     { return 0, true }
func (alone) Settle(context.Context) {}

// Access maps Gateways to the pools that their proxies may pick from.
type Access interface {
	// Allowed reports whether a Gateway may pick from a pool. changed closes when the result may
	// have changed.
	Allowed(gateway string, pool objectid.Target) (allowed bool, changed <-chan struct{})
	// Lagging means that this process may lack recent objects, so a denial may be wrong.
	Lagging() bool
}

// Learner delivers a remote picker's endpoints to Envoy.
type Learner interface {
	// Learn returns nil once every Envoy that may ask has the addresses in the pool's cluster.
	// After an error the request gets a 503.
	Learn(ctx context.Context, pool objectid.Target, addrs []netip.AddrPort) error
	// Isolated means that no Envoy gets its configuration from this process, so Learn would wait in
	// vain. Another picker must then handle the request.
	Isolated() bool
}

// Body is a pool's need of request bodies.
type Body string

// The values of Body. They do not change the mode of gateways that send it, as Envoy does.
const (
	// BodyNone picks upon the headers. A body that the gateway sends anyway passes.
	BodyNone Body = ""
	// BodyBuffered picks after the body was read, so that traces and debug pages show the model. A
	// gateway that does not send its mode is assumed to use BUFFERED.
	BodyBuffered Body = "Buffered"
	// BodyPrompts reads the bodies of known APIs, and picks for other requests upon the headers.
	BodyPrompts Body = "Prompts"
)

// DefaultBodyLimit is the largest body that a pick waits for, in bytes.
const DefaultBodyLimit = 32 << 20

// DefaultUserMessages is the number of user messages in a chat completion's key.
const DefaultUserMessages = 2

// Pool is the picker's configuration of one InferencePool, or of one exporting cluster of an
// import. It is immutable once passed to a Picker.
type Pool struct {
	// Gateways send the ID's text in x-penstock-pool.
	ID objectid.Target
	// Default makes this the pool of gateways that send none. Of several, the first by name counts.
	Default bool
	// Strategy is one of schedule.Names; "" means "load".
	Strategy string
	// Shadow is a strategy that judges Strategy's picks without effect, with Strategy's view of
	// requests; may be "".
	Shadow string
	// Plugins of the strategy "plugins"; nil if invalid. Then the pool keeps its last valid
	// strategy, or starts with "load".
	Plugins *endpointpicker.Profile
	Full    schedule.Full
	// Scorers are the processes of Plugins.External, in their order.
	Scorers   []Scorer
	Processor *Processor
	// Criticality of the pool's requests; "" means Standard.
	Criticality schedule.Criticality
	Models      *Models
	FlowControl *FlowControl
	// TrustHeaders lets requests set their objective and, for FlowControl, their fairness ID and
	// deadline.
	TrustHeaders bool
	// Hashing configures the strategy "chwbl". Its key has up to UserMessages user messages of a
	// chat completion; 0 means DefaultUserMessages.
	Hashing      schedule.Hashing
	UserMessages int
	// ShedAfter answers a sheddable request with 429 if its first token is predicted to take
	// longer; 0 disables it.
	ShedAfter time.Duration
	// SessionTTL is how long the strategy "session" keeps a session after its last request; 0 means
	// DefaultSessionTTL. SessionCookie has its ID; "" means DefaultSessionCookie.
	SessionTTL    time.Duration
	SessionCookie string
	// Responses sends requests that name a stored response of the Responses API to its server or,
	// for an import, its cluster.
	Responses bool
	// Spills means that requests can be spilled when the pool is full. A request that was not
	// spilled yet and has no spill targets comes from a route that still lacks them: routes lag,
	// and a body takes time. It is picked for as if no endpoint were full.
	Spills bool
	// Spill lists the spill targets that Envoys have; picks use no others.
	Spill []string
	// Fallbacks is the number of additional endpoints per pick, 0 to 8, for Envoy's retries in
	// order.
	Fallbacks int
	// NoHeadersLimit lets streams wait without a limit for their server's headers.
	NoHeadersLimit bool
	Endpoints      []endpoint.Spec
	// Gone means that no route leads to the pool any more. It serves picks for a while.
	Gone bool
	// Servers are the known model servers of a pool with a Relay, up to MaxServers, for queries of
	// models and health.
	Servers []Server
	// Clusters are an import's, which a pick ranks instead of endpoints; may be nil. Besides, only
	// Name, Body, BodyLimit and Responses have an effect.
	Clusters *Clusters
	Gateways bool
	Metrics  endpoint.Metrics
	KVEvents *KVEvents // nil if the model servers publish none
	// LoadPort is the port of the PUB sockets for the model servers' load, counted like
	// KVEvents.Port; 0 without. Pages are read while no load arrives.
	LoadPort uint16
	Body     Body
	// BodyLimit in bytes; 0 means DefaultBodyLimit.
	BodyLimit int
	// Relay makes a remote picker choose; may be nil.
	Relay *Relay
}

// Clusters are the choices of a pick for a whole import.
type Clusters struct {
	List []Cluster
	// Further are hops to the import's spill targets, in order, after the clusters in every pick.
	Further []string
	// Margin by which another cluster must be cheaper than the own one.
	Margin time.Duration
	// Latency compares the clusters by response times, not by load.
	Latency bool
	// Blind ignores prompts, even if bodies are read.
	Blind bool
	// Sessions sends a session's requests to the cluster of its first one while it accepts requests
	// (Pool.SessionTTL, SessionCookie).
	Sessions bool
}

// Cluster is an exporting cluster of an import.
type Cluster struct {
	Name    string
	Hop     string // as in Envoy: "envoy://hops/NAME"
	Local   bool   // the own cluster
	Servers int    // declared; 0 if unknown
	NoGRPC  bool   // accepts no gRPC requests
}

// Server is one of Pool.Servers.
type Server struct {
	Addr      netip.AddrPort
	Labels    map[string]string
	Cleartext bool // without TLS, whatever Metrics.Protocol
}

// KVEvents configures where the model servers of a pool publish their cached blocks.
type KVEvents struct {
	Port       uint16 // of each server's PUB socket; 0 if the servers connect to Config.KVEvents
	ReplayPort uint16 // of its socket for lost events; 0 for none
	Topic      string // prefix of the topics to read
	Render     time.Duration
}

// FlowControl configures which requests wait while a pool is saturated.
type FlowControl struct {
	flow.Limits
	flow.Saturation
}

// Scorer locates a scorer in another process.
type Scorer struct {
	Addresses []dial.Address // the first that answers is used; without any, it never answers
	TLS       dial.TLS       // for addresses that are not Cleartext
}

// Relay is the external picker that chooses for a pool: the remote picker of a pool whose pods are
// unknown here, or a local one that gateways ask themselves where it gets bodies.
type Relay struct {
	Pickers []dial.Address
	// TLS is for addresses that are not Cleartext.
	TLS dial.TLS
	// Names are the external picker's; empty ones mean the protocol's.
	Names extproc.Names
	// Pool is the pool's name at a picker of several; "" sends none.
	Pool string
	// Within are the ranges of the remote pods. A pick's address must be in a range of each list.
	// Without any list, all addresses are allowed except loopback, link-local and multicast.
	Within [][]netip.Prefix
	// Ports that may be used; empty allows any.
	Ports  []uint16
	Listed bool
}
