package model

import "time"

// Mirror sends copies of requests to a further backend, whose answers are dropped.
type Mirror struct {
	Cluster ClusterID
	Backend string // store.TargetKey of the object, for explanations
	// Numerator of Denominator requests are copied: at least one, at most all.
	Numerator, Denominator uint32
}

// CORS answers preflight requests and names the origins whose pages may read an answer (Gateway
// API, HTTPCORSFilter).
type CORS struct {
	Origins     []string // "https://a.com", "https://*.a.com:8443" or "*", in lower case, without a scheme's own port
	Methods     []string // or "*" alone
	Headers     []string // or "*" alone
	Expose      []string // response headers
	Credentials bool
	MaxAge      time.Duration
}

// ExternalAuth asks a service about each request before it goes on. Without an answer the request
// does not.
type ExternalAuth struct {
	Cluster ClusterID
	Backend string // store.TargetKey of the object, for explanations
	GRPC    bool   // Envoy's ext_authz protocol; else HTTP, where 200 lets a request pass
	Path    string // HTTP: what paths are prefixed with
	// Headers are those of the request that the service sees, in lower case; with HTTP beside those
	// that it always sees. None: with GRPC all, with HTTP no more.
	Headers []string
	// Copied are the headers of an HTTP answer that the backend gets; none: all but Host.
	Copied []string
	// MaxBody is how much of a body the service is sent, in bytes; requests with larger bodies are
	// answered 413. 0: none is sent.
	MaxBody uint32
}

// OwnFilters are filters of one backendRef that Envoy has for whole routes only: such a backend
// gets a route of its own, which takes its share of the requests. Where a rule has the same filter,
// this one counts; mirrors add up.
type OwnFilters struct {
	Redirect    *Redirect // answers its share; the backend gets none
	RewritePath PathChange
	Mirrors     []Mirror
	CORS        *CORS
	Auth        *ExternalAuth
}

// Session keeps a client at the endpoint that served it first (Gateway API, SessionPersistence); of
// an import, at the exporting cluster, whose picker keeps it at a server.
type Session struct {
	Name    string        // of the cookie or header
	Header  bool          // in a header that the client repeats; else in a cookie
	Path    string        // the cookie's
	Timeout time.Duration // when a session ends, counted from its beginning; 0: with the browser
}
