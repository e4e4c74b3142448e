package model

import (
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// PathKind is how a path is compared.
type PathKind string

// The kinds of path match, strongest first. The specification leaves open where regular expressions
// stand; behind prefixes, any rule for "/" would hide them.
const (
	PathExact PathKind = "Exact"
	PathRegex PathKind = "RegularExpression" // matches the whole path
	// element-wise: /a matches /a and /a/b, not /ab; no '/' at the end but in "/"
	PathPrefix PathKind = "PathPrefix"
)

// PathBeginning is how the path of an Overrun is compared: the text before the first operator of
// its regular expression. It has the rank of the expression.
const PathBeginning PathKind = "RegularExpression, its beginning alone"

// Match is one HTTPRouteMatch or GRPCRouteMatch: all of its parts must hold.
type Match struct {
	PathKind PathKind
	Path     string
	Method   string // of HTTP; "" any
	// names in lower case; the first of equal names counts (specification); in the order of the
	// spec
	Headers []ValueMatch
	Query   []ValueMatch
	GRPC    *GRPCMethod // set in matches of GRPCRoutes, which only gRPC requests meet; the path means the same
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
	Written string // as the user wrote it, where Value has the forms in which clients send that; else ""
}

// Action is what a rule does with a request: exactly one of Redirect, Direct and Forward is set.
type Action struct {
	Redirect *Redirect
	Direct   *Direct
	Forward  *Forward

	RequestHeaders  HeaderChanges
	ResponseHeaders HeaderChanges
	CORS            *CORS
	Auth            *ExternalAuth
}

// Header is a name and a value.
type Header struct{ Name, Value string }

// HeaderChanges changes headers: Set replaces, Add appends, Remove removes.
type HeaderChanges struct {
	Set, Add []Header
	Remove   []string
}

// PathChange replaces a path whole, or the matched prefix of it. At most one is set.
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

// Direct answers by itself.
type Direct struct {
	Status uint32
	Body   string // a sentence for the caller; may be empty
}

// Forward sends the request to one of several backends.
type Forward struct {
	Backends []WeightedBackend
	// Rule are the backends of the whole rule where Backends are a share of them; nil: Backends.
	Rule           []WeightedBackend
	RewriteHost    string
	RewritePath    PathChange
	Timeout        *time.Duration // whole request; nil: the default of the backends' kind; 0: none
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

// HopOrder is in which order the hops to the exporting clusters of an import are tried.
type HopOrder struct {
	// Priorities is how many there are, and Largest how many hops the largest has.
	Priorities, Largest uint32
	// InOrder: each hop has a priority of its own, those to where the import spills too.
	InOrder bool
}

// RetryOn is what has a request sent to another exporting cluster of an import beside what no
// server can have begun. The zero value is nothing.
type RetryOn struct {
	Full        bool // an answer 429 of a server
	Unavailable bool // an answer 503, and a connection to a server that ends before its answer
	LostGateway bool // a connection to a member's gateway that ends before the answer
}

// WeightedBackend is one share of a rule's requests.
type WeightedBackend struct {
	Cluster ClusterID   // zero answers 500: a backend that could not be resolved keeps its share (specification)
	Backend string      // store.TargetKey of the object, for explanations
	Weight  uint32      // the exact share; the sum of a rule's weights is at most 2^32-1
	Picker  *PickerCall // nil: a Service
	Hops    bool        // the cluster has FallbackHops: 429 and 503 move a request on to the next hop; Picker is nil
	// Members are, of a cluster with FallbackMembers, what its hops to exporting clusters send to;
	// Picker is nil unless it names hops. Spills is how many further hops the cluster has.
	Members []WeightedBackend
	Spills  uint32
	Order   HopOrder // of Members
	RetryOn RetryOn
	// External: a picker that is not ours is asked, also behind the first of Hops.
	External bool
	// MaxGateways is, for a cluster of gateways (ParentMode), how many a request may have passed
	// through; else 0.
	MaxGateways uint32
	// Peer is the authority of requests to a cluster of peer listeners, which replaces the client's
	// own; "" for other clusters.
	Peer string
	// Hop is the hop in front of the exporting cluster of an import that the backend is, also if
	// requests do not pass through it; zero for other backends, and for an import with Members,
	// which have theirs.
	Hop HopID

	RequestHeaders  HeaderChanges
	ResponseHeaders HeaderChanges
	RewriteHost     string      // "": the rule's
	Own             *OwnFilters // nil: none
}

// Imported reports whether the backend is an import, or an exporting cluster of one.
func (w *WeightedBackend) Imported() bool { return !w.Hop.IsZero() || len(w.Members) > 0 }

// BodyMode is how much of a request's body its picker sees.
type BodyMode string

// The body modes. None and Buffered are for our own picker; Duplex (FULL_DUPLEX_STREAMED) is for
// external ones. Whole is for those of them that do not send bodies back, as FULL_DUPLEX_STREAMED
// demands: they get the body in one piece (which must not be larger than the messages that they
// take, 4 MiB by default), with the headers, and answer both.
const (
	BodyNone     BodyMode = "None"
	BodyBuffered BodyMode = "Buffered"
	BodyDuplex   BodyMode = "Duplex"
	BodyWhole    BodyMode = "Whole"
)

// EndsStreams reports whether the picker itself ends its call for a request whose body it does not
// read, so that Envoy need not know which these are: ours does so, unless it must follow the
// response for another picker.
func (p *PickerCall) EndsStreams() bool { return p.Body == BodyBuffered && !p.Served }

// PickerNames are the names by which Envoy and an external picker exchange endpoints.
type PickerNames struct {
	Destination string // key of the metadata, and header
	Namespace   string // of the metadata, and of the endpoint that served
	Subset      string // namespace of the endpoints among which the picker must choose
}

// ProtocolNames are those of the endpoint picker protocol.
func ProtocolNames() PickerNames {
	return PickerNames{"x-gateway-destination-endpoint", "envoy.lb", "envoy.lb.subset_hint"}
}

// Subset is the endpoints of a pool among which its picker must choose. It must not be changed.
type Subset struct {
	// Selector is the labels that they have, as text of a label selector. Our picker gets it, in
	// the gRPC metadata x-penstock-subset.
	Selector string
	// Addresses are those that match now, sorted. External pickers get them (endpoint picker
	// protocol); nil for ours.
	Addresses []string
	// Elsewhere is set if the hop to the pool itself (Pool.PicksAgain) picks without the subset.
	// Then it serves no such request.
	Elsewhere bool
}

// PickerCall is how Envoy asks for an endpoint.
type PickerCall struct {
	Cluster ClusterID // of the picker
	// Names are those by which the picker names endpoints; nil: those of the endpoint picker
	// protocol.
	Names  *PickerNames
	Subset *Subset // nil: the picker chooses among all endpoints of the pool
	// Pool is the pool's name at our picker. Of a pool with an external picker too: ours relays the
	// requests whose bodies no picker gets (see envoy's bodyless), because one that waits for
	// bodies would never answer headers alone.
	Pool objectid.Target
	// RemotePool is the pool's name at a picker of another cluster that serves several; "" if that
	// one is not asked by name.
	RemotePool string
	Body       BodyMode
	// Served sends the response's headers to the picker, with the endpoint that served (endpoint
	// picker protocol): to external ones, also behind ours, and to ours if its strategy answers
	// them.
	Served     bool
	TokenUsage bool // Envoy reads the token usage of responses, for metrics
	// ResponseIDs: Envoy reads the IDs of responses that servers keep, for picks of the requests
	// that follow them.
	ResponseIDs bool
	Spills      bool // the pool has somewhere to spill: immediate responses count as "no pick"
	// Spill is what our picker may name beside the pool's pods, in order, as HopID.Address; it is
	// sent in the gRPC metadata x-penstock-spill (comma-separated).
	Spill []string
	// Open: our picker, which relays to another one, names any endpoint that it knows if that one
	// names none (x-penstock-open). Not with Closed or Subset.
	Open bool
	// Closed: a request without a pick fails, whatever the pool's failure mode is. Another cluster
	// serves it.
	Closed bool
	// Again: the cluster has a hop to the pool itself (Pool.PicksAgain).
	Again bool
	// Last marks a hop's own call (x-penstock-last), which has nothing to spill to: that is how
	// spilling ends. Any other call without Spill for a pool that spills is one of routes that do
	// not know of it yet.
	Last bool
}
