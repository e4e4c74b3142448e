package model

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// Fallback selects what happens to a pool's request without a usable pick.
type Fallback string

const (
	PlainLB       Fallback = ""            // no picker: least request among all endpoints
	FallbackPods  Fallback = "role: pod"   // fail open: least request among the pool's pods
	FallbackSpill Fallback = "role: spill" // fail open: least request among the spill endpoints
	FallbackAgain Fallback = "again"       // Pool.PicksAgain: the hop to the pool itself
	FallbackNone  Fallback = "none"        // fail close: 503
	// FallbackHops is for a cluster of hops only: the pool's own hop, then its spill targets. An
	// answer of 429 or 503 moves the request to the next hop. FallbackHops serves pools with h2c
	// pods, and pools with an external picker: Envoy cannot ignore an immediate response in
	// FULL_DUPLEX_STREAMED.
	FallbackHops Fallback = "hops"
	// FallbackMembers is for a cluster of hops to the exporting clusters of an import. A member
	// marks its answer to a request that it declines. Envoy then tries another member, and at last
	// a spill target.
	FallbackMembers Fallback = "members"
)

// Protocol is the protocol of a cluster's endpoints.
type Protocol string

const (
	HTTP1 Protocol = "http"
	H2C   Protocol = "h2c"  // with prior knowledge
	TCP   Protocol = "tcp"  // opaque bytes
	UDP   Protocol = "udp"  // opaque datagrams
	GRPC  Protocol = "grpc" // with keepalive and raised limits
)

// Cluster is an Envoy cluster. Its endpoints come by EDS under the same name.
type Cluster struct {
	Name     ClusterID
	Protocol Protocol
	TLS      *UpstreamTLS // nil for cleartext
	// Cleartext is set if some endpoints have no TLS (Endpoint.Cleartext).
	Cleartext bool
	Fallback  Fallback
	Names     *PickerNames // nil for the endpoint picker protocol
	// Hops is set if some endpoints are hops: HTTP/1.1 trailers must pass (grpc-status), and hops
	// have no TLS.
	Hops bool
	// HealthService is the gRPC service of active health checks, or "". An external picker without
	// ServesHealth is healthy if it answers at all.
	HealthService string
	ServesHealth  bool
	// Own is set for Penstock's own picker: Envoy detects a silent replica early enough to ask
	// another replica.
	Own bool
	// Peer is set for peer listeners of a member's gateways.
	Peer bool
	// Ejects makes Envoy eject an unreachable endpoint for a while.
	Ejects bool
	// Key is the SDS name of a bearer token for each request.
	Key string
	// Credential is the key for a pool's own servers; nil for none. With a key, all endpoints are
	// the pool's own servers.
	Credential *Credential
	Owners     []report.Ref
}

// Credential is a key that model servers require.
type Credential struct {
	Secret string // SDS name
	Header string // in lower case
	// Missing is set if there is no key: then no request may reach the servers.
	Missing bool
}

// UpstreamTLS configures TLS to endpoints.
type UpstreamTLS struct {
	Insecure bool // for external pickers with self-signed certificates
	SNI      string
	AutoSNI  bool   // the SNI is the request's host name
	Trust    string // SDS name of the CAs; "" for the system's CAs
	// A server's certificate must have one of these names.
	SANs, URIs []string
	// Certificate is the SDS name of the Gateway's client certificate; "" for none.
	Certificate string
}

// Assignment holds the endpoints of one cluster.
type Assignment struct {
	Cluster   ClusterID
	Endpoints []Endpoint // addresses sorted, then hops in the user's order
	Owners    []report.Ref
	// Outside holds the store keys of EndpointSlices with disallowed addresses.
	Outside []string
}

// DropAddress stands for unusable backends in a cluster of datagrams. Envoy's sockets cannot
// connect to a broadcast address.
var DropAddress = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 9)

// Endpoint is a pod, a server, a gateway, or a hop to another pool.
type Endpoint struct {
	Address netip.AddrPort // invalid for a hop and for Socket
	// Socket is the path of a Unix socket, in place of Address; "" for none.
	Socket string
	// Cleartext marks an address without TLS in a cluster with TLS.
	Cleartext bool
	Hop       HopID // zero for an address
	Later     bool  // only a picker selects the hop
	// Priority orders hops with FallbackHops or FallbackMembers. Numbers are contiguous from 0.
	Priority uint32
	Weight   uint32 // 0 means 1
	// Unhealthy marks an address that Envoy must not use.
	Unhealthy bool
}

// Pool holds the decisions about an InferencePool, or about an exporting cluster of an import in
// EndpointMode.
type Pool struct {
	Name     objectid.Target
	Ref      report.Ref
	Cluster  ClusterID // the cluster with spill endpoints, if the pool spills
	Last     ClusterID // the cluster for a hop to this pool, without spill endpoints
	Ports    []uint16
	Protocol Protocol
	FailOpen bool
	Selector map[string]string // nil for an import
	Picker   PickerCall        // the call on an edge
	External bool              // the picker is not ours
	Spill    []Spill           // targets in order of preference
	// SpillImports lists all imports that the policy names, because their host names must be
	// resolved.
	SpillImports []string
	Settings     PickerSettings
	Credential   *Credential      // for the pool's own servers; nil for none
	Relay        *Relay           // set if our picker asks a remote picker
	Remote       []netip.AddrPort // an import's declared endpoints
	Owners       []report.Ref     // the pool, its policy
	// If Resolved is False, the pool has no picker.
	Resolved report.Condition
	Findings []report.Finding
}

// ViaHops reports whether the pool spills but cannot share a cluster with hops (FallbackHops). Each
// pool's picker then receives the client's original request, and the pool's credential is sent to
// its own servers alone.
func (p *Pool) ViaHops() bool {
	return len(p.Spill) > 0 && (p.External || p.Relay != nil || p.Protocol != HTTP1 || p.Settings.ChangesBodies() ||
		p.Credential != nil)
}

// ChangesBodies reports whether picks change request bodies. A spill must undo these changes.
func (s *PickerSettings) ChangesBodies() bool {
	return s.RewritesModels || s.Processor != nil || s.Plugins != nil && s.Plugins.Dynamo != nil
}

// PicksAgain reports whether a request whose pick was lost gets another pick, behind a hop to the
// pool itself: Envoy does not retry a call that a killed picker has partly answered. A pool with a
// credential has no such hop, because the picker behind it would receive the credential.
func (p *Pool) PicksAgain() bool {
	return p.Credential == nil && (!p.FailOpen || p.Relay != nil) && !p.External && len(p.Spill) == 0 &&
		p.Picker.Body == BodyBuffered
}

// OwnHop returns the hop to the pool itself, or to its subset.
func (p *Pool) OwnHop() HopID {
	hop := HopTo(p.Ref.Kind, p.Ref.Namespace, p.Ref.Name)
	hop.Member = cmp.Or(p.Name.Member, p.Cluster.Member)
	return hop
}

// ExternalPicker describes an external picker that this process calls itself.
type ExternalPicker struct {
	Cluster   ClusterID // PickerCluster or ImportPickerCluster
	Addresses []RemoteAddress
	TLS       UpstreamTLS // for addresses without Cleartext
	// CA is the bundle of TLS.Trust, in PEM.
	CA []byte
	// Chain and Key are a client certificate in PEM. It is from the first Gateway that has a
	// certificate, and whose routes lead to the picker.
	Chain, Key []byte
	// Relayed is set if only our picker calls this picker.
	Relayed bool
	// Health and Metrics are ports on each address; zero if unknown.
	Health  PickerPort
	Metrics PickerPort
	// Pool is the pool's name in the exporting cluster; "" for the import's name.
	Pool string
	// Field is the picker's place in the import: "status.clusters[0].endpointPicker".
	Field string
}

// PickerPort is a port of an exporting cluster's picker other than the port for picks. The zero
// value means none.
type PickerPort struct {
	Port uint16
	// Without TLS, no credential is sent.
	TLS *UpstreamTLS
	// CA is the bundle of TLS.Trust, in PEM.
	CA []byte
	// Authorization is the header with the credential. Only a verified picker gets it.
	Authorization string
	// Chain and Key are the client certificate, in PEM.
	Chain, Key []byte
}

// RemoteAddress is an address of a picker or a gateway.
type RemoteAddress struct {
	Addr      netip.AddrPort
	Cleartext bool
}

// Import holds the decisions about an InferencePoolImport.
type Import struct {
	Ref     report.Ref
	Members []ImportMember // sorted by name
	// Cluster is the target of routes if several Members take requests. If it is zero, routes lead
	// to the only member.
	Cluster ClusterID
	Order   HopOrder // order of Cluster's hops
	// Ordered means that all requests go to one member: the first in order that takes requests. A
	// member that failed recently comes last for a while (store.Failback).
	Ordered bool
	// Choice makes our picker choose a hop for each request. If it is nil, weights and priorities
	// choose.
	Choice       *Choice
	RetryOn      RetryOn // for requests to Cluster
	Spill        []Spill // targets for requests to Cluster that all members have declined
	SpillImports []string
	Findings     []report.Finding
	// Exposed lists how requests reach other clusters' servers.
	Exposed  []Exposure
	Accepted report.Condition
	Ready    report.Condition
	// Credentials is set if the ports of some picker need a Secret.
	Credentials bool
}

// Exposure describes how requests reach some servers of an exporting cluster.
type Exposure struct {
	Cluster ClusterID
	Who     string // the servers in words, such as "its picker"
	Field   string // place in the import
	// Cleartext reports whether some servers are reached without TLS, and TLS whether some are
	// reached with TLS. Policy reports whether a BackendTLSPolicy is in force.
	Cleartext, TLS, Policy bool
	// Member is set if a member of the cluster set exports the pool. Then no user of this cluster
	// writes Field.
	Member bool
}

// Choice configures how our picker chooses among an import's exporting clusters.
type Choice struct {
	Picker PickerCall // the call on an edge
	Margin time.Duration
	// Latency chooses by response times, not by load.
	Latency bool
	// Blind is set if the choice ignores prompts, even if bodies are read for
	// PickerCall.ResponseIDs.
	Blind bool
	// Sessions sends a session's requests to the cluster of its first request. The next two fields
	// are as in PickerSettings.
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
	// Priority of its hop; 0 is first.
	Priority uint32
	Pool     *Pool           // in EndpointMode
	Parents  []RemoteAddress // in ParentMode
	// Peer is the authority at peer listeners, or "" for other gateways.
	Peer string
	// Hostname is the Host header for other gateways; "" for the client's.
	Hostname string
	// Protocol is the protocol of gateways at Parents or, behind peer listeners, of the model
	// servers.
	Protocol Protocol
	// MaxGateways limits, in ParentMode, how many gateways a request may have passed through.
	MaxGateways uint32
	Local       bool   // this cluster: the InferencePool of the import's name
	Problem     string // why the member cannot be used
	// Reason is NotAllowed, NotSupported or "". With "" the Problem may end when a host name
	// resolves.
	Reason string
	// NotReady is the reason of the member's condition Ready=False: Share is then 0.
	NotReady string
}

// Takes reports whether the member takes requests.
func (m *ImportMember) Takes() bool { return m.Problem == "" && m.Share > 0 }

// Hop returns the hop in front of a member.
func (i *Import) Hop(m *ImportMember) HopID {
	return HopID{Import: true, Namespace: i.Ref.Namespace, Name: i.Ref.Name, Member: m.Name}
}

// Spill is a target for requests that a pool cannot take.
type Spill struct {
	Hop      HopID
	Target   string // store.TargetKey of the target
	Owner    report.Ref
	Backends []WeightedBackend
	// Behind lists the hops of an import with several exporting clusters.
	Behind []Spill
}

// Ends returns the backends behind the last hops.
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

// Relay configures calls from our picker to a remote picker whose pods are unknown here.
type Relay struct {
	Pickers []RemoteAddress
	// Within has lists of ranges that restrict the remote pods: a range of each list must contain a
	// pod's address. Without lists, any address that the operator allows may be a pod, except
	// loopback.
	Within [][]netip.Prefix
	Import string // "namespace/name"
	Member string // the exporting cluster
	Field  string // place in the import: "status.clusters[0]"
}

// PickerSettings is a pool's PoolPolicy, with defaults applied.
type PickerSettings struct {
	Strategy          string
	Shadow            string                  // evaluated without effect; "" for none
	Plugins           *endpointpicker.Profile // nil if the configuration is invalid
	Criticality       string
	ShedAfter         time.Duration // 0: off
	FlowControl       FlowControl
	VirtualNodes      int32 // of strategy chwbl, like the next two; 0: picker.Pool's default
	LoadFactorPercent int32
	UserMessages      int32
	SessionTTL        int32 // of strategy session, in seconds, like the next one; 0: picker.Pool's default
	SessionCookie     string
	Prefix            bool // the strategy reads prompts
	EveryBody         bool // every request's body is read
	// ReadsModels: InferenceModels or InferenceModelRewrites apply, so bodies are read for the
	// model.
	ReadsModels        bool
	RewritesModels     bool  // some of them replace the model
	TrustHeaders       bool  // clients' headers may set the priority
	FullQueue          int32 // 0: never full
	FullKVCachePercent int32 // 0: never full
	FullInFlight       int32 // 0: never full
	Fallbacks          int32
	NoHeadersTimeout   bool   // streams wait for headers without limit
	Engine             string // "": vLLM
	MetricsPath        string
	UnverifiedTLS      bool   // without a BackendTLSPolicy, metrics are read over unverified TLS
	MetricsPort        int32  // 0: the engine's default, or the server's port
	MaxMetricsPage     int32  // in bytes; 0: endpoint.Metrics' default
	LoadStatPort       int32  // 0: loads are not published
	QueueName          string // "" for the default series
	RunningName        string
	KVCacheName        string
	TokenUsage         bool // Envoy reads the usage of responses
	ResponseAffinity   bool // requests that reference a response go to the server that stores it
	KVEvents           KVEvents
	Processor          *Processor // nil: none
}

// Processor is a service that prepares a pool's requests: a Service or a Host.
type Processor struct {
	Service string // name of a Service in the pool's namespace
	Host    string // host name or IP address; "" with a Service
	TLS     bool   // TLS of a Host
	Path    string // path of a Host
	Port    int32
	Timeout time.Duration
	Headers []string
	Route   bool // the processor may choose endpoints
}

// FlowControl queues requests while the pool is saturated. The zero value is off. A zero field
// means the default of picker/flow.
type FlowControl struct {
	On        bool
	Deadlines bool // the earliest deadline goes first
	Requests  int32
	Bytes     int64
	TTL       time.Duration
	EmptyTTL  time.Duration // while the pool has no endpoint
	Queue     float64       // waiting requests that saturate a server
	KVCache   float64       // use of the KV cache, 0 to 1, that saturates a server
	InFlight  int64         // requests in flight that saturate a server; 0: unlimited
	TTLs      []BandTTL     // limits of single priorities
}

// BandTTL limits the wait of a priority's requests. With Negative it is for every priority below 0
// that has no entry, and Priority is not read.
type BandTTL struct {
	Priority int32
	Negative bool
	TTL      time.Duration
}

// KVEvents configures how model servers publish KV events. The zero value is off.
type KVEvents struct {
	Dial       bool  // servers listen
	Listen     bool  // servers dial
	Port       int32 // port of listening servers
	ReplayPort int32 // 0: none
	Topic      string
	Render     time.Duration // time to fetch the tokens of a prompt; 0: none are fetched
}

// Hop is a virtual host of HopListener: a spilled request reaches the next pool's own picker there.
type Hop struct {
	Name     HopID
	Backends []WeightedBackend
	// NoGRPC is set if the backends speak HTTP/1.1: another hop takes gRPC requests.
	NoGRPC bool
	Behind []Spill
	Owners []report.Ref
}

// Member is a model server of a pool.
type Member struct {
	Address  netip.AddrPort
	Pod      string // name of the pod or of the ModelServers object
	Labels   map[string]string
	Draining bool // in Envoy's assignment only while all members are
}

// Secret holds a certificate with its key, or trusted CAs, or trust domains, or a token.
type Secret struct {
	Name  string // result of SecretName
	Chain []byte // PEM
	Key   []byte // PEM
	CA    []byte // PEM
	Token []byte
	// Domains are SPIFFE trust domains.
	Domains []TrustDomain
	// Owners receive the report of a NACK.
	Owners []report.Ref
}
