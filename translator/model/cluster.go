package model

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// Fallback selects what a pool's cluster does with a request for which no usable endpoint was
// picked.
type Fallback string

// PlainLB is for clusters without a picker.
const (
	PlainLB       Fallback = ""            // least request among all endpoints; no override
	FallbackPods  Fallback = "role: pod"   // fail open: least request among the pool's own pods
	FallbackSpill Fallback = "role: spill" // fail open: least request among the spill endpoints
	FallbackAgain Fallback = "again"       // the hop to the pool itself (Pool.PicksAgain)
	FallbackNone  Fallback = "none"        // fail close: 503
	// FallbackHops is for a cluster of hops only, which an edge tries by Priority: the pool's own
	// hop first, then its spill targets. It serves pools that cannot share a cluster with hops:
	// with an external picker (Envoy cannot ignore an immediate response in FULL_DUPLEX_STREAMED),
	// or with h2c pods. The edge asks no picker (WeightedBackend.Hops); an answer of 429 or 503
	// from the first hop moves the request on.
	FallbackHops Fallback = "hops"
	// FallbackMembers is for a cluster of hops to the exporting clusters of an import, by weight. A
	// member that declines a request marks its answer; Envoy then tries another, and at last a
	// spill target of the import.
	FallbackMembers Fallback = "members"
)

// Protocol is the protocol of a cluster's endpoints.
type Protocol string

const (
	HTTP1 Protocol = "http"
	H2C   Protocol = "h2c"  // HTTP/2 with prior knowledge
	TCP   Protocol = "tcp"  // opaque bytes
	UDP   Protocol = "udp"  // opaque datagrams
	GRPC  Protocol = "grpc" // HTTP/2 for pickers and other control plane services: keepalive, raised limits
)

// Cluster is one Envoy cluster; its endpoints come by EDS under the same name.
type Cluster struct {
	Name     ClusterID
	Protocol Protocol
	TLS      *UpstreamTLS // nil for cleartext
	// Cleartext is set if some endpoints have no TLS although the cluster has it
	// (Endpoint.Cleartext).
	Cleartext bool
	Fallback  Fallback
	Names     *PickerNames // names of picks; nil for the defaults of the endpoint picker protocol
	// Hops is set if some endpoints are hops. HTTP/1.1 trailers must pass then (grpc-status), and
	// TLS is for the other endpoints.
	Hops bool
	// HealthService is the gRPC health service of a picker, for active health checks; "" for no
	// check. External pickers without ServesHealth are only checked for any answer (see envoy's
	// healthCheck).
	HealthService string
	ServesHealth  bool
	// Own is set for Penstock's own picker, which may have replicas: Envoy detects a silent replica
	// early enough to ask another one.
	Own bool
	// Peer is set if the endpoints are peer listeners of a member's gateways.
	Peer bool
	// Ejects makes Envoy eject an unreachable endpoint for a while, because another cluster serves
	// meanwhile.
	Ejects bool
	// Key is the SDS name of a secret that each request carries as a bearer token; "" for none.
	Key    string
	Owners []report.Ref
}

// UpstreamTLS configures TLS to endpoints.
type UpstreamTLS struct {
	Insecure bool // no verification: external pickers with self-signed certificates
	SNI      string
	AutoSNI  bool   // the SNI is the request's host name; SNI is empty
	Trust    string // SDS name of the trusted CAs; "" with Insecure or for the system's CAs
	// SANs (DNS names, wildcards allowed in the first label) and URIs: a certificate must have one
	// of them.
	SANs, URIs []string
	// Certificate is the SDS name of the Gateway's client certificate (spec.tls.backend); "" for
	// none.
	Certificate string
}

// Assignment holds the endpoints of one cluster.
type Assignment struct {
	Cluster   ClusterID
	Endpoints []Endpoint // addresses sorted, then hops in the user's order
	Owners    []report.Ref
	// Outside holds the store keys of EndpointSlices with addresses outside the allowed ranges.
	Outside []string
}

// DropAddress is the endpoint that stands for unusable backends in a cluster of datagrams. Envoy's
// sockets cannot connect to a broadcast address, so it drops each datagram.
var DropAddress = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 9)

// Endpoint is a pod, a server, a gateway, or a hop to another pool.
type Endpoint struct {
	Address netip.AddrPort // invalid for a hop and for Socket
	// Socket is the path of a Unix socket on this machine, in place of Address; "" for none.
	Socket string
	// Cleartext marks an address without TLS in a cluster that has TLS for others.
	Cleartext bool
	Hop       HopID // a hop; zero otherwise
	Later     bool  // a hop after a pool's first: only a picker selects it, a fallback does not
	// Priority orders the hops of a cluster with FallbackHops or FallbackMembers; 0 is tried first,
	// and numbers are contiguous.
	Priority uint32
	Weight   uint32 // 0 means 1
	// Unhealthy marks an address that Envoy must not use, whatever its own health check finds.
	Unhealthy bool
}

// Pool holds the decisions about an InferencePool, or about one exporting cluster of an import in
// EndpointMode.
type Pool struct {
	Name     objectid.Target
	Ref      report.Ref
	Cluster  ClusterID // its cluster, with spill endpoints if it spills
	Last     ClusterID // the cluster of a hop to this pool: the same without spill endpoints
	Ports    []uint16
	Protocol Protocol
	FailOpen bool
	Selector map[string]string // selects pods and ModelServers of the pool's namespace; nil for an import
	Picker   PickerCall        // as asked on an edge
	External bool              // the picker is not ours
	Spill    []Spill           // in order of preference
	// SpillImports lists the imports ("namespace/name") of its policy, including unusable ones: the
	// host names of a used pool's imports are resolved.
	SpillImports []string
	Settings     PickerSettings   // for our picker
	Relay        *Relay           // our picker asks a remote one
	Remote       []netip.AddrPort // an import's declared endpoints
	Owners       []report.Ref     // the pool, its policy
	// Resolved is the condition ResolvedRefs. If it is False, the pool has no picker.
	Resolved report.Condition
	Findings []report.Finding
}

// ViaHops reports whether the pool spills but cannot share a cluster with hops (see FallbackHops).
// An edge then has a cluster of hops, and the first hop leads to the pool itself. The hop limits
// the picker's changes to a request: the next pool's picker receives the client's original.
func (p *Pool) ViaHops() bool {
	return len(p.Spill) > 0 && (p.External || p.Relay != nil || p.Protocol != HTTP1 || p.Settings.ChangesBodies())
}

// ChangesBodies reports whether picks change request bodies, which a spill must undo.
func (s *PickerSettings) ChangesBodies() bool {
	return s.RewritesModels || s.Processor != nil || s.Plugins != nil && s.Plugins.Dynamo != nil
}

// PicksAgain reports whether a request whose pick was lost gets another pick, behind a hop to the
// pool itself. It is for pools that have no other fallback (no spill, and fail-close or relayed)
// and whose picker is ours and reads bodies. Envoy does not retry a call that the picker has partly
// answered, so a picker that is killed loses its picks.
func (p *Pool) PicksAgain() bool {
	return (!p.FailOpen || p.Relay != nil) && !p.External && len(p.Spill) == 0 && p.Picker.Body == BodyBuffered
}

// OwnHop returns the hop in front of the pool itself, or of the subset that Cluster has hops for.
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
	// CA is the bundle of TLS.Trust, in PEM; nil without one.
	CA []byte
	// Chain and Key are the client certificate (spec.tls.backend), in PEM, of the first Gateway
	// that has one and whose routes lead to the picker; nil without one.
	Chain, Key []byte
	// Relayed is set if our picker asks it for picks, and no Envoy does.
	Relayed bool
	// Health is the port of gRPC health on each address of an exporting cluster's picker; zero if
	// unknown.
	Health PickerPort
	// Metrics is the port of the metrics page on each address; zero if unknown.
	Metrics PickerPort
	// Pool is the pool's name in the exporting cluster; "" for the import's name.
	Pool string
	// Field is the picker's place in the import: "status.clusters[0].endpointPicker".
	Field string
}

// PickerPort is a port of an exporting cluster's picker other than the port for picks. The zero
// value means that there is no such port, or that it is not used.
type PickerPort struct {
	Port uint16
	// TLS verifies the picker; nil for cleartext, without a credential.
	TLS *UpstreamTLS
	// CA is the bundle of TLS.Trust, in PEM; nil without one.
	CA []byte
	// Authorization is the credential's header; "" for none. It is sent only to a verified picker.
	Authorization string
	// Chain and Key are the client certificate, in PEM; nil for none.
	Chain, Key []byte
}

// RemoteAddress is an address of a picker or a gateway, with the protocol of its own port.
type RemoteAddress struct {
	Addr      netip.AddrPort
	Cleartext bool
}

// Import holds the decisions about an InferencePoolImport.
type Import struct {
	Ref     report.Ref
	Members []ImportMember // sorted by name
	// Cluster is the target of routes if several of Members take requests. It has a hop to each of
	// them, and to each spill target. If zero, routes send to the one member.
	Cluster ClusterID
	Order   HopOrder // of Cluster
	// Ordered is set if only the first member that takes requests serves. A member that took none
	// recently comes last for a while (store.Failback).
	Ordered bool
	// Choice makes our picker choose a hop for each request; nil chooses by weights and priorities.
	Choice       *Choice
	RetryOn      RetryOn // of Cluster
	Spill        []Spill // of Cluster: targets of requests that all members have declined
	SpillImports []string
	Findings     []report.Finding
	// Exposed lists how requests reach other clusters' servers. Unsafe ones are reported once a
	// route sends requests there.
	Exposed  []Exposure
	Accepted report.Condition
	Ready    report.Condition
	// Credentials is set if the ports of some picker need a Secret.
	Credentials bool
}

// Exposure describes how requests reach some servers of an exporting cluster.
type Exposure struct {
	Cluster ClusterID // of these servers
	Who     string    // the servers, in words: "its picker"
	Field   string    // the servers' field in the import
	// Cleartext and TLS: some servers are reached that way. Policy: a BackendTLSPolicy is in force.
	Cleartext, TLS, Policy bool
	// Member is set if a member of the cluster set exports it: this cluster then has no object with
	// the fields of its entry.
	Member bool
}

// Choice configures how our picker chooses among the exporting clusters of an import.
type Choice struct {
	Picker PickerCall // as asked on an edge
	Margin time.Duration
	// Latency chooses by response times, not by load.
	Latency bool
	// Blind ignores prompts, even if bodies are read for PickerCall.ResponseIDs.
	Blind bool
	// Sessions sends the requests of a session to the cluster of its first one. SessionTTL and
	// SessionCookie have the same meaning as in PickerSettings.
	Sessions      bool
	SessionTTL    int32
	SessionCookie string
}

// ImportMember is one exporting cluster of an import.
type ImportMember struct {
	Name string
	// "" if unknown
	Region, Zone string
	Cluster      ClusterID // target of routes
	Share        uint32    // weight within the import
	// Priority of its hop in Import.Cluster; 0 is tried first.
	Priority uint32
	Pool     *Pool           // EndpointMode
	Parents  []RemoteAddress // ParentMode
	// Peer is the authority at peer listeners (PeerAuthority); "" if Parents are other gateways.
	Peer string
	// Hostname is the Host for Parents without Peer; "" for the client's.
	Hostname string
	// Protocol is the protocol of gateways at Parents. For peer listeners, which speak HTTP/2, it
	// is the protocol of the model servers behind them.
	Protocol Protocol
	// MaxGateways limits, in ParentMode, how many gateways a request may have passed through.
	MaxGateways uint32
	Local       bool   // this cluster: the InferencePool of the import's name
	Problem     string // why the member cannot be used; "" if it can
	// Reason is the reason of Problem in conditions: NotAllowed or NotSupported. It is "" if
	// resolving a host name may end Problem.
	Reason string
	// NotReady is the reason of the member's condition Ready if that is False: the member takes no
	// new requests, and its Share is 0.
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
	Target   string // store.TargetKey of the pool or import, for people
	Owner    report.Ref
	Backends []WeightedBackend // targets of the hop
	// Behind lists the hops of an import with several exporting clusters, to which Backends lead.
	Behind []Spill
}

// Ends returns the final backends of the hop's requests, behind all further hops.
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

// Relay configures calls from our picker to a remote one whose pods are unknown here.
type Relay struct {
	Pickers []RemoteAddress
	// Within restricts the remote pods: a range of each list must contain them, one list of the
	// importer's policy and one of the exporter. Empty: anywhere that the operator allows, except
	// loopback.
	Within [][]netip.Prefix
	Import string // "namespace/name"
	Member string // the exporting cluster
	Field  string // its field in the import: "status.clusters[0]"
}

// PickerSettings is a pool's PoolPolicy, with defaults applied.
type PickerSettings struct {
	Strategy          string
	Shadow            string                  // a strategy that is evaluated without effect; "" for none
	Plugins           *endpointpicker.Profile // profile of strategy plugins; nil if the configuration is invalid
	Criticality       string
	ShedAfter         time.Duration // 0: off
	FlowControl       FlowControl
	VirtualNodes      int32 // of strategy chwbl, like the next two; 0: the defaults of picker.Pool
	LoadFactorPercent int32
	UserMessages      int32
	SessionTTL        int32 // of strategy session, in seconds, like the next one; 0: the default of picker.Pool
	SessionCookie     string
	Prefix            bool // the strategy reads prompts
	EveryBody         bool // every request's body is read
	// InferenceModels or InferenceModelRewrites apply to the pool: bodies are read for the model
	ReadsModels        bool
	RewritesModels     bool  // some of them replace the model
	TrustHeaders       bool  // clients' headers may set the priority
	FullQueue          int32 // 0: never full
	FullKVCachePercent int32 // 0: never full
	FullInFlight       int32 // 0: never full
	Fallbacks          int32
	NoHeadersTimeout   bool   // streams wait for headers without limit
	Engine             string // selects metric names; "": vLLM
	MetricsPath        string // "": the engine's
	UnverifiedTLS      bool   // without a BackendTLSPolicy the picker reads metrics over unverified TLS
	MetricsPort        int32  // 0: the engine's, or the endpoint's own
	MaxMetricsPage     int32  // in bytes; 0: the default of endpoint.Metrics
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
	Service string // in the pool's namespace
	Host    string // a host name or IP address; "" with a Service
	TLS     bool   // of a Host
	Path    string // of a Host
	Port    int32
	Timeout time.Duration
	Headers []string
	Route   bool // it may choose endpoints, unless the request does
}

// FlowControl queues requests while the pool is saturated. The zero value is off. Other zero values
// mean the defaults of picker/flow.
type FlowControl struct {
	On        bool
	Deadlines bool // the earliest deadline goes first
	Requests  int32
	Bytes     int64
	TTL       time.Duration
	EmptyTTL  time.Duration // how long a request waits while the pool has no endpoint
	Queue     float64       // number of waiting requests that saturates a server
	KVCache   float64       // use of the KV cache, 0 to 1, that saturates a server
	InFlight  int64         // number of requests in flight that saturates a server; 0: unlimited
	TTLs      []BandTTL     // of individual priorities
}

// BandTTL limits the wait of requests of one priority. Negative applies to each priority below 0
// without an entry of its own.
type BandTTL struct {
	Priority int32
	Negative bool
	TTL      time.Duration
}

// KVEvents configures how the pool's model servers publish KV events. The zero value is off.
type KVEvents struct {
	Dial       bool  // servers listen
	Listen     bool  // servers dial
	Port       int32 // PUB socket of listening servers
	ReplayPort int32 // 0: none
	Topic      string
	Render     time.Duration // how long a pick waits for token IDs; 0: none are fetched
}

// Hop is a virtual host of HopListener. Through it a spilled request reaches the next pool's own
// picker.
type Hop struct {
	Name     HopID
	Backends []WeightedBackend
	// NoGRPC is set if the backends speak HTTP/1.1; another hop takes gRPC requests.
	NoGRPC bool
	Behind []Spill // as Spill.Behind
	Owners []report.Ref
}

// Member is one model server of a pool.
type Member struct {
	Address  netip.AddrPort
	Pod      string // name of the pod or ModelServers object, for people
	Labels   map[string]string
	Draining bool // takes no new requests; absent from Envoy's assignment
}

// Secret is a certificate with its key, trusted CAs or trust domains, or a token.
type Secret struct {
	Name  string // SecretName
	Chain []byte // PEM
	Key   []byte // PEM
	CA    []byte // PEM; the only field set
	Token []byte // the only field set
	// Domains are trusted SPIFFE trust domains; the only field set.
	Domains []TrustDomain
	// Owners receive the report of a NACK: the objects that it was made from, and the objects whose
	// traffic needs it.
	Owners []report.Ref
}
