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

// Config of a Picker. Zero values mean the defaults given.
type Config struct {
	Log *slog.Logger // default: slog.Default()
	// Registerer registers the Prometheus metrics; nil for none.
	Registerer prometheus.Registerer
	// Tracer records spans of picks whose caller is traced and sampled; nil for none.
	Tracer trace.TracerProvider

	// Reports receives what the access logs of gateways show; nil: it is dropped.
	Reports Reports
	// Sharing receives what the pickers of other processes learn of this one; nil: it is dropped.
	Sharing Sharing
	// Observer receives what picks show about servers' caches: those of this process, and those
	// that Learn has. nil: it is dropped.
	Observer Observer
	// Recording is where requests are recorded; nil: nowhere.
	Recording *recording.File
	// Troubles receives what goes wrong; nil: it is dropped, and idle pools are not watched.
	Troubles Troubles
	// HeldBodies bounds the bodies that are held for picks, in bytes of all streams; 0 is
	// extproc.DefaultBodies. Those of calls from other clusters have a quarter as much beside it.
	HeldBodies int64
	// KVEvents accepts model servers that connect to publish KV events; nil: none. Run closes it.
	KVEvents net.Listener
	// Peers are the pickers of other processes for the same gateways; nil: there are none.
	Peers Peers
	// Settle bounds how long a pick that may take an endpoint's last slot waits for Peers to count
	// it: one of them may be frozen, and the slot is then taken. 0: 100 ms.
	Settle time.Duration
	// EndWait bounds how long a pick waits for the report that a request has ended, before its pool
	// is full for it or chwbl passes over the key's endpoint. 0: 15 ms. Envoy sends its access log
	// every 5 ms (translator/envoy, feedbackInterval), and a peer that receives it publishes it 2
	// ms later.
	EndWait time.Duration
	// Callers are whose calls are answered; nil: all.
	Callers Callers
	// Stops has the picks of a process wait that was stopped for a while; nil: no pick waits.
	Stops Stops
	// Access decides which pools the key of a Gateway opens; nil: all.
	Access Access
	// Keyed: calls of the Gateways here have keys, so one without a key comes from another cluster,
	// or from a gateway that Penstock does not configure.
	Keyed bool
	// Chooser chooses among the clusters of imports (Pool.Clusters); nil: there are no such pools.
	Chooser Chooser
	// Learner runs before a relayed pick is answered. Nil if there are no relayed pools, or if
	// Envoy dials any address.
	Learner Learner
	// Protocol is how gateways that name no pool are spoken to: Penstock does not configure them.
	Protocol Protocol
	// Addresses are those that nothing is sent to; nil: all are.
	Addresses Addresses
}

// withDefaults returns the configuration with what its zero values mean.
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

// Callers are whose calls a picker answers.
type Callers interface {
	// Gateway returns the Gateway whose key a call has, "namespace/name"; "" if calls need none.
	Gateway(context.Context) string
	// Member returns the other cluster whose Gateway makes a call, as its connection proves; "" if
	// that proves none.
	Member(context.Context) string
	// Exported reports whether a member may pick from a pool, which it names; "": other clusters
	// whose connections prove nothing.
	Exported(of objectid.Target, member string) bool
}

// Reports receives what the access logs of gateways show. It must not block.
type Reports interface {
	// Forward receives entries whose lease belongs to another picker: a gateway that asks several
	// pickers may send an entry to any of them.
	Forward(accesslog.Entry)
	// Attempt receives what became of a request, those to exporting clusters of imports included.
	Attempt(accesslog.Attempt)
}

// Sharing receives what the pickers of other processes learn of this one. It must not block.
type Sharing interface {
	// Sent receives what a pick shows about a server's caches; see Picker.Learn. It must not keep
	// the Chain.
	Sent(Sent)
	// Session receives where a session of a pool is; see Picker.LearnSession.
	Session(Session)
	// Page receives what a metrics page shows; see endpoint.Registry.Receive.
	Page(addr netip.AddrPort, page uint64, r endpoint.Reading)
}

// Observer receives what picks show about servers' caches. It must not block, and not keep the
// Chain.
type Observer interface{ Sent(Sent) }

// Stops delays picks after a stop of this process.
type Stops interface {
	// Behind returns how long a pick that begins waits, because the process may not know what has
	// changed while it was stopped.
	Behind(now time.Time) time.Duration
}

// Troubles receives what goes wrong. It must not call the Picker.
type Troubles interface {
	// Panicked is called when a scrape has panicked, with its page, or the reading of KV events,
	// with their server; it then counts as failed.
	Panicked(page string, value any, stack []byte)
	// RelayFailed receives the failure when relayed picks of a pool begin to fail, and the zero
	// value when they succeed again or the pool is removed or replaced.
	RelayFailed(pool objectid.Target, f RelayFailure)
	// Unserved receives that no server of a pool serves, and the zero value when one does again or
	// the pool is removed.
	Unserved(pool objectid.Target, u Unserved)
}

// Addresses are those that nothing is sent to.
type Addresses interface {
	// Never returns the kind of an address whose metrics page is never read, "" for all others.
	Never(netip.Addr) string
	// Outside returns why no remote picker may name an address, whatever the ranges of its pool; ""
	// if one may.
	Outside(netip.Addr) string
}

// unrestricted permits all callers and all addresses.
type unrestricted struct{}

func (unrestricted) Gateway(context.Context) string        { return "" }
func (unrestricted) Member(context.Context) string         { return "" }
func (unrestricted) Exported(objectid.Target, string) bool { return true }
func (unrestricted) Never(netip.Addr) string               { return "" }
func (unrestricted) Outside(netip.Addr) string             { return "" }

// discarded drops what it receives.
type discarded struct{}

func (discarded) Forward(accesslog.Entry)                   {}
func (discarded) Attempt(accesslog.Attempt)                 {}
func (discarded) Panicked(string, any, []byte)              {}
func (discarded) RelayFailed(objectid.Target, RelayFailure) {}
func (discarded) Unserved(objectid.Target, Unserved)        {}

// Protocol has what differs for gateways that Penstock does not configure.
type Protocol struct {
	extproc.Names
	// Duplex takes a gateway that does not send its body mode to use FULL_DUPLEX_STREAMED, as the
	// protocol demands.
	Duplex bool
	// Upstream registers metrics with the names of llm-d's EPP, for the default pool.
	Upstream bool
	// OnePool has health checks fail while there is no default pool: gateways name none, so that
	// nothing could be picked.
	OnePool bool
	// IgnoreSubset picks among all endpoints, whatever subset hint a gateway sends.
	IgnoreSubset bool
	// Conformance obeys the request's header test-epp-endpoint-selection, and sends
	// x-conformance-test-served-endpoint: the conformance suite of the inference extension demands
	// it. Any client may then choose its endpoint.
	Conformance bool
}

// Sent is what a pick shows about a server's caches: it was sent a prompt, and a request for an
// adapter. Denied takes that of an earlier pick back: the server has not read the prompt.
type Sent struct {
	Pool objectid.Target // that it was picked from
	// the process of another cluster that chose this one for the request (SenderHeader); "": none
	Sender  string
	Server  netip.AddrPort
	Chain   prefix.Chain
	Denied  bool   // Adapter and Slots are not set
	Adapter uint64 // its hash; 0 for none
	Slots   int    // the server's, for adapters
}

// Session is where a session of a pool is: at an endpoint or, of an import, in a cluster. Or it is
// where a response is that a server keeps.
type Session struct {
	Pool objectid.Target `json:"p"`
	ID   uint64          `json:"i"` // schedule.Session.ID
	At   netip.AddrPort  `json:"a"`
	// Cluster of an import, instead of At.
	Cluster string `json:"c,omitempty"`
	// Response is a response that a server keeps, instead of ID. Served is where that is, as access
	// logs have it, instead of At, and Client stands for the client that has it.
	Response request.ResponseID `json:"r,omitzero"`
	Served   string             `json:"s,omitempty"`
	Client   uint64             `json:"l,omitempty"`
	// Age is how long ago the session's last request was, in milliseconds.
	Age int64 `json:"t,omitempty"`
}

// Peers are the pickers of other processes for the same gateways.
type Peers interface {
	// Alive reports whether there is a picker with an Owner's name. The requests of one that is
	// gone are counted by the picker that receives their access log.
	Alive(owner string) bool
	// Order returns how many others there are, and whether this process goes before all of them, in
	// an order that is the same for all.
	Order() (others int, first bool)
	// Settle returns once the others count the requests that this process has in flight now, and
	// ctx at the latest.
	Settle(ctx context.Context)
}

// alone is a process without peers.
type alone struct{}

func (alone) Alive(string) bool      { return false }
func (alone) Order() (int, bool)     { return 0, true }
func (alone) Settle(context.Context) {}

// Access decides which pools the proxies of a Gateway may pick from.
type Access interface {
	// Allowed reports whether a Gateway may pick from a pool. changed closes when the answer may be
	// another one.
	Allowed(gateway string, pool objectid.Target) (allowed bool, changed <-chan struct{})
	// Lagging reports that this process may lack recent objects, so that a denial may be wrong.
	Lagging() bool
}

// Learner delivers endpoints that a remote picker named to Envoy.
type Learner interface {
	// Learn returns nil once the pool's cluster has the addresses in every Envoy that may ask. On
	// an error the request is answered 503.
	Learn(ctx context.Context, pool objectid.Target, addrs []netip.AddrPort) error
	// Isolated reports that no Envoy gets its configuration from this process, so that Learn would
	// wait in vain. The request is then left to another picker.
	Isolated() bool
}

// Body is what a pool needs of request bodies.
type Body string

// The values of Body. A gateway that sends its body mode (Envoy does) is always answered in that
// mode.
const (
	// BodyNone picks as soon as the headers have arrived. A body that the gateway sends anyway is
	// passed on.
	BodyNone Body = ""
	// BodyBuffered picks after the body has been read, so that traces and debug pages show the
	// model. A gateway that doesn't send its mode is assumed to use BUFFERED.
	BodyBuffered Body = "Buffered"
	// BodyPrompts reads the bodies of requests whose API is known, and picks for others as soon as
	// the headers have arrived.
	BodyPrompts Body = "Prompts"
)

// DefaultBodyLimit is the largest body that a pick waits for: 32 MiB.
const DefaultBodyLimit = 32 << 20

// DefaultUserMessages is how many user messages are in the key of a chat completion.
const DefaultUserMessages = 2

// Pool is the picker's configuration of one InferencePool, or of one exporting cluster of an
// import. It must not be changed after it was passed to a Picker.
type Pool struct {
	// ID is the pool's identity. Gateways name it by its text, in x-penstock-pool.
	ID objectid.Target
	// Default makes this the pool of gateways that name none. Of several, the first by name is
	// used.
	Default bool
	// Strategy is one of schedule.Names; "" is "load".
	Strategy string
	// Shadow is a strategy that judges the picks of Strategy without effect, by what Strategy is
	// given of requests; "" for none.
	Shadow string
	// Plugins of the strategy "plugins"; nil if what configures them is invalid: then the pool
	// keeps its last valid strategy, and at first has "load".
	Plugins *endpointpicker.Profile
	Full    schedule.Full
	// Scorers are the processes of Plugins.External, in their order, each at one of some addresses.
	Scorers []Scorer
	// Processor prepares the pool's requests; nil: none does.
	Processor *Processor
	// Criticality of the pool's requests; "" is Standard.
	Criticality schedule.Criticality
	// Models is what becomes of requests for some models, and of those with some objectives; nil:
	// nothing.
	Models *Models
	// FlowControl holds requests back while the pool is saturated; nil: none.
	FlowControl *FlowControl
	// TrustHeaders lets requests name their objective, and for FlowControl their fairness ID and
	// deadline.
	TrustHeaders bool
	// Hashing configures the strategy "chwbl", whose key has up to UserMessages user messages of a
	// chat completion; 0 is DefaultUserMessages.
	Hashing      schedule.Hashing
	UserMessages int
	// ShedAfter answers a sheddable request 429 if its first token is predicted to take longer; 0:
	// never.
	ShedAfter time.Duration
	// SessionTTL is how long a session stays at its endpoint after its last request, with the
	// strategy "session"; 0 is DefaultSessionTTL. SessionCookie is the cookie that has its ID; ""
	// is DefaultSessionCookie.
	SessionTTL    time.Duration
	SessionCookie string
	// Responses sends requests that name a response of the Responses API to the server that keeps
	// it, or of an import to the cluster.
	Responses bool
	// Spills means that requests which find the pool full can be spilled. A request without spill
	// targets that was not spilled already comes from a route that lacks them still (routes lag a
	// little, and a body takes its time). Such a request is not rejected: it is picked for as if no
	// endpoint were full.
	Spills bool
	// Spill lists the spill targets that Envoys have. Only these are picked of the targets that a
	// request names.
	Spill []string
	// Fallbacks is how many further endpoints a pick names, for Envoy to retry on in order; 0 to 8.
	Fallbacks int
	// NoHeadersLimit lets streams wait for the headers of their server without a limit.
	NoHeadersLimit bool
	Endpoints      []endpoint.Spec
	// Gone: no route leads to the pool any more. It is picked from for a while.
	Gone bool
	// Servers are the model servers of a pool with a Relay as far as they are known here,
	// MaxServers at most. They are asked for their models, and whether they work.
	Servers []Server
	// Clusters are those of an import, of which a pick names the best; nil: a pick names endpoints.
	// Only Name, Body, BodyLimit and Responses have an effect beside it.
	Clusters *Clusters
	// Gateways: nothing is picked for the pool. It is reached through gateways of another cluster,
	// which are Servers.
	Gateways bool
	Metrics  endpoint.Metrics
	KVEvents *KVEvents // nil: the pool's model servers publish none
	// LoadPort is that of the PUB sockets at which the model servers publish their load, counted as
	// KVEvents.Port is; 0: they do not. Pages are read while it does not arrive.
	LoadPort uint16
	Body     Body
	// BodyLimit in bytes; 0 is DefaultBodyLimit.
	BodyLimit int
	// Relay, if set, asks a remote picker instead of choosing here.
	Relay *Relay
}

// Clusters are what a pick for a whole import chooses among.
type Clusters struct {
	List []Cluster
	// Further are hops to where the import spills, in order: they follow the clusters in every
	// pick.
	Further []string
	// Margin by which another cluster must be cheaper than the own one.
	Margin time.Duration
	// Latency: by how fast the clusters answer, not by their load.
	Latency bool
	// Blind: prompts do not decide, even if bodies are read.
	Blind bool
	// Sessions: the requests of a session go to the cluster of its first one while it takes
	// requests. Of Pool, SessionTTL and SessionCookie have an effect then.
	Sessions bool
}

// Cluster is an exporting cluster of an import.
type Cluster struct {
	Name    string
	Hop     string // as Envoy has it: "envoy://hops/NAME"
	Local   bool   // it is the own cluster
	Servers int    // that it has declared; 0: not known
	NoGRPC  bool   // it takes no gRPC requests
}

// Server is one of Pool.Servers.
type Server struct {
	Addr      netip.AddrPort
	Labels    map[string]string
	Cleartext bool // it is called without TLS, whatever Metrics.Protocol
}

// KVEvents is where the model servers of a pool publish what they have cached.
type KVEvents struct {
	Port       uint16 // of each server's PUB socket; 0: the servers connect to Config.KVEvents
	ReplayPort uint16 // of its socket for lost events; 0: none
	Topic      string // the beginning of the topics to read
	// Render is how long a pick may wait for the token IDs of a prompt that is text, which a server
	// of the pool is asked for; 0: they are not asked.
	Render time.Duration
}

// FlowControl configures which requests wait while a pool is saturated.
type FlowControl struct {
	flow.Limits
	flow.Saturation
}

// Scorer is where a scorer in another process serves.
type Scorer struct {
	Addresses []dial.Address // the first that answers is used; none: it never answers
	TLS       dial.TLS       // for those that are not Cleartext
}

// Relay describes the external picker of a pool, which is asked in place of choosing here: the
// remote picker of a pool whose pods are unknown in this cluster, or one that gateways ask
// themselves where it gets bodies.
type Relay struct {
	// Pickers are tried in order; required.
	Pickers []dial.Address
	// TLS is for those that are not Cleartext.
	TLS dial.TLS
	// Names are those by which the external picker names endpoints; empty ones are the protocol's.
	Names extproc.Names
	// Pool is the pool's name at a picker that serves several; "" if that one is not asked by name.
	Pool string
	// Within are the ranges of the remote pods: a pick never names an address that is not in a
	// range of each list. If empty, all addresses are allowed but loopback, link-local and
	// multicast ones.
	Within [][]netip.Prefix
	// Ports that may be named; empty allows any.
	Ports []uint16
	// Listed means that Envoys have the pool's endpoints: they pass over any other address, and
	// nothing is learned.
	Listed bool
}
