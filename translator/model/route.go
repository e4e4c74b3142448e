package model

import (
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// PathKind selects how a path is compared.
type PathKind string

// The kinds of path match, by descending rank. The specification leaves the rank of regular
// expressions open; if prefixes preceded them, any rule for "/" would hide them.
const (
	PathExact PathKind = "Exact"
	PathRegex PathKind = "RegularExpression" // matches the whole path
	// element-wise: /a matches /a and /a/b, not /ab; '/' ends no path but "/"
	PathPrefix PathKind = "PathPrefix"
)

// PathBeginning compares the path of an Overrun: the text before the first operator of its regular
// expression. It has the rank of the expression.
const PathBeginning PathKind = "RegularExpression, its beginning alone"

// Match is one HTTPRouteMatch or GRPCRouteMatch: all of its parts must hold.
type Match struct {
	PathKind PathKind
	Path     string
	Method   string // of HTTP; "" any
	// names in lower case, in the order of the spec; the first of equal names counts
	// (specification)
	Headers []ValueMatch
	Query   []ValueMatch
	GRPC    *GRPCMethod // set in matches of GRPCRoutes, which match only gRPC requests; the path means the same
}

// GRPCMethod is a GRPCMethodMatch as the user wrote it: its lengths order the matches of
// GRPCRoutes.
type GRPCMethod struct{ Service, Method string }

// ValueMatch matches a header or query parameter.
type ValueMatch struct {
	Name    string
	Regex   bool
	Present bool // of an Overrun: any value matches
	Value   string
	Written string // the user's text, if Value is its form on the wire; else ""
}

// Action is a rule's action: exactly one of Redirect, Direct and Forward is set.
type Action struct {
	Redirect *Redirect
	Direct   *Direct
	Forward  *Forward

	RequestHeaders  HeaderChanges
	ResponseHeaders HeaderChanges
	CORS            *CORS
	Auth            *ExternalAuth
}

type Header struct{ Name, Value string }

// HeaderChanges changes headers: Set replaces, Add appends, Remove removes.
type HeaderChanges struct {
	Set, Add []Header
	Remove   []string
}

// PathChange replaces a whole path or its matched prefix. At most one field is set.
type PathChange struct {
	Full   *string
	Prefix *string // replaces Match.Path, element-wise (specification: HTTPPathModifier)
}

// Redirect answers with a Location.
type Redirect struct {
	Scheme string // "" keeps the request's
	Host   string // "" keeps the request's
	Port   uint16 // 0: the scheme's well-known port if Scheme is set, else the listener's
	Path   PathChange
	Code   uint32 // 301, 302, 303, 307, 308
}

// Direct answers without a backend.
type Direct struct {
	Status uint32
	Body   string // a sentence for the caller; may be empty
}

// Forward sends the request to one of several backends.
type Forward struct {
	Backends []WeightedBackend
	// Rule holds the backends of the whole rule if Backends are only a share; nil if Backends are
	// all.
	Rule           []WeightedBackend
	RewriteHost    string
	RewritePath    PathChange
	Timeout        *time.Duration // whole request; nil: the default for the backends' kind; 0: none
	BackendTimeout *time.Duration // one attempt
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

// HopOrder is the order in which Envoy tries the hops to an import's exporting clusters.
type HopOrder struct {
	// Priorities is the number of priorities, Largest the number of hops in the largest one.
	Priorities, Largest uint32
	// InOrder gives each hop a priority of its own, including hops to spill targets.
	InOrder bool
}

// RetryOn lists failures that are retried on another exporting cluster, in addition to failures
// where no server can have started. The zero value adds none.
type RetryOn struct {
	Full        bool // a server's answer 429
	Unavailable bool // an answer 503, or a connection to a server that ends before its answer
	LostGateway bool // a connection to a member's gateway that ends before the answer
}

// WeightedBackend is one share of a rule's requests.
type WeightedBackend struct {
	Cluster ClusterID   // zero answers 500: an unresolved backend keeps its share (specification)
	Backend string      // store.TargetKey of the object, for explanations
	Weight  uint32      // the exact share; the sum of a rule's weights is at most 2^32-1
	Picker  *PickerCall // nil: a Service
	Hops    bool        // the cluster has FallbackHops: 429 and 503 move a request to the next hop; Picker is nil
	// Members are the targets of the hops to exporting clusters in a cluster with FallbackMembers;
	// Picker is nil unless it selects hops. Spills is the number of further hops.
	Members []WeightedBackend
	Spills  uint32
	Order   HopOrder // of Members
	RetryOn RetryOn
	// External is set if an external picker is asked, directly or behind the first of Hops.
	External bool
	// MaxGateways limits, for a cluster of gateways (ParentMode), how many gateways a request may
	// have passed through; else 0.
	MaxGateways uint32
	// Peer replaces the client's authority in requests to a cluster of peer listeners; "" for other
	// clusters.
	Peer string
	// Hop is the hop in front of the backend if that is an exporting cluster of an import, even if
	// requests bypass it. It is zero for other backends, and for an import with Members, which have
	// their own.
	Hop HopID

	RequestHeaders  HeaderChanges
	ResponseHeaders HeaderChanges
	RewriteHost     string      // "": the rule's
	Own             *OwnFilters // nil: none
}

// Imported reports whether the backend is an import or an exporting cluster of one.
func (w *WeightedBackend) Imported() bool { return !w.Hop.IsZero() || len(w.Members) > 0 }

// BodyMode selects how much of a request's body the picker receives.
type BodyMode string

// None and Buffered are for our picker; Duplex (FULL_DUPLEX_STREAMED) is for external ones. Whole
// is for external pickers that do not send bodies back, as FULL_DUPLEX_STREAMED requires: they
// receive the headers and the body in one piece, which must fit their message limit (4 MiB by
// default), and answer both.
const (
	BodyNone     BodyMode = "None"
	BodyBuffered BodyMode = "Buffered"
	BodyDuplex   BodyMode = "Duplex"
	BodyWhole    BodyMode = "Whole"
)

// EndsStreams reports whether the picker ends its call when it does not need a request's body, so
// that Envoy need not decide it. Ours does, unless it must follow the response for another picker.
func (p *PickerCall) EndsStreams() bool { return p.Body == BodyBuffered && !p.Served }

// PickerNames holds the names with which Envoy and an external picker exchange endpoints.
type PickerNames struct {
	Destination string // key of the metadata, and header
	Namespace   string // of the metadata, and of the endpoint that served
	Subset      string // namespace of the list of endpoints that the picker must choose from
}

// ProtocolNames returns the names of the endpoint picker protocol.
func ProtocolNames() PickerNames {
	return PickerNames{"x-gateway-destination-endpoint", "envoy.lb", "envoy.lb.subset_hint"}
}

// Subset restricts the endpoints of a pool that its picker may choose. It is immutable.
type Subset struct {
	// Selector is a label selector in text form. Our picker receives it in the gRPC metadata
	// x-penstock-subset.
	Selector string
	// Addresses match now, sorted. External pickers receive them (endpoint picker protocol); nil
	// for ours.
	Addresses []string
	// Elsewhere is set if the hop to the pool itself (Pool.PicksAgain) picks without the subset.
	// That hop then serves no request of the subset.
	Elsewhere bool
}

// PickerCall configures how Envoy asks for an endpoint.
type PickerCall struct {
	Cluster ClusterID // of the picker
	// Names are the picker's names for endpoints; nil for the endpoint picker protocol's.
	Names  *PickerNames
	Subset *Subset // nil: the picker chooses among all endpoints of the pool
	// Pool is the pool's name at our picker. It is set even for a pool with an external picker:
	// ours relays requests whose bodies no picker receives (see envoy's bodyless), because a picker
	// that waits for bodies would never answer headers alone.
	Pool objectid.Target
	// RemotePool is the pool's name at a picker of another cluster that serves several; "" if the
	// name is not sent.
	RemotePool string
	Body       BodyMode
	// Served sends response headers, with the endpoint that served, to the picker (endpoint picker
	// protocol). It applies to external pickers, also behind ours, and to ours if its strategy
	// answers them.
	Served     bool
	TokenUsage bool // Envoy reads the token usage of responses, for metrics
	// ResponseIDs makes Envoy read the IDs of responses that servers store, for picks of the
	// requests that follow up on them.
	ResponseIDs bool
	Spills      bool // the pool can spill: immediate responses count as "no pick"
	// Spill lists the HopID.Address values that our picker may return besides pods, in order. It is
	// sent, comma-separated, in the gRPC metadata x-penstock-spill.
	Spill []string
	// Open lets our picker return any endpoint that it has if the picker that it relays to returns
	// none (x-penstock-open). Not combined with Closed or Subset.
	Open bool
	// Closed makes a request without a pick fail, whatever the pool's failure mode is. Another
	// cluster serves it.
	Closed bool
	// Again is set if the cluster has a hop to the pool itself (Pool.PicksAgain).
	Again bool
	// Last marks a hop's own call (x-penstock-last). It has no spill target, which ends spilling.
	// Any other call without Spill, for a pool that spills, comes from an outdated route.
	Last bool
}
