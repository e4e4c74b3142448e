package model

import (
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// PathKind selects how a path is compared.
type PathKind string

// The kinds are in order of precedence.
const (
	PathExact PathKind = "Exact"
	PathRegex PathKind = "RegularExpression" // matches the whole path
	// PathPrefix compares by elements: /a matches /a and /a/b, not /ab.
	PathPrefix PathKind = "PathPrefix"
)

// PathBeginning is for an Overrun. It matches paths that begin with the text before the first
// operator of the regular expression.
const PathBeginning PathKind = "RegularExpression, its beginning alone"

// Match is an HTTPRouteMatch or GRPCRouteMatch; all parts must hold.
type Match struct {
	PathKind PathKind
	Path     string
	Method   string // HTTP method; "" for any
	// Names are in lower case. Of equal names, the first counts (specification).
	Headers []ValueMatch
	Query   []ValueMatch
	GRPC    *GRPCMethod // for GRPCRoutes, which match only gRPC requests; Path contains both names
}

// GRPCMethod is a GRPCMethodMatch.
type GRPCMethod struct{ Service, Method string }

// ValueMatch matches a header or query parameter.
type ValueMatch struct {
	Name    string
	Regex   bool
	Present bool // any value matches, for an Overrun
	Value   string
	Written string // the user's text, if Value is its form on the wire
}

// Action has exactly one of Redirect, Direct and Forward.
type Action struct {
	Redirect *Redirect
	Direct   *Direct
	Forward  *Forward

	RequestHeaders  HeaderChanges
	ResponseHeaders HeaderChanges
	CORS            *CORS
	Auth            *ExternalAuth
}

// Header is a header field.
type Header struct{ Name, Value string }

// HeaderChanges changes headers: Set replaces, Add appends, Remove removes.
type HeaderChanges struct {
	Set, Add []Header
	Remove   []string
}

// PathChange replaces a path or its matched prefix; at most one field is set.
type PathChange struct {
	Full   *string
	Prefix *string // replaces Match.Path, element-wise (HTTPPathModifier)
}

// Redirect is an answer with a Location.
type Redirect struct {
	Scheme string // "" keeps the request's scheme
	Host   string // "" keeps the request's host
	Port   uint16 // 0: Scheme's well-known port; without Scheme, the listener's port
	Path   PathChange
	Code   uint32 // 301, 302, 303, 307, 308
}

// Direct is an answer without a backend.
type Direct struct {
	Status uint32
	Body   string // for the caller; may be empty
}

// Forward sends the request to one of several backends.
type Forward struct {
	Backends []WeightedBackend
	// Rule holds the whole rule's backends if Backends are only a share of them.
	Rule           []WeightedBackend
	RewriteHost    string
	RewritePath    PathChange
	Timeout        *time.Duration // 0: no timeout
	BackendTimeout *time.Duration // limit of one attempt
	Retry          *Retry
	Mirrors        []Mirror
	Session        *Session
}

// Retry is a user's retry rule.
type Retry struct {
	Attempts uint32
	Codes    []uint32
	Backoff  time.Duration // 0: our default
}

// HopOrder is how Envoy tries the hops to an import's exporting clusters.
type HopOrder struct {
	// Largest is the number of hops in the largest priority.
	Priorities, Largest uint32
	// InOrder gives each hop its own priority.
	InOrder bool
}

// RetryOn lists failures after which a request is sent to another exporting cluster although a
// model server may have begun it.
type RetryOn struct {
	Full        bool // a server answers 429
	Unavailable bool // 503, or a connection to a server ends before the answer
	LostGateway bool // the connection to a member's gateway ended before the answer
}

// WeightedBackend is a share of a rule's requests.
type WeightedBackend struct {
	Cluster ClusterID   // zero: unresolved, its share gets 500 (specification)
	Backend string      // store.TargetKey, for explanations
	Weight  uint32      // a rule's sum is at most 2^32-1
	Picker  *PickerCall // nil for a Service
	Hops    bool        // for FallbackHops; Picker is then nil
	// Members is set for a cluster with FallbackMembers: the targets of its hops. If Members is
	// set, Picker is nil or selects hops. Spills is how many of the hops lead to spill targets.
	Members []WeightedBackend
	Spills  uint32
	Order   HopOrder // order of Members
	RetryOn RetryOn
	// External is set if Envoy asks an external picker, here or behind the first hop.
	External bool
	// MaxGateways limits how many gateways a request may have passed through, in ParentMode.
	MaxGateways uint32
	// Peer replaces the client's authority at peer listeners.
	Peer string
	// Hop is the hop in front of an exporting cluster of an import, even if requests bypass it.
	Hop HopID

	RequestHeaders  HeaderChanges
	ResponseHeaders HeaderChanges
	RewriteHost     string      // "": Forward.RewriteHost
	Own             *OwnFilters // nil: none
}

// Imported reports whether the backend is an import or an exporting cluster of one.
func (w *WeightedBackend) Imported() bool { return !w.Hop.IsZero() || len(w.Members) > 0 }

// BodyMode selects how much of a request's body the picker receives.
type BodyMode string

// None and Buffered are for our picker; Duplex (FULL_DUPLEX_STREAMED) is for external pickers.
// Duplex requires that a picker sends bodies back. Whole is for external pickers that do not. They
// receive the body in one piece, within their message limit (4 MiB by default).
const (
	BodyNone     BodyMode = "None"
	BodyBuffered BodyMode = "Buffered"
	BodyDuplex   BodyMode = "Duplex"
	BodyWhole    BodyMode = "Whole"
)

// EndsStreams reports whether the picker ends its call when it does not need a request's body.
func (p *PickerCall) EndsStreams() bool { return p.Body == BodyBuffered && !p.Served }

// PickerNames are the names with which Envoy and an external picker exchange endpoints.
type PickerNames struct {
	Destination string // metadata key of a pick, and its header
	Namespace   string // metadata namespace of picks, and of the endpoint that served
	Subset      string // namespace of the list of endpoints to choose from
}

// ProtocolNames returns the names of the endpoint picker protocol.
func ProtocolNames() PickerNames {
	return PickerNames{"x-gateway-destination-endpoint", "envoy.lb", "envoy.lb.subset_hint"}
}

// Subset restricts the endpoints that a pool's picker may choose.
type Subset struct {
	// Selector is a label selector as text, for our picker (x-penstock-subset).
	Selector string
	// Addresses are the endpoints that match now, sorted, for external pickers; nil for our picker.
	Addresses []string
	// Elsewhere is set if the hop to the pool itself (Pool.PicksAgain) picks without the subset.
	// The hop then serves no request of the subset.
	Elsewhere bool
}

// PickerCall configures how Envoy asks for an endpoint.
type PickerCall struct {
	Cluster ClusterID
	// Names is nil for the names of the endpoint picker protocol.
	Names  *PickerNames
	Subset *Subset // nil: all endpoints
	// Pool is also set for a pool with an external picker: our picker relays the requests whose
	// bodies no picker receives (envoy's bodyless).
	Pool objectid.Target
	// RemotePool is the pool's name at another cluster's picker; "" is not sent.
	RemotePool string
	Body       BodyMode
	// Served makes Envoy send the picker the response headers, and the endpoint that served
	// (endpoint picker protocol).
	Served     bool
	TokenUsage bool // for metrics
	// ResponseIDs makes Envoy read the IDs of responses that servers store.
	ResponseIDs bool
	Spills      bool // immediate responses count as "no pick"
	// Spill lists the HopID.Address values that our picker may return besides pods, in order.
	Spill []string
	// With Open, our picker may return any endpoint if the picker that it relays to returns none.
	// It has no effect with Closed or Subset.
	Open bool
	// With Closed, a request fails, in every failure mode, if the picker picks nothing. The request
	// then moves on to another cluster.
	Closed bool
	// Again is set for a cluster with a hop to the pool itself (Pool.PicksAgain).
	Again bool
	// Last is set for the call of a hop: its picker does not spill.
	Last bool
}
