package model

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// Fallback is what a pool's cluster does with a request for which no usable endpoint was picked
// (DESIGN, "What Envoy gets").
type Fallback string

// The fallbacks. PlainLB belongs to clusters that are not picked from at all.
const (
	PlainLB       Fallback = ""            // least request among all endpoints; no override
	FallbackPods  Fallback = "role: pod"   // fail open: least request among the pool's own pods
	FallbackSpill Fallback = "role: spill" // least request among the spill endpoints
	FallbackAgain Fallback = "again"       // the hop to the pool itself (Pool.PicksAgain)
	FallbackNone  Fallback = "none"        // fail close: 503
	// FallbackHops is for a cluster of hops only, which an edge tries in the order of their
	// Priority: the pool's own hop first, then where it spills. For first pools that cannot share a
	// cluster with hops: those with an external picker (Envoy cannot ignore an immediate response
	// in FULL_DUPLEX_STREAMED), those whose pods speak h2c. No picker is asked on the edge
	// (WeightedBackend.Hops); the first hop's own answer, 429 or 503, is what moves a request on.
	FallbackHops Fallback = "hops"
	// FallbackMembers is for a cluster of hops to the exporting clusters of an import: by their
	// weights. One that declines a request marks its answer, and the request is sent to another, or
	// at last to a place where the import spills.
	FallbackMembers Fallback = "members"
)

// Protocol is what the endpoints of a cluster speak.
type Protocol string

// The protocols.
const (
	HTTP1 Protocol = "http"
	H2C   Protocol = "h2c"  // HTTP/2 with prior knowledge
	TCP   Protocol = "tcp"  // bytes, whatever they mean
	UDP   Protocol = "udp"  // datagrams, whatever they mean
	GRPC  Protocol = "grpc" // HTTP/2, for pickers and other services of the control plane: keepalive, raised limits
)

// Cluster is one Envoy cluster; its endpoints come by EDS under the same name.
type Cluster struct {
	Name     ClusterID
	Protocol Protocol
	TLS      *UpstreamTLS // nil: cleartext
	// Cleartext: some endpoints speak no TLS, though the cluster has it (Endpoint.Cleartext).
	Cleartext bool
	Fallback  Fallback
	Names     *PickerNames // by which picks are found; nil: those of the endpoint picker protocol
	// Hops: the cluster has hops among its endpoints. So HTTP/1.1 trailers must pass (grpc-status),
	// and TLS is for the others.
	Hops bool
	// HealthService is the gRPC health service to check, for pickers; "" for no active health
	// check. Of external ones, those that are not known to have it (ServesHealth) are only asked
	// whether they answer (see envoy's healthCheck).
	HealthService string
	ServesHealth  bool
	// Own is Penstock's own picker, of which there may be several: one that falls silent is noticed
	// while a request can still be asked about at another.
	Own bool
	// Peer: the endpoints are peer listeners of a member's gateways.
	Peer bool
	// Ejects: an endpoint that cannot be reached is left out for a while, because another cluster
	// serves meanwhile.
	Ejects bool
	// Key is the SDS name of a secret that each request carries as a bearer token; "" for none.
	Key    string
	Owners []report.Ref
}

// UpstreamTLS is TLS towards endpoints.
type UpstreamTLS struct {
	Insecure bool // no verification: external pickers with self-signed certificates
	SNI      string
	AutoSNI  bool   // the SNI is the request's host name; SNI is ""
	Trust    string // SDS name of the trusted CAs; "" with Insecure or for the system's
	// SANs (DNS names, perhaps with a wildcard for the first label) and URIs are what a certificate
	// must have one of.
	SANs, URIs []string
	// Certificate is the SDS name of the one that is shown; "" for none. It is the Gateway's
	// (spec.tls.backend).
	Certificate string
}

// Assignment is the endpoints of one cluster.
type Assignment struct {
	Cluster   ClusterID
	Endpoints []Endpoint // addresses sorted, then hops in the user's order
	Owners    []report.Ref
	// Outside are the store's keys of EndpointSlices with addresses that may not become endpoints.
	Outside []string
}

// DropAddress is the endpoint of a cluster of datagrams for the share of backends that cannot be
// used: no socket of Envoy's may connect to a broadcast address, so that each datagram for it is
// dropped.
var DropAddress = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 9)

// Endpoint is a pod, a server, a gateway, or a hop to another pool.
type Endpoint struct {
	Address netip.AddrPort // not valid for a hop and for Socket
	// Socket is the path of a Unix socket of this machine, in place of Address; "": none.
	Socket string
	// Cleartext is set for an address that is spoken to without TLS in a cluster that has TLS for
	// others.
	Cleartext bool
	Hop       HopID // a hop; zero otherwise
	Later     bool  // a hop after a pool's first: only a picker names it, a fallback does not
	// Priority is the place of a hop in a cluster with FallbackHops or FallbackMembers; 0 is tried
	// first, and no number is left out.
	Priority uint32
	Weight   uint32 // 0: one
	// Unhealthy is set for an address that Envoy is not to use, whatever its own health check
	// finds.
	Unhealthy bool
}

// Pool is what is decided about an InferencePool, or about one exporting cluster of an import in
// EndpointMode: they are served alike.
type Pool struct {
	Name     objectid.Target
	Ref      report.Ref
	Cluster  ClusterID // its cluster, with spill endpoints if it spills
	Last     ClusterID // the cluster that a hop to this pool uses: the same without spill endpoints
	Ports    []uint16
	Protocol Protocol
	FailOpen bool
	Selector map[string]string // pods and ModelServers of the pool's namespace; nil for an import
	Picker   PickerCall        // as asked on an edge
	External bool              // the picker is not ours
	Spill    []Spill           // in order
	// SpillImports are the imports, "namespace/name", that its policy names, those that cannot be
	// used included: their host names are resolved for a pool that is used.
	SpillImports []string
	Settings     PickerSettings   // for our picker
	Relay        *Relay           // our picker asks a remote one
	Remote       []netip.AddrPort // an import's declared endpoints
	Owners       []report.Ref     // the pool, its policy
	// Resolved is the condition ResolvedRefs; a pool where it is False has no picker to ask.
	Resolved report.Condition
	Findings []report.Finding
}

// ViaHops reports whether the pool spills but cannot share a cluster with hops (see FallbackHops):
// on an edge it is a cluster of hops, the first of them to itself. What a picker changes in a
// request behind its pool's own hop is undone with the hop: the next pool's picker receives what
// the client sent.
func (p *Pool) ViaHops() bool {
	return len(p.Spill) > 0 && (p.External || p.Relay != nil || p.Protocol != HTTP1 || p.Settings.ChangesBodies())
}

// ChangesBodies reports whether picks change the bodies of requests, so that a spill must undo it.
func (s *PickerSettings) ChangesBodies() bool {
	return s.RewritesModels || s.Processor != nil || s.Plugins != nil && s.Plugins.Dynamo != nil
}

// PicksAgain reports whether a request whose pick was lost gets another pick, behind a hop to the
// pool itself: nothing else would serve it (the pool has nowhere to spill to, and fails closed or
// may have no pod that is known), and our picker reads bodies. It has answered in part then when it
// has a body, and Envoy repeats no such call; so the picks of a picker that is killed are lost with
// it.
func (p *Pool) PicksAgain() bool {
	return (!p.FailOpen || p.Relay != nil) && !p.External && len(p.Spill) == 0 && p.Picker.Body == BodyBuffered
}

// OwnHop is the hop in front of the pool itself, or in front of the subset whose hops Cluster has.
func (p *Pool) OwnHop() HopID {
	hop := HopTo(p.Ref.Kind, p.Ref.Namespace, p.Ref.Name)
	hop.Member = cmp.Or(p.Name.Member, p.Cluster.Member)
	return hop
}

// ExternalPicker is where a picker that is not ours is asked by this process itself.
type ExternalPicker struct {
	Cluster   ClusterID // PickerCluster or ImportPickerCluster
	Addresses []RemoteAddress
	TLS       UpstreamTLS // for addresses that are not Cleartext
	// CA is the bundle that TLS.Trust names, in PEM; nil without one.
	CA []byte
	// Chain and Key are the client certificate, in PEM, of the first of the Gateways whose routes
	// lead to the picker that has one (spec.tls.backend); nil without one.
	Chain, Key []byte
	// Relayed: our picker asks it for picks, and no Envoy.
	Relayed bool
	// Health is where each address serves gRPC health, of an exporting cluster's picker; zero:
	// nowhere that is known.
	Health PickerPort
	// Metrics is where each address serves its metrics page, likewise.
	Metrics PickerPort
	// Pool is the pool's name there; "": the import's.
	Pool string
	// Field is where the import has the picker: "status.clusters[0].endpointPicker".
	Field string
}

// PickerPort is a port of an exporting cluster's picker beside that of its picks. The zero value:
// there is none, or it is not asked.
type PickerPort struct {
	Port uint16
	// TLS verifies the picker; nil: the port is asked in cleartext, and without a credential.
	TLS *UpstreamTLS
	// CA is the bundle that TLS.Trust names, in PEM; nil without one.
	CA []byte
	// Authorization is the header with the credential; "" for none. It is sent to a verified picker
	// alone.
	Authorization string
	// Chain and Key are the client certificate, in PEM; nil for none.
	Chain, Key []byte
}

// RemoteAddress is where a picker or a gateway is reached, in the way that its own port requires.
type RemoteAddress struct {
	Addr      netip.AddrPort
	Cleartext bool
}

// Import is what is decided about an InferencePoolImport.
type Import struct {
	Ref     report.Ref
	Members []ImportMember // sorted by name
	// Cluster is what routes send to if several of Members take requests: a hop to each of them,
	// and to the places where the import spills. Zero: they send to the one member.
	Cluster ClusterID
	Order   HopOrder // of Cluster
	// Ordered: one of Members serves, the first that takes requests. One that did not take any
	// comes last for a while (store.Failback).
	Ordered bool
	// Choice has our picker choose a hop for each request; nil: they are chosen by their weights
	// and priorities.
	Choice  *Choice
	RetryOn RetryOn // of Cluster
	Spill   []Spill // of Cluster: where a request goes that all members have declined
	// SpillImports is Pool.SpillImports of Spill.
	SpillImports []string
	Findings     []report.Finding
	// Exposed is how requests reach the servers of other clusters. What is unsafe of it is reported
	// once a route sends requests there.
	Exposed  []Exposure
	Accepted report.Condition
	Ready    report.Condition
	// Credentials: the ports of some picker are asked with a Secret.
	Credentials bool
}

// Exposure is how requests reach some servers of an exporting cluster.
type Exposure struct {
	Cluster ClusterID // of these servers
	Who     string    // they are: "its picker"
	Field   string    // of the import that has them
	// Cleartext and TLS: some servers are reached so. Policy: a BackendTLSPolicy is in force.
	Cleartext, TLS, Policy bool
	// Member: a member of the cluster set exports it, so nothing here has the fields of its entry.
	Member bool
}

// Choice is how our picker chooses among the exporting clusters of an import.
type Choice struct {
	Picker PickerCall // as asked on an edge
	Margin time.Duration
	// Latency: by how fast the clusters answer, not by their load.
	Latency bool
	// Blind: prompts do not decide, also where bodies are read for PickerCall.ResponseIDs.
	Blind bool
	// Sessions: the requests of a session go to the cluster of its first one. SessionTTL and
	// SessionCookie are as those of PickerSettings.
	Sessions      bool
	SessionTTL    int32
	SessionCookie string
}

// ImportMember is one exporting cluster of an import.
type ImportMember struct {
	Name string
	// Region and Zone of the cluster; "": not known.
	Region, Zone string
	Cluster      ClusterID // what routes send to
	Share        uint32    // weight within the import
	// Priority is that of its hop in Import.Cluster; 0 is tried first.
	Priority uint32
	Pool     *Pool           // EndpointMode
	Parents  []RemoteAddress // ParentMode
	// Peer is the authority at Parents that are peer listeners (PeerAuthority); "" for others.
	Peer string
	// Hostname is the Host at Parents that are none; "": the client's.
	Hostname string
	// Protocol is what gateways at Parents are spoken to in; of peer listeners, which speak HTTP/2,
	// what the model servers behind them speak.
	Protocol Protocol
	// MaxGateways is that of ParentMode: how many gateways a request may have passed through.
	MaxGateways uint32
	Local       bool   // this cluster: the InferencePool of the import's name
	Problem     string // why the member cannot be used; "" if it can
	// Reason is that of Problem in conditions: NotAllowed or NotSupported. "": Problem may end as a
	// host name is resolved.
	Reason string
	// NotReady is the reason of the member's condition Ready, if that is False: it takes no new
	// request, and its Share is 0.
	NotReady string
}

// Takes reports whether the member takes requests.
func (m *ImportMember) Takes() bool { return m.Problem == "" && m.Share > 0 }

// Hop is the hop in front of a member.
func (i *Import) Hop(m *ImportMember) HopID {
	return HopID{Import: true, Namespace: i.Ref.Namespace, Name: i.Ref.Name, Member: m.Name}
}

// Spill is a place to send what a pool cannot take.
type Spill struct {
	Hop      HopID
	Target   string // store.TargetKey of the pool or import, for people
	Owner    report.Ref
	Backends []WeightedBackend // what the hop sends to
	// Behind are the hops of an import with several exporting clusters, which Backends then lead
	// to.
	Behind []Spill
}

// Ends are the backends that requests of the hop end at, those behind further hops included.
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

// Relay is how our picker asks a remote one whose pods are not known here.
type Relay struct {
	Pickers []RemoteAddress
	// Within are where its pods may be: in a range of each list, of the importer's policy and of
	// the exporter. None: anywhere that the operator allows, but not at loopback.
	Within [][]netip.Prefix
	Import string // "namespace/name"
	Member string // the exporting cluster
	Field  string // where the import has it: "status.clusters[0]"
}

// PickerSettings is a pool's PoolPolicy, with defaults filled in.
type PickerSettings struct {
	Strategy           string
	Shadow             string                  // a strategy that judges picks without effect; "" for none
	Plugins            *endpointpicker.Profile // of strategy plugins; nil if what configures them is invalid
	Criticality        string
	ShedAfter          time.Duration // 0: off
	FlowControl        FlowControl
	VirtualNodes       int32 // of strategy chwbl, as the next two; 0: the defaults of picker.Pool
	LoadFactorPercent  int32
	UserMessages       int32
	SessionTTL         int32 // of strategy session, in seconds, as the next one; 0: the default of picker.Pool
	SessionCookie      string
	Prefix             bool  // the strategy reads prompts
	EveryBody          bool  // every request's body is read
	ReadsModels        bool  // InferenceModels or InferenceModelRewrites name the pool: bodies are read for the model
	RewritesModels     bool  // some of them replace it
	TrustHeaders       bool  // headers of clients decide about priority
	FullQueue          int32 // 0: never full
	FullKVCachePercent int32 // 0: never full
	FullInFlight       int32 // 0: never full
	Fallbacks          int32
	NoHeadersTimeout   bool   // streams wait for headers without a limit
	Engine             string // that names the metrics; "": vLLM
	MetricsPath        string // "": the engine's
	UnverifiedTLS      bool   // without a BackendTLSPolicy the picker asks the servers over TLS that verifies none
	MetricsPort        int32  // 0: the engine's, or the endpoint's own
	MaxMetricsPage     int32  // in bytes; 0: the default of endpoint.Metrics
	LoadStatPort       int32  // 0: loads are not published
	QueueName          string // "" for the default series
	RunningName        string
	KVCacheName        string
	TokenUsage         bool // Envoy reads the usage of responses
	ResponseAffinity   bool // requests that name a response go to the server that keeps it
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
	Route   bool // it chooses endpoints, where requests do not decide about that
}

// FlowControl holds requests back while the pool is saturated. The zero value: it is off. Zero
// values of the others: the defaults of picker/flow.
type FlowControl struct {
	On        bool
	Deadlines bool // the nearest goes first
	Requests  int32
	Bytes     int64
	TTL       time.Duration
	EmptyTTL  time.Duration // how long a request waits while the pool has no endpoint
	Queue     float64       // waiting requests at which a server is saturated
	KVCache   float64       // use of the KV cache, 0 to 1, at which it is
	InFlight  int64         // requests in flight at which it is; 0: any number
	TTLs      []BandTTL     // of single priorities
}

// BandTTL is how long requests of one priority wait; Negative: of each priority below 0 without one
// of its own.
type BandTTL struct {
	Priority int32
	Negative bool
	TTL      time.Duration
}

// KVEvents is where the model servers of a pool publish KV events. The zero value: nowhere.
type KVEvents struct {
	Dial       bool  // they listen
	Listen     bool  // they dial
	Port       int32 // of the PUB socket of those that listen
	ReplayPort int32 // 0: none
	Topic      string
	Render     time.Duration // how long a pick waits for token IDs; 0: they are not fetched
}

// Hop is a virtual host of HopListener, through which a spilled request meets the next pool's own
// picker.
type Hop struct {
	Name     HopID
	Backends []WeightedBackend
	// NoGRPC: what is behind the hop speaks HTTP/1.1, and another hop takes gRPC requests.
	NoGRPC bool
	Behind []Spill // as Spill.Behind
	Owners []report.Ref
}

// Member is one model server of a pool.
type Member struct {
	Address  netip.AddrPort
	Pod      string // name of the pod or ModelServers object, for people
	Labels   map[string]string
	Draining bool // takes no new request; not in Envoy's assignment
}

// Secret is a certificate with its key, trusted CAs or trust domains, or a token.
type Secret struct {
	Name  string // SecretName
	Chain []byte // PEM
	Key   []byte // PEM
	CA    []byte // PEM; set alone
	Token []byte // set alone
	// Domains are trusted as SPIFFE trust domains; set alone.
	Domains []TrustDomain
	// Owners are the objects that it was made from, and those whose traffic needs it: a NACK is
	// reported to them.
	Owners []report.Ref
}
