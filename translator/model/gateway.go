package model

import (
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Gateway is a Gateway of ours, with every listener decided: valid or not, which routes it takes,
// which chain it is in.
type Gateway struct {
	Ref       report.Ref
	Addresses []string // IP addresses to bind; ["0.0.0.0"] unless spec.addresses has others
	// Listeners are the Gateway's own in the order of the spec, then those of its ListenerSets by
	// falling precedence.
	Listeners []*Listener
	Sets      []ListenerSet // all that name the Gateway, those that it does not take too, by falling precedence
	// Fleet is how its proxies run, the class's parameters included; nil if the Gateway is not
	// accepted: what runs stays.
	Fleet *v1alpha1.EnvoyFleetSpec
	// Certificate is the SecretName of the one that backends are shown that speak TLS; "" for none.
	Certificate string
	Conditions  []report.Condition
	Findings    []report.Finding
}

// ParentGateway is a Gateway as other clusters send requests to it.
type ParentGateway struct {
	Ref       report.Ref
	Addresses []string     // that it binds
	Ports     []ParentPort // HTTPS first
	// PeerPort is that of its peer listener, at which members find the pool; 0: there is none.
	PeerPort uint16
}

// ParentPort is a port of a Gateway that takes requests.
type ParentPort struct {
	Number uint16
	HTTPS  bool
}

// ListenerSet is the decisions about a ListenerSet, except for its listeners, which are the
// Gateway's.
type ListenerSet struct {
	Ref        report.Ref
	Accepted   bool // counts as attached
	Conditions []report.Condition
	Findings   []report.Finding
}

// Listener is one listener of a Gateway, its own or of a ListenerSet.
type Listener struct {
	Owner       report.Ref // the Gateway or ListenerSet that has it in its spec
	Name        string     // unique in its owner
	Key         string     // ListenerKey: unique in the Gateway
	Port        uint16
	Protocol    string // HTTP, HTTPS, TLS, TCP or UDP; others carry conditions and no chain
	Passthrough bool   // TLS only: connections are passed on as they are
	Hostname    string // lower case; "*" when the user gave none; "*.example.com"
	// ChainName, StreamName of its hostname or DatagramName; "" if it takes no traffic (its
	// conditions have the reason)
	Chain          string
	Secrets        []string // SecretName of each certificate, where TLS is terminated, in the order of the spec
	Clients        *ClientValidation
	Allowed        AllowedRoutes
	SupportedKinds []report.Ref // Group and Kind only
	Conditions     []report.Condition
}

// ClientValidation is how the clients of an HTTPS listener are verified. Nil: clients present no
// certificate.
type ClientValidation struct {
	Trust    string // GatewayTrust: SDS name of the CA certificates
	Optional bool   // one that is missing or not valid is let pass, for the backend to judge
}

// Stream reports whether a listener hands on connections or datagrams, and not requests.
func (l *Listener) Stream() bool { return l.Protocol == "TLS" || l.Protocol == "TCP" || l.Datagrams() }

// Datagrams reports whether a listener hands on datagrams.
func (l *Listener) Datagrams() bool { return l.Protocol == "UDP" }

// Socket is what the listener binds.
func (l *Listener) Socket() Socket { return Socket{UDP: l.Datagrams(), Port: l.Port} }

// ByName reports whether the server name in the TLS handshake selects the filter chain of a
// connection.
func (l *Listener) ByName() bool { return l.Protocol == "HTTPS" || l.Protocol == "TLS" }

// AllowedRoutes is which routes may attach to a listener.
type AllowedRoutes struct {
	Kinds    []report.Ref // Group and Kind only
	From     string       // All, Same, Selector or None
	Selector string       // labels.Selector in text form, for From Selector
}

// Port is what Envoy binds: all listeners of a Gateway on one port of TCP, or the one on a port of
// UDP.
type Port struct {
	Gateway   string // "namespace/name"
	Number    uint16
	Datagrams ClusterID // that the datagrams of a port of UDP are sent to; zero for a port of TCP
	Addresses []string
	Edge      Edge
	Chains    []Chain  // sorted by name
	Streams   []Stream // sorted by name
	Owners    []report.Ref
}

// Edge is how a listener treats clients. The empty values are the defaults of
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
	Uploads        int64 // bytes of large request bodies that one Envoy may hold in all
}

// UploadsOf is Edge.Uploads of an Envoy whose container has so many bytes of memory: half of its
// heap, which is nine tenths of the memory. The other half is for copies, such as those that
// scripts and pickers read, and for everything else.
func UploadsOf(memory int64) int64 { return memory / 20 * 9 }

// DefaultMemory is the memory limit of an Envoy's container where no EnvoyFleet sets one, in bytes.
const DefaultMemory = 1 << 30

// DefaultRequestTimeout is the default of Edge.RequestTimeout, also that of hops.
const DefaultRequestTimeout = 10 * time.Minute

// Socket is what is bound.
func (p *Port) Socket() Socket { return Socket{UDP: !p.Datagrams.IsZero(), Port: p.Number} }

// Stream is what hands connections or datagrams on: one filter chain of a TCP listener, or of one
// server name of a TLS listener; or a UDP listener.
type Stream struct {
	Name       string // StreamName or DatagramName
	TLS        bool   // of a TLS listener: matched by server name
	ServerName string // "" for any
	Secrets    []string
	// Backends share the connections or datagrams. None: each is closed or dropped at once, and so
	// is the share of a backend without a Cluster.
	Backends []WeightedBackend
	Owners   []report.Ref // the route; none if no route has the name
}

// Chain is one filter chain, with one route configuration, both of the same name.
type Chain struct {
	Name       string // ChainName
	ServerName string // "" for cleartext and for "*"; else the SNI to match, "example.com" or "*.example.com"
	TLS        bool
	Secrets    []string // SDS names, for TLS
	Clients    *ClientValidation
	// Misdirected are hostnames of other HTTPS and TLS listeners on the same port: a request for
	// one of them that came over this chain is answered 421 (Gateway API, "Listener isolation and
	// connection coalescing").
	Misdirected []string
}

// Place is where a route is attached: hosts of one listener's chain.
type Place struct {
	Gateway  string // "namespace/name"
	Listener string // ListenerKey
	// Listener.Chain; "" for one that takes no traffic, to which a route may be attached all the
	// same
	Chain        string
	Stream       bool   // the listener hands on connections or datagrams
	Passthrough  bool   // and does not end their TLS
	ListenerHost string // the listener's hostname
	Narrow       bool   // the route does not stand behind those of narrower hosts
	// the hosts that the route answers for there, sorted: intersection of listener's and route's
	// hostnames
	Hosts []string
}

// Candidate is a route with the listeners that may take it: all that can be decided without other
// routes.
type Candidate struct {
	Route report.Ref
	// creation time in seconds since 1970, 0 from files: older routes win ties (Gateway API,
	// HTTPRouteRule)
	Created int64
	// Hostnames are the route's own, in lower case, sorted; "*" if it has none. They order routes
	// that meet at one host.
	Hostnames []string
	Parents   []CandidateParent
	Findings  []report.Finding
}

// CandidateParent is one parentRef that leads to a Gateway of ours.
type CandidateParent struct {
	Field       string // JSON path
	Ref         report.ParentRef
	Places      []Place           // sorted by listener; none if NotAccepted
	NotAccepted *report.Condition // why the route is attached nowhere; nil if it is
}

// Loss is what a route does not get: on a listener because another route has it, or on a whole
// chain because the routes of its namespace are above a budget.
type Loss struct {
	Route    report.Ref
	Gateway  string // "namespace/name"
	Listener string // ListenerKey; "" for all of Chain
	Chain    string // ChainName, if Over is set
	Host     string // "" for the whole listener
	Winner   report.Ref
	Over     string // which budget, and what the route costs; "" if there is a Winner
	Copies   bool   // the route stands in its own hosts, and not again in narrower ones
}

// Attachment is a route with everything decided about it: where it is attached, what its rules do,
// its report.
type Attachment struct {
	Route     report.Ref
	Created   int64    // Candidate.Created
	Hostnames []string // Candidate.Hostnames
	Places    []Place
	Rules     []Rule
	Parents   []report.Parent
	Findings  []report.Finding
	// Backends are the objects that its rules name, as store.TargetKey: "InferencePool
	// default/llm".
	Backends []string
	// Clusters and Hops are all that its rules need, spill targets and pickers included; sorted.
	Clusters []ClusterID
	Hops     []HopID
}

// Rule is one rule of a route; its matches are alternatives with one action.
type Rule struct {
	Name    string  // the rule's own name, if it has one
	Index   int     // position, for findings and explanations; never part of a name
	Matches []Match // none in routes of connections
	Action  Action
	// Expressions are those of the matches, for each host of the route: Envoy compiles one again
	// for each of its own routes that a match becomes.
	Expressions Expressions
}

// VirtualHost is one host of a chain with its routes in the order in which Envoy shall try them.
type VirtualHost struct {
	Gateway string
	Chain   string
	Host    string // "*", "example.com" or "*.example.com"
	Routes  []Route
	Owners  []report.Ref // routes, and the Gateway
}

// Route is one match of one rule, in its place within a virtual host.
type Route struct {
	Name  string // RouteName: unique in its virtual host
	Owner report.Ref
	Rule  int // position of the rule in its owner, for explanations
	// RuleName is the rule's own name; "" if it has none.
	RuleName string
	Match    Match
	Action   *Action
}
