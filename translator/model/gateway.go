package model

import (
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Gateway is a Gateway of ours with the decisions about each listener: whether it is valid, which
// routes it takes, and its chain.
type Gateway struct {
	Ref       report.Ref
	Addresses []string // IP addresses to bind; ["0.0.0.0"] unless spec.addresses has others
	// Listeners holds the Gateway's own, in the order of the spec, then its ListenerSets' by
	// descending precedence.
	Listeners []*Listener
	Sets      []ListenerSet // all that reference the Gateway, accepted or not, by descending precedence
	// Fleet configures its proxies, including the class's parameters. It is nil if the Gateway is
	// not accepted: running proxies stay as they are.
	Fleet *v1alpha1.EnvoyFleetSpec
	// Certificate is the SecretName of the client certificate for backends with TLS; "" for none.
	Certificate string
	Conditions  []report.Condition
	Findings    []report.Finding
}

// ParentGateway is a Gateway as other clusters reach it.
type ParentGateway struct {
	Ref       report.Ref
	Addresses []string     // that it binds
	Ports     []ParentPort // HTTPS first
	// PeerPort is the port of its peer listener for members; 0 for none.
	PeerPort uint16
}

// ParentPort is a port of a Gateway that takes requests.
type ParentPort struct {
	Number uint16
	HTTPS  bool
}

// ListenerSet holds the decisions about a ListenerSet. Its listeners are in the Gateway.
type ListenerSet struct {
	Ref        report.Ref
	Accepted   bool // counts as attached
	Conditions []report.Condition
	Findings   []report.Finding
}

// Listener is one listener of a Gateway, its own or of a ListenerSet.
type Listener struct {
	Owner       report.Ref // the Gateway or ListenerSet whose spec has it
	Name        string     // unique in its owner
	Key         string     // ListenerKey: unique in the Gateway
	Port        uint16
	Protocol    string // HTTP, HTTPS, TLS, TCP or UDP; others have conditions but no chain
	Passthrough bool   // TLS only: connections are forwarded without termination
	Hostname    string // lower case; "*" if the spec has none; "*.example.com"
	// ChainName, StreamName of its hostname, or DatagramName; "" if it takes no traffic (its
	// conditions have the reason)
	Chain          string
	Secrets        []string // SecretName of each certificate of terminated TLS, in the order of the spec
	Clients        *ClientValidation
	Allowed        AllowedRoutes
	SupportedKinds []report.Ref // Group and Kind only
	Conditions     []report.Condition
}

// ClientValidation configures how an HTTPS listener verifies clients. Nil: clients present no
// certificate.
type ClientValidation struct {
	Trust    string // GatewayTrust: SDS name of the CA certificates
	Optional bool   // a missing or invalid certificate passes; the backend decides
}

// Stream reports whether a listener forwards connections or datagrams, not requests.
func (l *Listener) Stream() bool { return l.Protocol == "TLS" || l.Protocol == "TCP" || l.Datagrams() }

// Datagrams reports whether a listener forwards datagrams.
func (l *Listener) Datagrams() bool { return l.Protocol == "UDP" }

// Socket returns the socket that the listener binds.
func (l *Listener) Socket() Socket { return Socket{UDP: l.Datagrams(), Port: l.Port} }

// ByName reports whether the SNI selects the filter chain of a connection.
func (l *Listener) ByName() bool { return l.Protocol == "HTTPS" || l.Protocol == "TLS" }

// AllowedRoutes restricts which routes may attach to a listener.
type AllowedRoutes struct {
	Kinds    []report.Ref // Group and Kind only
	From     string       // All, Same, Selector or None
	Selector string       // of From Selector: a labels.Selector in text form
}

// Port is one socket that Envoy binds: all listeners of a Gateway on a TCP port, or the one on a
// UDP port.
type Port struct {
	Gateway   string // "namespace/name"
	Number    uint16
	Datagrams ClusterID // target of the datagrams of a UDP port; zero for TCP
	Addresses []string
	Edge      Edge
	Chains    []Chain  // sorted by name
	Streams   []Stream // sorted by name
	Owners    []report.Ref
}

// Edge configures how a listener treats clients. Empty values mean the defaults of
// v1alpha1.FleetClients.
type Edge struct {
	RequestTimeout time.Duration // 0: none
	Streams        uint32        // of one HTTP/2 connection; 0: the default
	EscapedSlashes v1alpha1.EscapedSlashes
	Underscores    v1alpha1.HeadersWithUnderscores
	HTTP10         v1alpha1.HTTP10
	RequestIDs     v1alpha1.RequestIDs
	TrustedHops    uint32
	ProxyProtocol  v1alpha1.ProxyProtocol
	Uploads        int64 // bytes of large request bodies that one Envoy may hold in total
}

// UploadsOf returns Edge.Uploads for an Envoy with a memory limit in bytes: half of its heap, which
// is nine tenths of the memory. The other half is for copies, as for scripts and pickers, and for
// everything else.
func UploadsOf(memory int64) int64 { return memory / 20 * 9 }

// DefaultMemory is the memory limit of an Envoy's container without an EnvoyFleet's, in bytes.
const DefaultMemory = 1 << 30

// DefaultRequestTimeout is the default of Edge.RequestTimeout, also for hops.
const DefaultRequestTimeout = 10 * time.Minute

// Socket returns the socket that the port binds.
func (p *Port) Socket() Socket { return Socket{UDP: !p.Datagrams.IsZero(), Port: p.Number} }

// Stream forwards connections or datagrams: one filter chain of a TCP listener or of one server
// name of a TLS listener, or a UDP listener.
type Stream struct {
	Name       string // StreamName or DatagramName
	TLS        bool   // of a TLS listener: matched by server name
	ServerName string // "" for any
	Secrets    []string
	// Backends share the connections or datagrams. Without any, and for the share of a backend
	// without a Cluster, Envoy closes or drops each at once.
	Backends []WeightedBackend
	Owners   []report.Ref // the route; none if no route has the name
}

// Chain is a filter chain and its route configuration, with the same name.
type Chain struct {
	Name       string // ChainName
	ServerName string // "" for cleartext and "*"; else the SNI to match, "example.com" or "*.example.com"
	TLS        bool
	Secrets    []string // SDS names, for TLS
	Clients    *ClientValidation
	// Misdirected lists hostnames of other HTTPS and TLS listeners on the port. A request for one
	// of them over this chain gets 421 (Gateway API, "Listener isolation and connection
	// coalescing").
	Misdirected []string
}

// Place is a route's attachment to one listener: hosts of the listener's chain.
type Place struct {
	Gateway  string // "namespace/name"
	Listener string // ListenerKey
	// Listener.Chain; "" for a listener without traffic, to which a route may still attach
	Chain        string
	Stream       bool   // the listener forwards connections or datagrams
	Passthrough  bool   // and does not terminate their TLS
	ListenerHost string // the listener's hostname
	Narrow       bool   // narrower hosts do not contain the route
	// the hosts that the route serves there, sorted: the intersection of the listener's and the
	// route's hostnames
	Hosts []string
}

// Candidate is a route with the listeners that may take it: everything that can be decided without
// other routes.
type Candidate struct {
	Route report.Ref
	// creation time in Unix seconds, 0 from files: older routes win ties (Gateway API,
	// HTTPRouteRule)
	Created int64
	// Hostnames are the route's own, in lower case, sorted; "*" if it has none. They order routes
	// that meet at one host.
	Hostnames []string
	Parents   []CandidateParent
	Findings  []report.Finding
}

// CandidateParent is a parentRef to a Gateway of ours.
type CandidateParent struct {
	Field       string // JSON path
	Ref         report.ParentRef
	Places      []Place           // sorted by listener; none if NotAccepted
	NotAccepted *report.Condition // why the route attaches nowhere; nil if it does
}

// Loss records what a route does not get: a listener that another route has, or a chain on which
// the routes of its namespace exceed a budget.
type Loss struct {
	Route    report.Ref
	Gateway  string // "namespace/name"
	Listener string // ListenerKey; "" for all of Chain
	Chain    string // ChainName, if Over is set
	Host     string // "" for the whole listener
	Winner   report.Ref
	Over     string // the budget and the route's cost; "" if there is a Winner
	Copies   bool   // only narrower hosts lack the route
}

// Attachment is a route with all decisions: its places, its rules' actions and its report.
type Attachment struct {
	Route     report.Ref
	Created   int64    // Candidate.Created
	Hostnames []string // Candidate.Hostnames
	Places    []Place
	Rules     []Rule
	Parents   []report.Parent
	Findings  []report.Finding
	// Backends lists the objects in its rules as store.TargetKey: "InferencePool default/llm".
	Backends []string
	// Clusters and Hops are everything that its rules need, including spill targets and pickers;
	// sorted.
	Clusters []ClusterID
	Hops     []HopID
}

// Rule is one rule of a route: alternative matches with one action.
type Rule struct {
	Name    string  // "" without one
	Index   int     // position, for findings and explanations; never part of a name
	Matches []Match // none in routes of connections
	Action  Action
	// Expressions are the matches' cost in each host of the route: Envoy compiles them again for
	// each of its own routes.
	Expressions Expressions
}

// VirtualHost is one host of a chain, with its routes in the order in which Envoy tries them.
type VirtualHost struct {
	Gateway string
	Chain   string
	Host    string // "*", "example.com" or "*.example.com"
	Routes  []Route
	Owners  []report.Ref // routes, and the Gateway
}

// Route is one match of one rule in a virtual host.
type Route struct {
	Name     string // RouteName: unique in its virtual host
	Owner    report.Ref
	Rule     int // position of the rule in its owner, for explanations
	RuleName string
	Match    Match
	Action   *Action
}
