package model

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// Fallback selects where Envoy sends a pool's request if the picker chose no usable endpoint.
type Fallback string

const (
	PlainLB       Fallback = ""            // no picker: least request among all endpoints
	FallbackPods  Fallback = "role: pod"   // fail open: least request among the pool's pods
	FallbackSpill Fallback = "role: spill" // fail open: least request among hops to spill targets
	FallbackAgain Fallback = "again"       // a hop to the pool itself, for another pick (Pool.PicksAgain)
	FallbackNone  Fallback = "none"        // fail close: 503
	// FallbackHops is for a cluster of hops: the first leads to the pool's own picker, the others
	// to the spill targets. After 429 or 503, Envoy tries the next hop. Pools with h2c pods need
	// this, and pools with an external picker, because Envoy cannot ignore an immediate response in
	// FULL_DUPLEX_STREAMED.
	FallbackHops Fallback = "hops"
	// FallbackMembers is for a cluster of hops to the exporting clusters of an import. If an
	// exporting cluster marks its answer as "declined", Envoy tries another one, and at last a
	// spill target.
	FallbackMembers Fallback = "members"
)

// Protocol is the protocol of a cluster's endpoints.
type Protocol string

const (
	HTTP1 Protocol = "http"
	H2C   Protocol = "h2c" // HTTP/2 over cleartext, with prior knowledge
	TCP   Protocol = "tcp"
	UDP   Protocol = "udp"
	GRPC  Protocol = "grpc" // HTTP/2 with keepalive and raised limits
)

// Cluster is an Envoy cluster. Its endpoints come by EDS under the same name.
type Cluster struct {
	Name     ClusterID
	Protocol Protocol
	TLS      *UpstreamTLS // nil for cleartext
	// Cleartext is set if some endpoints have no TLS, although TLS is set (Endpoint.Cleartext).
	Cleartext bool
	Fallback  Fallback
	Names     *PickerNames // nil means the names of the endpoint picker protocol
	// Hops is set if some endpoints are hops. Hops have no TLS, and HTTP/1.1 trailers must pass to
	// them (grpc-status).
	Hops bool
	// HealthService is the gRPC service that Envoy's active health check names; "" means no health
	// check. Without ServesHealth, any answer below 500 from an external picker counts as healthy.
	HealthService string
	ServesHealth  bool
	// Own is set for Penstock's own picker. Then Envoy detects an unresponsive replica early enough
	// to ask another one.
	Own bool
	// Peer is set if the endpoints are listeners for this cluster set at another cluster's
	// gateways.
	Peer bool
	// Ejects makes Envoy eject an unreachable endpoint for a while.
	Ejects bool
	// Key is the SDS name of the bearer token that Envoy adds to each request; "" for none.
	Key string
	// Credential is the key that the pool's own servers require; nil for none. If it is set, the
	// cluster has no hops to other pools.
	Credential *Credential
	Owners     []report.Ref
}

// Credential is a key that model servers require.
type Credential struct {
	Secret string // SDS name
	Header string // in lower case
	// Missing is set if the key does not exist. Then no request may reach the servers.
	Missing bool
}

// UpstreamTLS configures TLS to endpoints.
type UpstreamTLS struct {
	Insecure bool // for external pickers with self-signed certificates
	SNI      string
	AutoSNI  bool   // the SNI is the request's host name
	Trust    string // SDS name of the CAs; "" for the system's CAs
	// A server's certificate must have one of these DNS names or URIs.
	SANs, URIs []string
	// Certificate is the SDS name of the Gateway's client certificate; "" for none.
	Certificate string
}

// Assignment holds the endpoints of one cluster.
type Assignment struct {
	Cluster   ClusterID
	Endpoints []Endpoint // sorted addresses, then hops in the user's order
	Owners    []report.Ref
	// Outside holds the store keys of EndpointSlices with disallowed addresses.
	Outside []string
}

// DropAddress is the endpoint of unusable backends in a cluster for UDP: Envoy's sockets cannot
// connect to a broadcast address, so Envoy drops their share of the datagrams.
var DropAddress = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 9)

// Endpoint is the address of a pod, server or gateway, or a hop: an internal listener of the same
// Envoy, where the picker of another pool is asked.
type Endpoint struct {
	Address netip.AddrPort // invalid for a hop and for Socket
	// Socket is the path of a Unix socket, in place of Address; "" for none.
	Socket string
	// Cleartext marks an address without TLS in a cluster with TLS.
	Cleartext bool
	Hop       HopID // zero for an address
	Later     bool  // Envoy uses the hop only if a picker selects it, never as the default
	// Priority is the Envoy priority of a hop with FallbackHops or FallbackMembers. The numbers are
	// contiguous from 0.
	Priority  uint32
	Weight    uint32 // 0 means 1
	Unhealthy bool   // Envoy must not use the address
}

// Pool is the result of translating an InferencePool, or one exporting cluster of an import in
// EndpointMode.
type Pool struct {
	Name     objectid.Target
	Ref      report.Ref
	Cluster  ClusterID // includes hops to spill targets, if the pool spills
	Last     ClusterID // for requests through a hop: has no hops to spill targets
	Ports    []uint16
	Protocol Protocol
	FailOpen bool
	Selector map[string]string // nil for an import
	Picker   PickerCall        // how Envoy calls the picker for a client's request
	External bool              // the picker is not Penstock's
	Spill    []Spill
	// SpillImports lists all imports that the policy names as spill targets, because their host
	// names must be resolved.
	SpillImports []string
	Settings     PickerSettings
	Credential   *Credential      // for the pool's own servers; nil for none
	Relay        *Relay           // set if Penstock's picker asks a remote picker; nil otherwise
	Remote       []netip.AddrPort // declared endpoints of an import
	Owners       []report.Ref     // the pool and its policy
	// Resolved is the condition ResolvedRefs. If it is False, the pool has no picker.
	Resolved report.Condition
	Findings []report.Finding
}

// ViaHops reports whether the pool spills through a cluster of hops (FallbackHops), because its own
// pods and the hops cannot share a cluster. Each pool's picker then receives the client's original
// request, and only the pool's own servers receive its credential.
func (p *Pool) ViaHops() bool {
	return len(p.Spill) > 0 && (p.External || p.Relay != nil || p.Protocol != HTTP1 || p.Settings.ChangesBodies() ||
		p.Credential != nil)
}

// ChangesBodies reports whether picks change request bodies. Before a request spills to another
// pool, these changes must be undone.
func (s *PickerSettings) ChangesBodies() bool {
	return s.RewritesModels || s.Processor != nil || s.Plugins != nil && s.Plugins.Dynamo != nil
}

// PicksAgain reports whether a request gets another pick, through a hop to the pool itself, if its
// first pick was lost. Envoy does not retry a call to a picker that died after a partial answer. A
// pool with a credential has no such hop, because its picker would receive the credential.
func (p *Pool) PicksAgain() bool {
	return p.Credential == nil && (!p.FailOpen || p.Relay != nil) && !p.External && len(p.Spill) == 0 &&
		p.Picker.Body == BodyBuffered
}

// OwnHop returns the hop to the pool itself or, for the subset of a PoolPolicy, to the subset.
func (p *Pool) OwnHop() HopID {
	hop := HopTo(p.Ref.Kind, p.Ref.Namespace, p.Ref.Name)
	hop.Member = cmp.Or(p.Name.Member, p.Cluster.Member)
	return hop
}

// ExternalPicker is an external picker that this process calls itself.
type ExternalPicker struct {
	Cluster   ClusterID // PickerCluster or ImportPickerCluster
	Addresses []RemoteAddress
	TLS       UpstreamTLS // for addresses without Cleartext
	// CA holds the certificates of TLS.Trust, in PEM.
	CA []byte
	// Chain and Key are a client certificate and its key, in PEM. They belong to the first Gateway
	// that has a certificate and whose routes lead to the picker.
	Chain, Key []byte
	// Relayed is set if Envoys do not call this picker, but Penstock's picker does.
	Relayed bool
	// Health and Metrics are ports at each of the Addresses; zero if unknown.
	Health  PickerPort
	Metrics PickerPort
	// Pool is the pool's name in the exporting cluster; "" means the import's name.
	Pool string
	// Field is the picker's JSON path in the import: "status.clusters[0].endpointPicker".
	Field string
}

// PickerPort is the port for health checks or for metrics of an exporting cluster's picker. The
// zero value means none.
type PickerPort struct {
	Port uint16
	// TLS is nil for cleartext; then no credential is sent.
	TLS *UpstreamTLS
	// CA holds the certificates of TLS.Trust, in PEM.
	CA []byte
	// Authorization is the value of the header with the credential. Only a picker whose certificate
	// was verified gets it.
	Authorization string
	// Chain and Key are the client certificate, in PEM.
	Chain, Key []byte
}

// RemoteAddress is an address of a picker or a gateway.
type RemoteAddress struct {
	Addr      netip.AddrPort
	Cleartext bool
}

// Import is the result of translating an InferencePoolImport.
type Import struct {
	Ref     report.Ref
	Members []ImportMember // sorted by name
	// Cluster is the target of routes if several Members take requests. It is zero if one member
	// takes all of them; routes then lead to this member.
	Cluster ClusterID
	Order   HopOrder // order in which Envoy tries the hops of Cluster
	// Ordered means that all requests go to the first member, in order, that takes requests. A
	// member that failed recently comes last for a while (store.Failback).
	Ordered bool
	// Choice makes Penstock's picker choose a member for each request. If it is nil, weights and
	// priorities choose.
	Choice       *Choice
	RetryOn      RetryOn // for requests to Cluster
	Spill        []Spill // targets for requests that all members have declined
	SpillImports []string
	Findings     []report.Finding
	// Exposed lists how requests reach the servers of other clusters.
	Exposed  []Exposure
	Accepted report.Condition
	Ready    report.Condition
	// Credentials is set if health checks or metrics of some picker need a Secret.
	Credentials bool
}

// Exposure describes how requests reach some servers of an exporting cluster.
type Exposure struct {
	Cluster ClusterID
	Who     string // the servers, in a message's words: "its picker"
	Field   string // JSON path in the import
	// Cleartext means that some servers are reached without TLS, and TLS that some are reached with
	// TLS. Policy means that a BackendTLSPolicy is in force.
	Cleartext, TLS, Policy bool
	// Member is set if a member of the cluster set exports the pool. Then the member's controller
	// wrote the import's field Field, not a user of this cluster.
	Member bool
}

// Choice configures how Penstock's picker chooses among an import's exporting clusters.
type Choice struct {
	Picker PickerCall // how Envoy calls the picker for a client's request
	Margin time.Duration
	// Latency means a choice by response times, not by load.
	Latency bool
	// Blind is set if the choice does not use prompts, although the picker may receive bodies for
	// PickerCall.ResponseIDs.
	Blind bool
	// Sessions means that a session's requests go to the cluster of its first request. SessionTTL
	// and SessionCookie are as in PickerSettings.
	Sessions      bool
	SessionTTL    int32
	SessionCookie string
}

// ImportMember is an exporting cluster of an import.
type ImportMember struct {
	Name         string
	Region, Zone string
	Cluster      ClusterID
	Share        uint32
	// Priority of the member's hop in Import.Cluster; 0 is first.
	Priority uint32
	Pool     *Pool           // in EndpointMode
	Parents  []RemoteAddress // in ParentMode
	// Peer is the authority of requests to the member's peer listeners; "" if Parents are other
	// gateways.
	Peer string
	// Hostname is the Host header for gateways without peer listeners; "" keeps the client's.
	Hostname string
	// Protocol is the protocol of the gateways at Parents. Behind peer listeners, it is the model
	// servers' protocol.
	Protocol Protocol
	// MaxGateways limits, in ParentMode, how many gateways a request may have passed before.
	MaxGateways uint32
	Local       bool   // the member is this cluster's InferencePool with the import's name
	Problem     string // why the member cannot be used; "" if it can
	// Reason is NotAllowed, NotSupported or "". With "", Problem may end when a host name resolves.
	Reason string
	// NotReady is the reason of the member's condition Ready=False, or "". If it is set, Share is
	// 0.
	NotReady string
}

// Takes reports whether the member can get requests.
func (m *ImportMember) Takes() bool { return m.Problem == "" && m.Share > 0 }

// Hop returns the hop to one member of the import.
func (i *Import) Hop(m *ImportMember) HopID {
	return HopID{Import: true, Namespace: i.Ref.Namespace, Name: i.Ref.Name, Member: m.Name}
}

// Spill is another pool or import, for requests that a pool cannot take.
type Spill struct {
	Hop      HopID
	Target   string // store.TargetKey of the pool or import
	Owner    report.Ref
	Backends []WeightedBackend
	// Behind lists the hops to the exporting clusters, if the target is an import with several of
	// them.
	Behind []Spill
}

// Ends returns the backends of Behind or, without Behind, of s.
func (s *Spill) Ends() []WeightedBackend {
	if len(s.Behind) == 0 {
		return s.Backends
	}
	var out []WeightedBackend
	for i := range s.Behind {
		out = append(out, s.Behind[i].Backends...)
	}
	return out
}

// Relay configures calls from Penstock's picker to the picker of an exporting cluster, whose pods
// are unknown here.
type Relay struct {
	Pickers []RemoteAddress
	// Within restricts the addresses that the remote picker may return: each list must have a range
	// that contains the address. Without lists, every address that the operator allows may be
	// returned, except loopback.
	Within [][]netip.Prefix
	Import string // "namespace/name"
	Member string // the exporting cluster
	Field  string // JSON path in the import: "status.clusters[0]"
}

// PickerSettings is a pool's PoolPolicy, with defaults applied.
type PickerSettings struct {
	Strategy          string
	Shadow            string                  // strategy that is evaluated without effect; "" for none
	Plugins           *endpointpicker.Profile // nil if the configuration is invalid
	Criticality       string
	ShedAfter         time.Duration // 0: off
	FlowControl       FlowControl
	VirtualNodes      int32 // of strategy chwbl, like the next two fields; 0: picker.Pool's default
	LoadFactorPercent int32
	UserMessages      int32
	SessionTTL        int32 // of strategy session, in seconds; 0: picker.Pool's default
	SessionCookie     string
	Prefix            bool // the strategy reads prompts
	EveryBody         bool
	// ReadsModels is set if InferenceModels or InferenceModelRewrites apply. Then bodies are read
	// for the model's name.
	ReadsModels        bool
	RewritesModels     bool  // some InferenceModels or InferenceModelRewrites replace the model
	TrustHeaders       bool  // clients may set the priority by a header
	FullQueue          int32 // 0: never full
	FullKVCachePercent int32 // 0: never full
	FullInFlight       int32 // 0: never full
	Fallbacks          int32
	NoHeadersTimeout   bool   // streams wait for response headers without limit
	Engine             string // "": vLLM
	MetricsPath        string
	UnverifiedTLS      bool   // metrics are read over TLS without verification, if no BackendTLSPolicy applies
	MetricsPort        int32  // 0: the engine's default, or else the server's port
	MaxMetricsPage     int32  // in bytes; 0: endpoint.Metrics' default
	LoadStatPort       int32  // 0: loads are not published
	QueueName          string // Prometheus series; "" for the engine's default, like the next two
	RunningName        string
	KVCacheName        string
	TokenUsage         bool // Envoy reads the token usage in responses
	ResponseAffinity   bool // requests that name a stored response go to the server that stores it
	KVEvents           KVEvents
	Processor          *Processor // nil: none
}

// Processor is an HTTP service that prepares a pool's requests. It is a Service or a Host.
type Processor struct {
	Service string // name in the pool's namespace; "" with a Host
	Host    string
	TLS     bool   // for a Host
	Path    string // for a Host
	Port    int32
	Timeout time.Duration
	Headers []string
	Route   bool // the processor may choose endpoints
}

// FlowControl configures a queue of requests for times when the pool is saturated. The zero value
// means no queue. A zero field means the default of picker/flow.
type FlowControl struct {
	On        bool
	Deadlines bool // the request with the earliest deadline goes first
	Requests  int32
	Bytes     int64
	TTL       time.Duration
	EmptyTTL  time.Duration // instead of TTL, while the pool has no endpoint
	Queue     float64       // number of waiting requests that saturates a server
	KVCache   float64       // use of the KV cache that saturates a server, 0 to 1
	InFlight  int64         // number of requests in flight that saturates a server; 0: unlimited
	TTLs      []BandTTL     // limits for single priorities
}

// BandTTL limits how long requests of a priority wait. With Negative it applies to all priorities
// below 0 without an entry of their own, and Priority has no meaning.
type BandTTL struct {
	Priority int32
	Negative bool
	TTL      time.Duration
}

// KVEvents configures how model servers publish KV events. The zero value is off.
type KVEvents struct {
	Dial       bool  // the picker connects to the servers
	Listen     bool  // the servers connect to the picker
	Port       int32 // of the servers, with Dial
	ReplayPort int32 // 0: none
	Topic      string
	Render     time.Duration // timeout for fetching a prompt's tokens; 0: tokens are not fetched
}

// Hop is a virtual host of the internal listener HopListener. A request that spills to another pool
// passes it, so that this pool's own picker is asked.
type Hop struct {
	Name     HopID
	Backends []WeightedBackend
	// NoGRPC is set if the backends speak HTTP/1.1. Then gRPC requests go to another hop.
	NoGRPC bool
	Behind []Spill
	Owners []report.Ref
}

// Member is a model server of a pool.
type Member struct {
	Address  netip.AddrPort
	Pod      string // or the ModelServers object
	Labels   map[string]string
	Draining bool // not an endpoint for Envoy while other servers of the pool do not drain
}

// Secret is an SDS secret: a certificate with its key, trusted CAs, trust domains, or a token.
type Secret struct {
	Name    string // SDS name
	Chain   []byte // PEM
	Key     []byte // PEM
	CA      []byte // PEM
	Token   []byte
	Domains []TrustDomain
	// Owners are the objects whose status reports a NACK.
	Owners []report.Ref
}
