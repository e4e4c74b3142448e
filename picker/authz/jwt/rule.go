package jwt

import (
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/authz/jwks"
)

// Rule has a policy's requirements on a token. Immutable.
type Rule struct {
	// Namespace is the policy's namespace. In a caller's name it precedes the owner.
	Namespace string
	// Source has the issuer and its keys.
	Source jwks.Source
	// Audiences are the accepted values of aud.
	Audiences []string
	Claims    Claims
}

// Claims names the claims that describe the caller. Each field is the name of a claim, or else a
// path of names with dots between them.
type Claims struct {
	Owner string
	// Groups, Models and Objective are "" if no claim has them. If Models is "", all models are
	// permitted.
	Groups, Models, Objective string
}

// Identity is the caller that a token describes. Immutable.
type Identity struct {
	Owner     string // printable ASCII
	Groups    []string
	Objective string    // "" for none
	Models    []string  // as in authz.Key; nil permits all
	Expires   time.Time // the token does not count from then on
}

// maxToken bounds a token, in bytes.
const maxToken = 16 << 10

// Formed reports whether a credential has the form of a signed token: three parts with dots between
// them. The first part must be a JSON object in base64url.
func Formed(credential string) bool {
	object := strings.HasPrefix(credential, "ey") || strings.HasPrefix(credential, "ew") // {" or { and a space
	return object && len(credential) <= maxToken && strings.Count(credential, ".") == 2
}
