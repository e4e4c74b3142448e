package jwks

import (
	"net/url"
	"strings"
)

// Source is where the keys of an issuer come from. Sources are comparable.
type Source struct {
	// Issuer is the iss claim of tokens. If URI and Inline are "", OpenID Connect discovery at the
	// issuer finds the URL of the set.
	Issuer string
	// URI is the URL of the set; Inline is the set itself.
	URI, Inline string
	// CA holds the CAs that a fetch trusts, in PEM; "" means the system's CAs.
	CA string
	// Token is a bearer token for the fetch, or "". It is sent only to the host of URI, or of
	// Issuer if URI is "".
	Token string `json:"-"`
}

// String describes the source without its token.
func (s Source) String() string {
	switch {
	case s.Inline != "":
		return "an inline set of " + s.Issuer
	case s.URI != "":
		return s.URI
	}
	return "discovery at " + s.Issuer
}

// wellKnown is the path of OpenID Connect discovery below an issuer (Discovery 1.0, section 4).
const wellKnown = "/.well-known/openid-configuration"

func (s Source) start() (first string, discovery bool) {
	if s.URI != "" {
		return s.URI, false
	}
	return strings.TrimSuffix(s.Issuer, "/") + wellKnown, true
}

func (s Source) issues(u *url.URL) bool {
	issuer, err := url.Parse(s.Issuer)
	return err == nil && issuer.Host != "" && endpointOf(issuer) == endpointOf(u)
}

type endpoint struct{ host, port string }

func endpointOf(u *url.URL) endpoint {
	e := endpoint{strings.ToLower(u.Hostname()), u.Port()}
	if e.port == "" {
		e.port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return e
}
