package model

import (
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Gateway is a Gateway of ours with the decisions about each listener.
type Gateway struct {
	Ref       report.Ref
	Addresses []string // to bind; ["0.0.0.0"] unless spec.addresses has addresses
	// Listeners holds the Gateway's own listeners in order, then its ListenerSets' listeners by
	// descending precedence.
	Listeners []*Listener
	Sets      []ListenerSet // accepted or not, by descending precedence
	// Fleet configures its proxies. It is nil if the Gateway is not accepted: running proxies stay
	// as they are.
	Fleet *v1alpha1.EnvoyFleetSpec
	// Certificate is the SecretName of the client certificate for backends; "" for none.
	Certificate string
	Conditions  []report.Condition
	Findings    []report.Finding
}

// ParentGateway is a Gateway as other clusters reach it.
type ParentGateway struct {
	Ref       report.Ref
	Addresses []string     // that it binds
	Ports     []ParentPort // HTTPS first
	// PeerPort is the port of its peer listener; 0 for none.
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

// Listener is a listener of a Gateway or ListenerSet.
type Listener struct {
	Owner       report.Ref // the Gateway or ListenerSet
	Name        string     // unique in its owner
	Key         string     // ListenerKey: unique in the Gateway
	Port        uint16
	Protocol    string // HTTP, HTTPS, TLS, TCP or UDP; other protocols have conditions but no chain
	Passthrough bool   // TLS is not terminated
	Hostname    string // lower case; "*" if the spec has none; "*.example.com"
	// ChainName, StreamName or DatagramName; "" if it takes no traffic
	Chain          string
	Secrets        []string // SecretName of each certificate, in order
	Clients        *ClientValidation
	Allowed        AllowedRoutes
	SupportedKinds []report.Ref // Group and Kind only
	Conditions     []report.Condition
}

// ClientValidation configures how an HTTPS listener verifies clients; nil: no certificate is
// requested.
type ClientValidation struct {
	Trust    string // GatewayTrust
	Optional bool   // a missing or invalid certificate passes
}

// Stream reports whether a listener forwards connections or datagrams.
func (l *Listener) Stream() bool { return l.Protocol == "TLS" || l.Protocol == "TCP" || l.Datagrams() }

// Datagrams reports whether a listener forwards datagrams.
func (l *Listener) Datagrams() bool { return l.Protocol == "UDP" }

// Socket returns the socket that the listener binds.
func (l *Listener) Socket() Socket { return Socket{UDP: l.Datagrams(), Port: l.Port} }

// ByName reports whether the SNI selects a connection's filter chain.
func (l *Listener) ByName() bool { return l.Protocol == "HTTPS" || l.Protocol == "TLS" }

// AllowedRoutes restricts which routes may attach to a listener.
type AllowedRoutes struct {
	Kinds    []report.Ref // Group and Kind only
	From     string       // All, Same, Selector or None
	Selector string       // labels.Selector as text
}

// Port is a socket that Envoy binds, for all listeners of a Gateway on a TCP port, or the listener
// on a UDP port.
type Port struct {
	Gateway   string // "namespace/name"
	Number    uint16
	Datagrams ClusterID // of a UDP port; zero for TCP
	Addresses []string
	Edge      Edge
	Chains    []Chain  // sorted by name
	Streams   []Stream // sorted by name
	Owners    []report.Ref
}

// Edge configures how a listener treats clients. Empty values mean the defaults of
// v1alpha1.FleetClients.
type Edge struct {
	RequestTimeout time.Duration // 0: no timeout
	Streams        uint32        // of an HTTP/2 connection; 0: the default
	EscapedSlashes v1alpha1.EscapedSlashes
	Underscores    v1alpha1.HeadersWithUnderscores
	HTTP10         v1alpha1.HTTP10
	RequestIDs     v1alpha1.RequestIDs
	TrustedHops    uint32
	ProxyProtocol  v1alpha1.ProxyProtocol
	Uploads        int64 // total bytes of large request bodies in one Envoy
}

// UploadsOf returns Edge.Uploads for an Envoy with this memory limit, in bytes. Envoy's heap limit
// is nine tenths of the memory. Uploads may fill half of the heap; the other half is for the copies
// of bodies that scripts and pickers need, and for everything else.
func UploadsOf(memory int64) int64 { return memory / 20 * 9 }

// DefaultMemory is an Envoy's memory limit, in bytes, if no EnvoyFleet sets one.
const DefaultMemory = 1 << 30

// DefaultRequestTimeout is the default of Edge.RequestTimeout, and applies to hops.
const DefaultRequestTimeout = 10 * time.Minute

// Socket returns the socket that the port binds.
func (p *Port) Socket() Socket { return Socket{UDP: !p.Datagrams.IsZero(), Port: p.Number} }

// Stream forwards connections or datagrams: a filter chain of a TCP listener or of one server name
// of a TLS listener, or a UDP listener.
type Stream struct {
	Name       string // StreamName or DatagramName
	TLS        bool   // matched by server name
	ServerName string // "" for any
	Secrets    []string
	// Backends share the connections or datagrams. Envoy closes or drops the share of a backend
	// without a Cluster, and everything if there is no backend.
	Backends []WeightedBackend
	Owners   []report.Ref // the route
}

// Chain is a filter chain and its route configuration.
type Chain struct {
	Name       string // ChainName
	ServerName string // SNI, "example.com" or "*.example.com"; "" for cleartext and "*"
	TLS        bool
	Secrets    []string // SDS names, for TLS
	Clients    *ClientValidation
	// Misdirected lists hostnames of other HTTPS and TLS listeners on the port. Requests for them
	// over this chain get 421 (Gateway API, "Listener isolation and connection coalescing").
	Misdirected []string
}

// Place is a route's attachment to one listener.
type Place struct {
	Gateway  string // "namespace/name"
	Listener string // ListenerKey
	// Listener.Chain; "" for a listener without traffic
	Chain        string
	Stream       bool // Listener.Stream
	Passthrough  bool // the TLS is not terminated
	ListenerHost string
	Narrow       bool // virtual hosts of narrower hostnames do not repeat the route
	// sorted intersection of the listener's and the route's hostnames
	Hosts []string
}

// Candidate is a route with the listeners that may take it, decided without knowledge of other
// routes.
type Candidate struct {
	Route report.Ref
	// Unix seconds, 0 from files: older routes win ties (Gateway API, HTTPRouteRule)
	Created int64
	// Hostnames in lower case, sorted; "*" if it has none. They order routes that meet at one host.
	Hostnames []string
	Parents   []CandidateParent
	Findings  []report.Finding
}

// CandidateParent is a parentRef to a Gateway of ours.
type CandidateParent struct {
	Field       string // JSON path
	Ref         report.ParentRef
	Places      []Place           // sorted; none if NotAccepted
	NotAccepted *report.Condition // nil if the route attaches
}

// Loss records why a route lacks a listener or chain: another route has the listener, or its
// namespace's routes exceed a budget on the chain.
type Loss struct {
	Route    report.Ref
	Gateway  string // "namespace/name"
	Listener string // ListenerKey; "" for all of Chain
	Chain    string // if Over is set
	Host     string // "" for the whole listener
	Winner   report.Ref
	Over     string // the budget and the route's cost
	Gate     string // the AccessPolicy that gates Listener, if no gate can read the route's connections
	Copies   bool   // only virtual hosts of narrower hostnames lack the route
}

// Attachment is a route with all decisions about it.
type Attachment struct {
	Route     report.Ref
	Created   int64    // Candidate.Created
	Hostnames []string // Candidate.Hostnames
	Places    []Place
	Rules     []Rule
	Parents   []report.Parent
	Findings  []report.Finding
	// Backends lists the objects in its rules as store.TargetKey.
	Backends []string
	// Clusters and Hops are all that its rules need, sorted.
	Clusters []ClusterID
	Hops     []HopID
}

// Rule is one rule of a route: alternative matches with one action.
type Rule struct {
	Name    string  // "" if it has no name
	Index   int     // position, for messages; never part of a name
	Matches []Match // none in routes of connections
	Action  Action
	// Expressions is the matches' cost in each host. Envoy compiles an expression once for each
	// Envoy route with it.
	Expressions Expressions
}

// VirtualHost is a host of a chain, with its routes in Envoy's order.
type VirtualHost struct {
	Gateway string
	Chain   string
	Host    string // "*", "example.com" or "*.example.com"
	// Listener is the model.ListenerKey of the listener that has the host.
	Listener string
	Routes   []Route
	Owners   []report.Ref // routes, the Gateway, and AccessPolicies
	// Gates are the AccessPolicies that are in Gates of all routes. They also gate the host's
	// answers to requests that no route takes.
	Gates []string
	// ByModel is set if a route has it: all scans of bodies are then strict.
	ByModel bool
}

// Route is one match of a rule in a virtual host.
type Route struct {
	Name     string // RouteName: unique in its virtual host
	Owner    report.Ref
	Rule     int // position, for explanations
	RuleName string
	Match    Match
	Action   *Action
	// Gates are the AccessPolicies that must let a request in ("namespace/name"), the outermost
	// first.
	Gates []string
	// ExactUsage means that streams must report their tokens (AccessPolicy.usage).
	ExactUsage bool
	// Reaches lists, while there are AccessPolicies, all that its requests may reach, sorted:
	// InferencePools ("namespace/name"), imports ("namespace/name@"), and AnythingElse.
	Reaches []string
	// ByModel is set if one of Gates decides by the model: the body is read for it.
	ByModel bool
}

// AnythingElse stands for Services and unresolved backends in Route.Reaches.
const AnythingElse = "*"
