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

// Config configures a Picker. Fields of an interface type may be nil.
type Config struct {
	Log        *slog.Logger // nil means slog.Default()
	Registerer prometheus.Registerer
	Tracer     trace.TracerProvider

	Reports   Reports
	Sharing   Sharing
	Observer  Observer
	Recording *recording.File
	// Troubles receives failures. If Troubles is nil, idle pools are not watched.
	Troubles Troubles
	// HeldBodies bounds the request bodies in memory during picks, in bytes for all streams
	// together; 0 means extproc.DefaultBodies. Calls from other clusters may hold a further quarter
	// of HeldBodies.
	HeldBodies int64
	// KVEvents accepts model servers that publish KV events.
	KVEvents net.Listener
	Peers    Peers
	// Settle bounds how long a pick that may take an endpoint's last place waits until Peers count
	// the pick's request; 0 means 100 ms.
	Settle time.Duration
	// EndWait bounds how long a pick waits for another request to end if its pool is full, or if
	// the endpoint of its key in the strategy "chwbl" is full; 0 means 15 ms. Envoys send access
	// logs every 5 ms (translator/envoy, feedbackInterval); peers forward these 2 ms later.
	EndWait time.Duration
	// Callers identifies callers; nil admits all.
	Callers  Callers
	Stops    Stops
	OnDemand OnDemand
	// Access maps the key of a Gateway to its pools; nil allows all.
	Access Access
	// Permits reports whether API keys permit a pool (an objectid.Target) or a model; nil permits
	// nothing.
	Permits func(keys, pool, model string) bool
	// Watches ends open requests once their API keys no longer grant access. If Watches is nil,
	// requests that need this supervision are denied.
	Watches extproc.Watches
	// Believes reports whether a member of the cluster set may name the callers of its requests;
	// nil means that no member may.
	Believes func(member string) bool
	// Keyed means that this cluster's Gateways send keys. A call without a key then comes from
	// elsewhere.
	Keyed bool
	// Chooser chooses among the clusters of imports; nil without Pool.Clusters.
	Chooser Chooser
	// Learner delivers a remote picker's endpoints to Envoy before the pick is answered.
	Learner   Learner
	Protocol  Protocol
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

// Callers identifies the callers of a picker by the context of their calls.
type Callers interface {
	Gateway(context.Context) string
	Member(context.Context) string
	// Exported reports whether a member of the cluster set may pick from a pool. The member is ""
	// if the caller's connection does not authenticate a member.
	Exported(pool objectid.Target, member string) bool
}

// Reports receives facts from the access logs of gateways. Its methods must not block.
type Reports interface {
	// Forward receives access log entries whose lease another picker opened.
	Forward(accesslog.Entry)
	Attempt(accesslog.Attempt)
	// Used receives each request that the access check allowed or denied, exactly once.
	Used([]accesslog.Used)
}

// Sharing publishes facts to the pickers of other processes. Its methods must not block.
type Sharing interface {
	// Sent must not keep the Chain.
	Sent(Sent)
	Session(Session)
	Page(addr netip.AddrPort, page uint64, r endpoint.Reading)
}

// Observer receives all prompts that this process and its peers sent. Sent must neither block nor
// keep the Chain.
type Observer interface{ Sent(Sent) }

// Stops delays picks after this process was paused, until it has read the changes that it missed.
type Stops interface {
	// Behind returns how long a new pick waits for missed changes.
	Behind(now time.Time) time.Duration
}

// Troubles receives failures. Its methods must not call the Picker.
type Troubles interface {
	// Panicked receives a panic in the scrape of a metrics page, or in a reader of KV events.
	Panicked(page string, value any, stack []byte)
	// RelayFailed receives the first failure of a pool's relayed picks, and the zero value when
	// picks succeed again or the pool is removed or replaced.
	RelayFailed(pool objectid.Target, f RelayFailure)
	// Unserved receives a pool without a serving server, and the zero value when a server serves
	// again or the pool is removed.
	Unserved(pool objectid.Target, u Unserved)
	// Changed receives the servers that stopped or resumed serving while the pool has at least one
	// serving server.
	Changed(pool objectid.Target, c Change)
}

// Addresses excludes some addresses.
type Addresses interface {
	// Never returns why an address's metrics page must not be read, or "".
	Never(netip.Addr) string
	// Outside returns why no remote picker may name an address, or "".
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
func (discarded) Used([]accesslog.Used)                     {}
func (discarded) Panicked(string, any, []byte)              {}
func (discarded) RelayFailed(objectid.Target, RelayFailure) {}
func (discarded) Unserved(objectid.Target, Unserved)        {}
func (discarded) Changed(objectid.Target, Change)           {}

// Protocol adapts the picker to gateways that Penstock does not configure.
type Protocol struct {
	extproc.Names
	// Duplex assumes the body mode FULL_DUPLEX_STREAMED if the gateway does not send its mode.
	Duplex bool
	// Upstream registers metrics with the names of llm-d's EPP.
	Upstream bool
	// OnePool makes gRPC health checks fail while there is no default pool.
	OnePool bool
	// IgnoreSubset ignores the gateway's subset hint.
	IgnoreSubset bool
	// Conformance obeys the header test-epp-endpoint-selection: any client can choose its endpoint.
	Conformance bool
}

// Sent is a prompt that a pick sent to a server. A Sent with Denied revokes an earlier one.
type Sent struct {
	Pool objectid.Target
	// Sender is SenderHeader of the request, or "".
	Sender  string
	Server  netip.AddrPort
	Chain   prefix.Chain
	Denied  bool   // if true, Adapter and Slots are unset
	Adapter uint64 // hash of the LoRA adapter; 0 for none
	Slots   int    // number of LoRA adapters that the server can hold at once
}

// Session names the server or cluster that has a session or a stored response.
type Session struct {
	Pool objectid.Target `json:"p"`
	ID   uint64          `json:"i"` // schedule.Session.ID
	At   netip.AddrPort  `json:"a"`
	// Cluster replaces At if the pool is an import.
	Cluster string `json:"c,omitempty"`
	// Response replaces ID for a stored response. Served then replaces At: it names the
	// response's server or cluster.
	Response request.ResponseID `json:"r,omitzero"`
	Served   string             `json:"s,omitempty"`
	Client   uint64             `json:"l,omitempty"`
	// Age is the time since the session's last request, in milliseconds.
	Age int64 `json:"t,omitempty"`
}

// Peers are the pickers of other processes for the same gateways.
type Peers interface {
	// Alive reports whether the picker with this Owner exists. After that picker has ended, the
	// picker that receives its access log entries counts its requests.
	Alive(owner string) bool
	// Order returns the number of other pickers, and whether this picker is the first of all. All
	// pickers agree on the order.
	Order() (others int, first bool)
	// Settle returns when the other pickers count this process's requests in flight, or ctx ends.
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
	// Learn returns nil when every Envoy that may call this picker has the addresses.
	Learn(ctx context.Context, pool objectid.Target, addrs []netip.AddrPort) error
	// Isolated means that no Envoy reads configuration from this process, so another picker must
	// handle the request.
	Isolated() bool
}

// Body selects the requests whose bodies a pool needs.
type Body string

// Envoy and other gateways that send their body mode keep this mode, whatever Body is.
const (
	// BodyNone makes picks when the request headers arrive.
	BodyNone Body = ""
	// BodyBuffered makes picks after the whole body has arrived.
	BodyBuffered Body = "Buffered"
	// BodyPrompts is BodyBuffered for requests to known APIs, and BodyNone for other requests.
	BodyPrompts Body = "Prompts"
)

// DefaultBodyLimit is the largest body that a pick waits for, in bytes.
const DefaultBodyLimit = 32 << 20

// DefaultUserMessages is the number of user messages that form a chat completion's key for the
// strategy "chwbl".
const DefaultUserMessages = 2

// Pool is the picker's immutable configuration of an InferencePool, of an import (all exporting
// clusters of an InferencePool), or of one exporting cluster of an import.
type Pool struct {
	// ID is the pool's name. Gateways send its text in x-penstock-pool.
	ID objectid.Target
	// Default makes this the pool for gateways that send no pool. The first default pool by name
	// counts.
	Default bool
	// Strategy is one of schedule.Names; "" means "load".
	Strategy string
	// Shadow is a second strategy whose choices count only in metrics; "" means none.
	Shadow string
	// Plugins is the profile of the strategy "plugins". If nil, the pool keeps its last valid
	// strategy; without one it uses "load".
	Plugins *endpointpicker.Profile
	Full    schedule.Full
	// Scorers are the processes for Plugins.External, in this order.
	Scorers   []Scorer
	Processor *Processor
	// Criticality of requests; "" means Standard.
	Criticality schedule.Criticality
	Models      *Models
	FlowControl *FlowControl
	// TrustHeaders lets requests set their objective and, for FlowControl, their fairness ID and
	// deadline in headers.
	TrustHeaders bool
	// Hashing configures the strategy "chwbl". UserMessages 0 means DefaultUserMessages.
	Hashing      schedule.Hashing
	UserMessages int
	// ShedAfter is the predicted time to the first token above which a sheddable request is
	// answered with 429; 0 means no limit.
	ShedAfter time.Duration
	// SessionTTL is how long the strategy "session" keeps a session after its last request; 0 means
	// DefaultSessionTTL. SessionCookie "" means DefaultSessionCookie.
	SessionTTL    time.Duration
	SessionCookie string
	// Responses sends a request that names a stored response to the server or cluster that has it.
	Responses bool
	// Spills sends requests to their route's spill targets when the pool is full. If the route has
	// no spill targets, full endpoints stay eligible.
	Spills bool
	// Spill lists the spill targets that Envoys have. Picks use no other targets.
	Spill []string
	// Fallbacks is the number of additional endpoints in a pick, 0 to 8, for Envoy's retries.
	Fallbacks int
	// NoHeadersLimit removes the limit on how long a streamed request waits for its server's
	// response headers before Envoy also tries the next server.
	NoHeadersLimit bool
	Endpoints      []endpoint.Spec
	// Gone means that no route uses the pool any longer.
	Gone bool
	// Servers are the known model servers of a pool with a Relay, at most MaxServers. The picker
	// queries them for models and health.
	Servers []Server
	// Clusters are the clusters of an import, or nil. If set, the fields about model servers have
	// no effect.
	Clusters *Clusters
	Gateways bool
	Metrics  endpoint.Metrics
	KVEvents *KVEvents // nil if the model servers publish no KV events
	// LoadPort is the port of the PUB sockets that publish servers' load, or 0. Servers at one IP
	// address use consecutive ports, as for KVEvents.Port.
	LoadPort uint16
	Body     Body
	// BodyLimit is in bytes; 0 means DefaultBodyLimit.
	BodyLimit int
	// Relay makes an external picker choose; may be nil.
	Relay *Relay
}

// Clusters are the choices of a pick for a whole import.
type Clusters struct {
	List []Cluster
	// Further are hops to the import's spill targets. They follow the clusters in every pick.
	Further []string
	// Margin is how much cheaper than this cluster another cluster must be, as seconds of cost.
	Margin time.Duration
	// Latency compares the clusters by response times instead of load.
	Latency bool
	// Blind makes picks ignore prompts, even if bodies are read.
	Blind bool
	// Sessions sends a session's requests to one cluster while this cluster accepts requests.
	Sessions bool
}

// Cluster is an exporting cluster of an import.
type Cluster struct {
	Name    string
	Hop     string // cluster name in Envoy: "envoy://hops/NAME"
	Local   bool
	Servers int // number that the cluster declares; 0 if unknown
	NoGRPC  bool
}

// Server is one of Pool.Servers.
type Server struct {
	Addr      netip.AddrPort
	Labels    map[string]string
	Cleartext bool // connections have no TLS, whatever Metrics.Protocol is
}

// KVEvents configures where the model servers of a pool publish their cached blocks.
type KVEvents struct {
	Port       uint16 // port of each server's PUB socket; 0 if the servers connect to Config.KVEvents
	ReplayPort uint16 // port for lost events; 0 for none
	Topic      string
	Render     time.Duration
}

// FlowControl configures which requests wait while a pool is saturated.
type FlowControl struct {
	flow.Limits
	flow.Saturation
}

// Scorer configures an external scorer.
type Scorer struct {
	Addresses []dial.Address // the first that answers is used
	TLS       dial.TLS
}

// Relay is the external picker that chooses for a pool: a remote picker if this process does not
// know the pods, or a local picker that receives no bodies from gateways.
type Relay struct {
	Pickers []dial.Address
	// TLS is for addresses that are not Cleartext.
	TLS dial.TLS
	// Names are the external picker's names; "" means the protocol's name.
	Names extproc.Names
	// Pool is the pool's name at an external picker with several pools, or "".
	Pool string
	// Within are lists of ranges. An address in a pick must be in a range of each list. Without a
	// list, all addresses except loopback, link-local and multicast are allowed.
	Within [][]netip.Prefix
	// Ports are the allowed ports; empty means any port.
	Ports  []uint16
	Listed bool
}
