package jwt

import (
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/authz/jwks"
)

// Rule has a policy's requirements on a token, and the claims that describe the caller. It is
// immutable.
type Rule struct {
	// Namespace is the policy's namespace. A caller's name is "namespace/owner".
	Namespace string
	// Source names the issuer, and where its keys come from.
	Source jwks.Source
	// Audiences are the accepted values of aud.
	Audiences []string
	Claims    Claims
}

// Claims names the claims that describe the caller. Each field is a claim's name, or a path of
// names with dots between them, such as "user.name".
type Claims struct {
	Owner string
	// Groups, Models and Objective may be "". The caller then has no groups and no objective, and
	// all models are permitted.
	Groups, Models, Objective string
}

// Identity is the caller that a token describes. It is immutable.
type Identity struct {
	Owner     string // printable ASCII
	Groups    []string
	Objective string    // "" for none
	Models    []string  // names or prefixes as in authz.Key; nil permits all
	Expires   time.Time // the exp claim: the token is invalid from then on
}

const maxToken = 16 << 10 // in bytes

// Formed reports whether a credential has the form of a signed token: a JSON object in base64url,
// and two more parts, with dots between them.
func Formed(credential string) bool {
	object := strings.HasPrefix(credential, "ey") || strings.HasPrefix(credential, "ew") // {" or { and a space
	return object && len(credential) <= maxToken && strings.Count(credential, ".") == 2
}
