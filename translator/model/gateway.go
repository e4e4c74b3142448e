package model

import (
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Gateway is a Gateway that Penstock configures, with the translation of each listener.
type Gateway struct {
	Ref       report.Ref
	Addresses []string // addresses that Envoy binds; ["0.0.0.0"] by default
	// Listeners holds the Gateway's own listeners, then its ListenerSets' listeners by descending
	// precedence.
	Listeners []*Listener
	Sets      []ListenerSet // accepted or not, by descending precedence
	// Fleet configures the Gateway's Envoys. It is nil if the Gateway is not accepted; running
	// Envoys then stay as they are.
	Fleet *v1alpha1.EnvoyFleetSpec
	// Certificate is the SecretName of the client certificate for backends; "" for none.
	Certificate string
	Conditions  []report.Condition
	Findings    []report.Finding
}

// ParentGateway describes how other clusters reach a Gateway.
type ParentGateway struct {
	Ref       report.Ref
	Addresses []string     // addresses that it binds
	Ports     []ParentPort // HTTPS first
	// PeerPort is the port of the listener for members of the cluster set (PeerListener); 0 for
	// none.
	PeerPort uint16
}

// ParentPort is a port at which a Gateway takes requests.
type ParentPort struct {
	Number uint16
	HTTPS  bool
}

// ListenerSet is the result of translating a ListenerSet. Its listeners are in Gateway.Listeners.
type ListenerSet struct {
	Ref        report.Ref
	Accepted   bool // the Gateway counts it as attached
	Conditions []report.Condition
	Findings   []report.Finding
}

// Listener is a listener of a Gateway or ListenerSet.
type Listener struct {
	Owner       report.Ref // the Gateway or ListenerSet
	Name        string     // unique in its owner
	Key         string     // ListenerKey: unique in the Gateway
	Port        uint16
	Protocol    string // HTTP, HTTPS, TLS, TCP or UDP; for other values Chain is ""
	Passthrough bool   // TLS is not terminated
	Hostname    string // lower case; "*" if the spec has none; "*.example.com"
	// Chain is the name of the filter chain; "" if the listener takes no traffic.
	Chain          string
	Secrets        []string // SecretName of each certificate, in order
	Clients        *ClientValidation
	Allowed        AllowedRoutes
	SupportedKinds []report.Ref // Group and Kind only
	Conditions     []report.Condition
}

// ClientValidation configures how an HTTPS listener verifies clients' certificates.
type ClientValidation struct {
	Trust    string // SDS name (GatewayTrust)
	Optional bool   // clients with a missing or invalid certificate are served, too
}

// Stream reports whether the listener forwards connections or datagrams, not HTTP requests.
func (l *Listener) Stream() bool { return l.Protocol == "TLS" || l.Protocol == "TCP" || l.Datagrams() }

// Datagrams reports whether a listener forwards datagrams.
func (l *Listener) Datagrams() bool { return l.Protocol == "UDP" }

// Socket returns the socket that Envoy binds for the listener.
func (l *Listener) Socket() Socket { return Socket{UDP: l.Datagrams(), Port: l.Port} }

// ByName reports whether the TLS server name (SNI) selects a connection's filter chain.
func (l *Listener) ByName() bool { return l.Protocol == "HTTPS" || l.Protocol == "TLS" }

// AllowedRoutes restricts which routes may attach to a listener.
type AllowedRoutes struct {
	Kinds    []report.Ref // Group and Kind only
	From     string       // All, Same, Selector or None
	Selector string       // labels.Selector as text, for From "Selector"
}

// Port is a socket that Envoy binds: for all listeners on a TCP port, or for the one listener on a
// UDP port.
type Port struct {
	Gateway   string // "namespace/name"
	Number    uint16
	Datagrams ClusterID // the cluster of a UDP port's backends; zero for TCP
	Addresses []string
	Edge      Edge
	Chains    []Chain  // sorted by name
	Streams   []Stream // sorted by name
	Owners    []report.Ref
}

// Edge configures how an Envoy listener treats clients. Empty fields mean the defaults of
// v1alpha1.FleetClients.
type Edge struct {
	RequestTimeout time.Duration // 0: no timeout
	Streams        uint32        // limit of an HTTP/2 connection; 0: the default
	EscapedSlashes v1alpha1.EscapedSlashes
	Underscores    v1alpha1.HeadersWithUnderscores
	HTTP10         v1alpha1.HTTP10
	RequestIDs     v1alpha1.RequestIDs
	TrustedHops    uint32
	ProxyProtocol  v1alpha1.ProxyProtocol
	Uploads        int64 // in bytes: limit of all large request bodies in one Envoy together
}

// UploadsOf returns Edge.Uploads, in bytes, for an Envoy with this memory limit, in bytes. The
// result is half of Envoy's heap limit, and the heap limit is nine tenths of the memory.
func UploadsOf(memory int64) int64 { return memory / 20 * 9 }

// DefaultMemory is an Envoy's memory limit, in bytes, if no EnvoyFleet sets a limit.
const DefaultMemory = 1 << 30

// DefaultRequestTimeout is the default of Edge.RequestTimeout. Hops (internal listeners) always
// have this timeout.
const DefaultRequestTimeout = 10 * time.Minute

// Socket returns the socket that Envoy binds.
func (p *Port) Socket() Socket { return Socket{UDP: !p.Datagrams.IsZero(), Port: p.Number} }

// Stream is the target of a UDP listener, of a TCP listener, or of one server name of a TLS
// listener.
type Stream struct {
	Name       string // result of StreamName or DatagramName
	TLS        bool   // the server name (SNI) selects the stream
	ServerName string // "" for any
	Secrets    []string
	// Backends share the connections or datagrams. Envoy closes or drops a backend's share if the
	// backend has no Cluster.
	Backends []WeightedBackend
	Owners   []report.Ref
}

// Chain is a filter chain for HTTP, with its route configuration.
type Chain struct {
	Name       string // result of ChainName
	ServerName string // SNI, such as "example.com" or "*.example.com"; "" for cleartext, and with TLS for every name
	TLS        bool
	Secrets    []string // SDS names, for TLS
	Clients    *ClientValidation
	// Misdirected lists the hostnames of other HTTPS and TLS listeners on the port. A request for
	// such a hostname gets 421 (Gateway API, "Listener isolation and connection coalescing").
	Misdirected []string
}

// Place is a route's attachment to one listener.
type Place struct {
	Gateway  string // "namespace/name"
	Listener string // Key of the Listener
	// Chain of the Listener; "" if the Listener takes no traffic
	Chain        string
	Stream       bool // the Listener forwards connections or datagrams
	Passthrough  bool // TLS is not terminated
	ListenerHost string
	Narrow       bool // Envoy's virtual hosts for more specific hostnames do not repeat the route
	// Hosts are the hostnames of both the route and the Listener, sorted.
	Hosts []string
}

// Candidate is a route with the listeners to which it may attach. It does not depend on other
// routes.
type Candidate struct {
	Route report.Ref
	// Created is the creation time in Unix seconds. It is 0 for routes from files. Of two routes
	// with equal matches, the older one wins (HTTPRouteRule).
	Created int64
	// Hostnames are in lower case and sorted; ["*"] if the route has none.
	Hostnames []string
	Parents   []CandidateParent
	Findings  []report.Finding
}

// CandidateParent is a parentRef to a Gateway that Penstock configures.
type CandidateParent struct {
	Field       string // JSON path
	Ref         report.ParentRef
	Places      []Place           // sorted; empty if NotAccepted is set
	NotAccepted *report.Condition // nil if the route attaches
}

// Loss records why a route does not get a listener, or a whole filter chain.
type Loss struct {
	Route    report.Ref
	Gateway  string // "namespace/name"
	Listener string // "" for all of Chain
	Chain    string // set if Over is set
	Host     string
	Winner   report.Ref
	Over     string // the budget and the route's cost, in words
	// Gate is the AccessPolicy for which the route is dropped: access checks cannot read the
	// route's connections.
	Gate   string
	Copies bool // the route is only missing at more specific hostnames
}

// Attachment is the result of translating a route.
type Attachment struct {
	Route     report.Ref
	Created   int64    // as Candidate.Created
	Hostnames []string // as Candidate.Hostnames
	Places    []Place
	Rules     []Rule
	Parents   []report.Parent
	Findings  []report.Finding
	// Backends lists the objects that the rules name, as store.TargetKey.
	Backends []string
	// Clusters and Hops are all that the rules need, sorted.
	Clusters []ClusterID
	Hops     []HopID
}

// Rule is one rule of a route: alternative matches with one action.
type Rule struct {
	Name    string
	Index   int     // position in the route, for messages; never part of a name
	Matches []Match // empty in routes of connections
	Action  Action
	// Expressions is the cost of the matches in each virtual host. Envoy compiles a regular
	// expression once for each Envoy route that has it.
	Expressions Expressions
}

// VirtualHost is a virtual host of a filter chain, with its routes in Envoy's order.
type VirtualHost struct {
	Gateway string
	Chain   string
	Host    string // "*", "example.com" or "*.example.com"
	// Listener is the ListenerKey of the listener with this hostname.
	Listener string
	Routes   []Route
	Owners   []report.Ref // routes, the Gateway, and AccessPolicies
	// Gates are the AccessPolicies that all Routes have in common. They also decide about requests
	// that match no route, before the virtual host answers these.
	Gates []string
	// ByModel makes Envoy answer 400 to a body in which model servers might find another model than
	// Envoy.
	ByModel bool
}

// Route is one match of a rule, in a virtual host.
type Route struct {
	Name     string // unique in its virtual host
	Owner    report.Ref
	Rule     int // position in the HTTPRoute, for explanations
	RuleName string
	Match    Match
	Action   *Action
	// Gates are the AccessPolicies that must all permit a request, the outermost first.
	Gates []string
	// ExactUsage means that streamed responses must report their token usage (AccessPolicy.usage).
	ExactUsage bool
	// Watched means that a request in flight is ended once Gates would deny it
	// (AccessPolicy.revoke).
	Watched bool
	// Reaches lists, sorted, all that the requests may reach: InferencePools ("namespace/name"),
	// imports ("namespace/name@"), and AnythingElse. It is empty without AccessPolicies.
	Reaches []string
	// ByModel is set if one of Gates depends on the model. Then the body is read for the model's
	// name.
	ByModel bool
}

// AnythingElse stands for Services and unresolved backends in Route.Reaches.
const AnythingElse = "*"
