package model

import "time"

// Mirror sends copies of requests to another backend, whose answers are dropped.
type Mirror struct {
	Cluster ClusterID
	Backend string // store.TargetKey, for explanations
	// Of Denominator requests, Numerator are copied: at least one, at most all.
	Numerator, Denominator uint32
}

// CORS is an HTTPCORSFilter.
type CORS struct {
	Origins     []string // lower case: "https://a.com", "https://*.a.com:8443" or "*"; without default ports
	Methods     []string // or "*" alone
	Headers     []string // or "*" alone
	Expose      []string // response headers
	Credentials bool
	MaxAge      time.Duration
}

// ExternalAuth asks a service about each request. Without an answer, the request does not proceed.
type ExternalAuth struct {
	Cluster ClusterID
	Backend string // store.TargetKey, for explanations
	GRPC    bool   // Envoy's ext_authz protocol. false: HTTP, where 200 lets a request pass
	Path    string // HTTP: prefix of paths
	// Headers lists, in lower case, the headers that the service receives. An empty list means all
	// headers with gRPC, and the standard headers with HTTP.
	Headers []string
	// Copied lists the headers that the backend receives from an HTTP answer. An empty list means
	// all but Host.
	Copied []string
	// MaxBody limits the body that the service receives, in bytes; larger requests get 413. With 0
	// the service receives no body.
	MaxBody uint32
}

// OwnFilters are filters of a backendRef that Envoy supports only for whole routes, so the backend
// gets a route of its own. OwnFilters override the rule's filters of the same type; mirrors add up.
type OwnFilters struct {
	Redirect    *Redirect // answers the requests of the backend's share
	RewritePath PathChange
	Mirrors     []Mirror
	CORS        *CORS
	Auth        *ExternalAuth
}

// Session keeps a client at the endpoint that served it first (SessionPersistence). With an import
// it keeps the client at the exporting cluster.
type Session struct {
	Name    string        // name of the cookie or header
	Header  bool          // the session is in a header, otherwise in a cookie
	Path    string        // path of the cookie
	Timeout time.Duration // time since the session's start; 0: as long as the browser runs
}
