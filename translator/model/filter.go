package model

import "time"

// Mirror sends copies of requests to another backend, whose answers Envoy drops.
type Mirror struct {
	Cluster ClusterID
	Backend string // store.TargetKey, for explanations
	// Numerator of each Denominator requests are copied: at least one, at most all.
	Numerator, Denominator uint32
}

// CORS is an HTTPCORSFilter.
type CORS struct {
	Origins     []string // lower case, without default port: "https://a.com", "https://*.a.com:8443"; or "*"
	Methods     []string // or "*" alone
	Headers     []string // or "*" alone
	Expose      []string // response headers
	Credentials bool
	MaxAge      time.Duration
}

// ExternalAuth configures a service that permits or denies each request. If the service does not
// answer, the request is denied.
type ExternalAuth struct {
	Cluster ClusterID
	Backend string // store.TargetKey, for explanations
	GRPC    bool   // Envoy's ext_authz protocol; false: HTTP, where status 200 permits the request
	Path    string // for HTTP: prefix of the path
	// Headers lists, in lower case, the headers that the service receives. An empty list means all
	// headers with gRPC, and the standard headers with HTTP.
	Headers []string
	// Copied lists the headers of the service's HTTP answer that the backend receives. An empty
	// list means all but Host.
	Copied []string
	// MaxBody limits the request body that the service receives, in bytes; larger requests get 413.
	// 0 means that the service receives no body.
	MaxBody uint32
}

// OwnFilters are filters of one backendRef that Envoy supports only for whole routes. So the
// backend gets a route of its own. OwnFilters override the rule's filters of the same type; mirrors
// add up.
type OwnFilters struct {
	Redirect    *Redirect // answers the backend's share of the requests
	RewritePath PathChange
	Mirrors     []Mirror
	CORS        *CORS
	Auth        *ExternalAuth
}

// Session configures SessionPersistence: a client's requests go to the endpoint that served its
// first request. With an import, they go to the same exporting cluster.
type Session struct {
	Name    string
	Header  bool          // false: a cookie
	Path    string        // path of the cookie
	Timeout time.Duration // since the session's start; 0: until the browser ends
}
