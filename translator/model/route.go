package model

import (
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// PathKind selects how Envoy compares a path.
type PathKind string

// The kinds are in order of precedence, highest first.
const (
	PathExact PathKind = "Exact"
	PathRegex PathKind = "RegularExpression" // matches the whole path
	// PathPrefix compares path segments: /a matches /a and /a/b, not /ab.
	PathPrefix PathKind = "PathPrefix"
)

// PathBeginning replaces PathRegex in an Overrun. It matches paths that begin with the text before
// the first operator of the regular expression.
const PathBeginning PathKind = "RegularExpression, its beginning alone"

// Match is an HTTPRouteMatch or GRPCRouteMatch. A request must match all fields that are set.
type Match struct {
	PathKind PathKind
	Path     string
	Method   string // HTTP method; "" for any
	// Header names are in lower case. Of equal names, only the first counts (Gateway API).
	Headers []ValueMatch
	Query   []ValueMatch
	GRPC    *GRPCMethod // for GRPCRoutes, which match only gRPC requests; Path contains service and method
}

// GRPCMethod is a GRPCMethodMatch.
type GRPCMethod struct{ Service, Method string }

// ValueMatch matches a header or query parameter.
type ValueMatch struct {
	Name    string
	Regex   bool
	Present bool // any value matches; only in an Overrun
	Value   string
	Written string // the user's text if it differs from Value; "" otherwise
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

// HeaderChanges replaces the headers in Set, appends to the headers in Add, and removes the headers
// in Remove.
type HeaderChanges struct {
	Set, Add []Header
	Remove   []string
}

// PathChange replaces the whole path or its matched prefix. At most one field is set; without one,
// the path stays.
type PathChange struct {
	Full   *string
	Prefix *string // replaces Match.Path, by path segments (HTTPPathModifier)
}

// Redirect is a response with a Location header.
type Redirect struct {
	Scheme string // "" keeps the request's scheme
	Host   string // "" keeps the request's host
	Port   uint16 // 0: the well-known port of Scheme; without Scheme, the listener's port
	Path   PathChange
	Code   uint32 // 301, 302, 303, 307, 308
}

// Direct is a response that Envoy sends itself.
type Direct struct {
	Status uint32
	Body   string
}

// Forward sends each request to one of several backends.
type Forward struct {
	Backends []WeightedBackend
	// Rule has all backends of the rule, if Backends are only a share of them.
	Rule           []WeightedBackend
	RewriteHost    string
	RewritePath    PathChange
	Timeout        *time.Duration // 0: no timeout
	BackendTimeout *time.Duration // limit of one attempt
	Retry          *Retry
	Mirrors        []Mirror
	Session        *Session
}

// Retry is the retry setting of an HTTPRoute's rule.
type Retry struct {
	Attempts uint32
	Codes    []uint32
	Backoff  time.Duration // 0: Penstock's default
}

// HopOrder configures the order in which Envoy tries the exporting clusters of an import.
type HopOrder struct {
	// Priorities is the number of Envoy priorities, and Largest the number of hops in the largest
	// one.
	Priorities, Largest uint32
	// InOrder means that each hop has a priority of its own.
	InOrder bool
}

// RetryOn lists the failures after which a request is sent to another exporting cluster, although a
// model server may have begun to process it.
type RetryOn struct {
	Full        bool // a server answered 429
	Unavailable bool // a server answered 503, or a connection to a server ended before the response
	LostGateway bool // the connection to a member's gateway ended before the response
}

// WeightedBackend is a backend with its share of a rule's requests.
type WeightedBackend struct {
	Cluster ClusterID   // zero: unresolved, its share gets 500 (Gateway API)
	Backend string      // store.TargetKey, for explanations
	Weight  uint32      // the sum in a rule is at most 2^32-1
	Picker  *PickerCall // nil for a Service
	Hops    bool        // the cluster has FallbackHops; Picker is then nil
	// Members lists the targets of the cluster's hops, for a cluster with FallbackMembers. Picker
	// then is nil or selects a hop. Spills is the number of hops that lead to spill targets.
	Members []WeightedBackend
	Spills  uint32
	Order   HopOrder // order of Members
	RetryOn RetryOn
	// External is set if Envoy calls an external picker, for this backend or for the first of its
	// hops.
	External bool
	// MaxGateways limits, in ParentMode, how many gateways a request may have passed before.
	MaxGateways uint32
	// Peer replaces the client's authority, for requests to peer listeners; "" keeps it.
	Peer string
	// Hop is the hop to an exporting cluster of an import, even if requests do not pass the hop.
	Hop HopID

	RequestHeaders  HeaderChanges
	ResponseHeaders HeaderChanges
	RewriteHost     string      // "": Forward.RewriteHost applies
	Own             *OwnFilters // nil: none
}

// Imported reports whether the backend is an import, or an exporting cluster of an import.
func (w *WeightedBackend) Imported() bool { return !w.Hop.IsZero() || len(w.Members) > 0 }

// BodyMode selects how much of a request's body the picker receives.
type BodyMode string

// BodyNone and BodyBuffered are for Penstock's picker, the others for external pickers. BodyDuplex
// (FULL_DUPLEX_STREAMED) requires that the picker sends bodies back. BodyWhole is for external
// pickers that do not. They receive the body in one message, within their message limit (4 MiB by
// default).
const (
	BodyNone     BodyMode = "None"
	BodyBuffered BodyMode = "Buffered"
	BodyDuplex   BodyMode = "Duplex"
	BodyWhole    BodyMode = "Whole"
)

// EndsStreams reports whether the picker ends its call to Envoy when it does not need a request's
// body.
func (p *PickerCall) EndsStreams() bool { return p.Body == BodyBuffered && !p.Served }

// PickerNames are the metadata and header names by which Envoy and an external picker exchange
// endpoints.
type PickerNames struct {
	Destination string // metadata key and header of the chosen endpoint
	Namespace   string // metadata namespace of the chosen endpoint, and of the endpoint that served
	Subset      string // metadata namespace of the list of allowed endpoints
}

// ProtocolNames returns the names of the endpoint picker protocol.
func ProtocolNames() PickerNames {
	return PickerNames{"x-gateway-destination-endpoint", "envoy.lb", "envoy.lb.subset_hint"}
}

// Subset restricts the endpoints that a pool's picker may choose.
type Subset struct {
	// Selector is a label selector as text, for Penstock's picker (x-penstock-subset).
	Selector string
	// Addresses are the endpoints that match now, sorted, for external pickers. For Penstock's
	// picker, Addresses is nil.
	Addresses []string
	// Elsewhere is set if the hop to the pool itself (Pool.PicksAgain) picks without the subset.
	// Then the hop serves no request of the subset.
	Elsewhere bool
}

// PickerCall configures how Envoy asks a picker for an endpoint.
type PickerCall struct {
	Cluster ClusterID
	// Names is nil for ProtocolNames.
	Names  *PickerNames
	Subset *Subset // nil: all endpoints
	// Pool is also set with an external picker. Penstock's picker then relays the requests whose
	// bodies no picker receives (bodyless in package envoy).
	Pool objectid.Target
	// RemotePool is the pool's name at another cluster's picker. Envoy does not send "".
	RemotePool string
	Body       BodyMode
	// Served makes Envoy send the picker the response headers and the endpoint that served the
	// request (endpoint picker protocol).
	Served     bool
	TokenUsage bool // Envoy reads the token usage in responses, for metrics
	// ResponseIDs makes Envoy read the IDs of responses that servers store.
	ResponseIDs bool
	Spills      bool // Envoy treats immediate responses of the picker like no pick, so the request spills
	// Spill lists the hops (HopID.Address) that Penstock's picker may return besides pods, in
	// order.
	Spill []string
	// With Open, Penstock's picker may return any endpoint, if the picker to which it relays
	// returns none. Open has no effect with Closed or Subset.
	Open bool
	// With Closed, a request for which the picker picks nothing fails, in every failure mode. The
	// request then goes to another cluster.
	Closed bool
	// Again is set if the cluster has a hop to the pool itself (Pool.PicksAgain).
	Again bool
	// Last is set for requests that came through a hop. The picker does not choose a spill target
	// for them.
	Last bool
}
