package model

import "time"

// Mirror sends copies of requests to another backend, whose answers are dropped.
type Mirror struct {
	Cluster ClusterID
	Backend string // a store.TargetKey, for explanations
	// Numerator of Denominator requests are copied: at least one, at most all.
	Numerator, Denominator uint32
}

// CORS answers preflight requests and lists the origins whose pages may read an answer
// (HTTPCORSFilter).
type CORS struct {
	Origins     []string // lower case: "https://a.com", "https://*.a.com:8443" or "*"; without default ports
	Methods     []string // or "*" alone
	Headers     []string // or "*" alone
	Expose      []string
	Credentials bool
	MaxAge      time.Duration
}

// ExternalAuth asks a service about each request. Without an answer, the request does not proceed.
type ExternalAuth struct {
	Cluster ClusterID
	Backend string // a store.TargetKey, for explanations
	GRPC    bool   // Envoy's ext_authz protocol; else HTTP, where 200 lets a request pass
	Path    string // prefix of paths, for HTTP
	// Headers lists, in lower case, the headers that the service receives, over HTTP in addition to
	// standard headers. An empty list means all headers with gRPC, and only the standard headers
	// with HTTP.
	Headers []string
	// Copied lists the headers of an HTTP answer that the backend receives. An empty list means all
	// but Host.
	Copied []string
	// MaxBody limits the body that the service receives, in bytes; larger requests get 413. 0 means
	// that the service receives no body.
	MaxBody uint32
}

// OwnFilters are filters of a backendRef that Envoy supports only for whole routes: the backend
// gets a route of its own, with its share of the requests. They override the rule's filters of the
// same type; mirrors add up.
type OwnFilters struct {
	Redirect    *Redirect
	RewritePath PathChange
	Mirrors     []Mirror
	CORS        *CORS
	Auth        *ExternalAuth
}

// Session keeps a client at the endpoint that served it first (SessionPersistence). For an import
// it keeps the client at the exporting cluster, whose picker keeps the client at a server.
type Session struct {
	Name    string // of the cookie or header
	Header  bool
	Path    string        // of the cookie
	Timeout time.Duration // since the session's start; 0: as long as the browser runs
}
