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

// Config configures a Picker.
type Config struct {
	Log        *slog.Logger // default: slog.Default()
	Registerer prometheus.Registerer
	// Tracer records sampled picks; may be nil.
	Tracer trace.TracerProvider

	// Reports may be nil.
	Reports Reports
	// Sharing may be nil.
	Sharing Sharing
	// Observer receives all prompts that this process and its peers sent; may be nil.
	Observer  Observer
	Recording *recording.File
	// Troubles receives failures. Without it, idle pools are not watched.
	Troubles Troubles
	// HeldBodies bounds the bodies held for picks, in bytes for all streams; 0 means
	// extproc.DefaultBodies. Calls from other clusters have a separate bound, a quarter of
	// HeldBodies.
	HeldBodies int64
	// KVEvents accepts model servers that publish KV events; may be nil.
	KVEvents net.Listener
	// Peers are the pickers of other processes for the same gateways; may be nil.
	Peers Peers
	// A pick that may take an endpoint's last slot waits until Peers count its request. Settle
	// bounds this wait; 0 means 100 ms.
	Settle time.Duration
	// EndWait bounds how long a pick waits for the end of another request before its pool counts as
	// full, or before chwbl passes over the key's endpoint; 0 means 15 ms. Access logs arrive every
	// 5 ms (translator/envoy, feedbackInterval), and from peers 2 ms later.
	EndWait time.Duration
	// Callers identifies callers; nil admits all.
	Callers Callers
	// Stops delays picks after this process was paused; may be nil.
	Stops Stops
	// OnDemand starts model servers of pools that have none; may be nil.
	OnDemand OnDemand
	// Access maps the key of a Gateway to its pools; nil allows all.
	Access Access
	// Permits reports whether API keys permit a pool (an objectid.Target) or a model; nil permits
	// nothing.
	Permits func(keys, pool, model string) bool
	// Watches ends open requests once their keys no longer grant access; nil denies all requests
	// that need watching.
	Watches extproc.Watches
	// Believes reports whether a member may state the callers of its picks; nil believes none.
	Believes func(member string) bool
	// Keyed means that this cluster's Gateways send keys. Calls without a key come from elsewhere.
	Keyed bool
	// Chooser chooses among the clusters of imports; nil without Pool.Clusters.
	Chooser Chooser
	// Learner is called before a relayed pick is answered; may be nil.
	Learner  Learner
	Protocol Protocol
	// Addresses may be nil.
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
	// Exported reports whether a member may pick from a pool. "" stands for clusters whose
	// connections prove no member.
	Exported(pool objectid.Target, member string) bool
}

// Reports receives facts from the access logs of gateways. It must not block.
type Reports interface {
	// Forward receives entries with a lease of another picker.
	Forward(accesslog.Entry)
	Attempt(accesslog.Attempt)
	// Used receives the requests that a gate decided, each exactly once.
	Used([]accesslog.Used)
}

// Sharing receives facts for the pickers of other processes. It must not block.
type Sharing interface {
	// Sent must not keep the Chain.
	Sent(Sent)
	Session(Session)
	Page(addr netip.AddrPort, page uint64, r endpoint.Reading)
}

// Observer receives the prompts that picks sent. It must neither block nor keep the Chain.
type Observer interface{ Sent(Sent) }

// Stops delays picks after a pause of this process.
type Stops interface {
	// Behind returns how long a new pick waits for missed changes.
	Behind(now time.Time) time.Duration
}

// Troubles receives failures. It must not call the Picker.
type Troubles interface {
	// Panicked receives a panic in the scrape of a metrics page, or in a reader of KV events.
	Panicked(page string, value any, stack []byte)
	// RelayFailed receives the first failure of a pool's relayed picks, and the zero value when
	// picks succeed again or the pool is removed or replaced.
	RelayFailed(pool objectid.Target, f RelayFailure)
	// Unserved receives a pool without a serving server, and the zero value when a server serves
	// again or the pool is removed.
	Unserved(pool objectid.Target, u Unserved)
	// Changed receives the servers of a pool that stopped serving or serve again, unless the pool
	// is unserved.
	Changed(pool objectid.Target, c Change)
}

// Addresses excludes some addresses.
type Addresses interface {
	// Never returns the kind of an address whose page must not be read, or "".
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

// Protocol configures gateways that Penstock does not configure.
type Protocol struct {
	extproc.Names
	// Duplex assumes FULL_DUPLEX_STREAMED for gateways that do not send their mode.
	Duplex bool
	// Upstream registers metrics with the names of llm-d's EPP.
	Upstream bool
	// OnePool makes health checks fail while there is no default pool.
	OnePool bool
	// IgnoreSubset ignores the gateway's subset hint.
	IgnoreSubset bool
	// Conformance obeys the header test-epp-endpoint-selection, so that any client can choose its
	// endpoint.
	Conformance bool
}

// Sent is a prompt that a pick sent to a server. Denied reverts an earlier Sent.
type Sent struct {
	Pool objectid.Target
	// Sender is SenderHeader of the request, or "".
	Sender  string
	Server  netip.AddrPort
	Chain   prefix.Chain
	Denied  bool   // if true, Adapter and Slots are not set
	Adapter uint64 // hash; 0 for none
	Slots   int    // number of the server's slots for adapters
}

// Session is the place of a session or of a stored response.
type Session struct {
	Pool objectid.Target `json:"p"`
	ID   uint64          `json:"i"` // schedule.Session.ID
	At   netip.AddrPort  `json:"a"`
	// Cluster replaces At for an import.
	Cluster string `json:"c,omitempty"`
	// Response is set, instead of ID, for a stored response. Served then names its server, instead
	// of At.
	Response request.ResponseID `json:"r,omitzero"`
	Served   string             `json:"s,omitempty"`
	Client   uint64             `json:"l,omitempty"`
	// Age is the time since the session's last request, in milliseconds.
	Age int64 `json:"t,omitempty"`
}

// Peers are the pickers of other processes for the same gateways.
type Peers interface {
	// Alive reports whether the picker with this Owner exists. If it has ended, the picker that
	// receives its access log entries counts its requests.
	Alive(owner string) bool
	// Order returns the number of other pickers, and whether this picker is the first by their
	// common order.
	Order() (others int, first bool)
	// Settle returns once the other pickers count this process's requests in flight, or ctx ends.
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
	// Lagging means that this process may lack recent objects, so that a denial may be wrong.
	Lagging() bool
}

// Learner delivers a remote picker's endpoints to Envoy.
type Learner interface {
	// Learn returns nil once every Envoy that may ask has the addresses.
	Learn(ctx context.Context, pool objectid.Target, addrs []netip.AddrPort) error
	// Isolated means that this process configures no Envoy: another picker must handle the request.
	Isolated() bool
}

// Body is how much of request bodies a pool needs.
type Body string

// If a gateway sends its body mode, as Envoy does, Body does not change that mode.
const (
	// BodyNone picks when the headers arrive.
	BodyNone Body = ""
	// BodyBuffered picks after the body was read.
	BodyBuffered Body = "Buffered"
	// BodyPrompts reads the bodies of known APIs only.
	BodyPrompts Body = "Prompts"
)

// DefaultBodyLimit is the largest body that a pick waits for, in bytes.
const DefaultBodyLimit = 32 << 20

// DefaultUserMessages is the number of user messages in a chat completion's key.
const DefaultUserMessages = 2

// Pool is the picker's configuration of an InferencePool, or of an exporting cluster of an import.
// It is immutable.
type Pool struct {
	// ID is sent by gateways as text in x-penstock-pool.
	ID objectid.Target
	// Default makes this the pool of gateways that send no pool. Of several pools with Default, the
	// first by name counts.
	Default bool
	// Strategy is one of schedule.Names; "" means "load".
	Strategy string
	// Shadow is a strategy that evaluates picks without effect on them; "" means none.
	Shadow string
	// Plugins is the profile of the strategy "plugins". If Plugins is nil, the pool keeps its last
	// valid strategy, or uses "load" if it has none.
	Plugins *endpointpicker.Profile
	Full    schedule.Full
	// Scorers are the processes for Plugins.External, in the same order.
	Scorers   []Scorer
	Processor *Processor
	// Criticality "" means Standard.
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
	// Spills means that requests spill when the pool is full. While a request's route lacks spill
	// targets, full endpoints stay eligible.
	Spills bool
	// Spill lists the spill targets that Envoys have. Picks use no other targets.
	Spill []string
	// Fallbacks is the number of additional endpoints in a pick, 0 to 8, for Envoy's retries.
	Fallbacks int
	// NoHeadersLimit makes streams wait for their server's headers without a limit.
	NoHeadersLimit bool
	Endpoints      []endpoint.Spec
	// Gone means that no route leads to the pool any more.
	Gone bool
	// Servers are the known model servers of a pool with a Relay, at most MaxServers. They are
	// queried for models and health.
	Servers []Server
	// Clusters are the clusters of an import, or nil. If they are set, the fields about model
	// servers have no effect.
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
	// Further are hops to the import's spill targets, which follow the clusters in every pick.
	Further []string
	// Margin is the cost by which another cluster must be cheaper.
	Margin time.Duration
	// Latency compares the clusters by response times instead of load.
	Latency bool
	// Blind makes picks ignore prompts, even if bodies are read.
	Blind bool
	// Sessions sends a session's requests to one cluster, as long as this cluster accepts requests.
	Sessions bool
}

// Cluster is an exporting cluster of an import.
type Cluster struct {
	Name    string
	Hop     string // as in Envoy: "envoy://hops/NAME"
	Local   bool   // this cluster
	Servers int    // number that the cluster declares; 0 if unknown
	NoGRPC  bool   // the cluster accepts no gRPC requests
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
	Topic      string // prefix of the topics to read
	Render     time.Duration
}

// FlowControl configures which requests wait while a pool is saturated.
type FlowControl struct {
	flow.Limits
	flow.Saturation
}

// Scorer locates an external scorer in another process.
type Scorer struct {
	Addresses []dial.Address // the first that answers is used
	TLS       dial.TLS       // for addresses that are not Cleartext
}

// Relay is the external picker that chooses for a pool: a remote picker if the pods are unknown
// here, or a local picker that receives no bodies from gateways.
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
