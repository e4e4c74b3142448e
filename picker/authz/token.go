package authz

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/authz/jwt"
)

// Tokens verifies JSON Web Tokens. *jwt.Verifier implements it.
type Tokens interface {
	// Verify returns the caller of a token that a rule accepts. It may wait for the issuer's keys
	// until ctx ends.
	Verify(ctx context.Context, rule *jwt.Rule, token string, now time.Time) (*jwt.Identity, error)
}

// tokenWait bounds how long a call waits for the keys of issuers. Envoy waits 60 ms for the answer
// (translator/envoy, gate.go).
const tokenWait = 35 * time.Millisecond

type verdict string

const (
	unverified verdict = "" // no token, or no policy with a token rule
	passed     verdict = "passed"
	pending    verdict = "pending" // another process may have the issuer's keys
	former     verdict = "former"  // the token has expired, or the issuer's keys are not known
	failed     verdict = "failed"
)

func (s *Server) identify(ctx context.Context, c *call, credential string, now time.Time) (v verdict) {
	if s.cfg.Tokens == nil || !jwt.Formed(credential) {
		return unverified
	}
	var errs []error
	c.Tokens, errs = s.cfg.Table.verify(ctx, s.cfg.Tokens, c.Policies, credential, now)
	for i, err := range errs {
		switch {
		case errors.Is(err, errNoToken):
		case errors.Is(err, jwt.ErrPending):
			return pending
		case c.Tokens[i] != nil:
			v = passed
		case v == passed:
		case errors.Is(err, jwt.ErrExpired), errors.Is(err, jwt.ErrNoKeys):
			v = former
		case v == unverified:
			v = failed
		}
	}
	return v
}

var errNoToken = errors.New("it lets no token in")

// verify checks a token by each policy's rule, and returns the caller or an error for each policy.
func (t *Table) verify(ctx context.Context, tokens Tokens, policies []string, token string,
	now time.Time) (callers []*Key, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, tokenWait)
	defer cancel()
	callers, errs = make([]*Key, len(policies)), make([]error, len(policies))
	for i, rule := range t.Rules(policies) {
		if rule == nil {
			errs[i] = errNoToken
			continue
		}
		id, err := tokens.Verify(ctx, rule, token, now)
		if errs[i] = err; err == nil {
			callers[i] = keyOf(rule.Namespace, id)
		}
	}
	return callers, errs
}

// DecideToken is Decide for a request with a token. why has, for each policy, why it denies the
// token, or nil.
func (t *Table) DecideToken(ctx context.Context, r Request, tokens Tokens, token string,
	now time.Time) (d Decision, why []error, err error) {
	r.Headers = []Header{{"authorization", "Bearer " + token}}
	r.Tokens, why = t.verify(ctx, tokens, r.Policies, token, now)
	d, err = t.Decide(r, now)
	return d, why, err
}

func keyOf(namespace string, id *jwt.Identity) *Key {
	return &Key{Namespace: namespace, Caller: objectid.Join(namespace, id.Owner), Groups: id.Groups,
		Objective: id.Objective, Models: id.Models, Expires: id.Expires}
}

// modelsPrefix begins the reference of a token that permits only some models. No key's name begins
// with it.
const modelsPrefix = "models="

// reference returns a restricted key's text for Permits: "namespace/name", or a token's models.
func (k *Key) reference() string {
	if k.Name != "" {
		return objectid.Join(k.Namespace, k.Name)
	}
	list, _ := json.Marshal(k.Models) // no error: only strings
	return modelsPrefix + base64.RawURLEncoding.EncodeToString(list)
}

// tokenOf decodes a token's reference as a key that permits the token's models. An invalid
// reference permits no model.
func tokenOf(reference string) (k *Key, token bool) {
	text, token := strings.CutPrefix(reference, modelsPrefix)
	if !token {
		return nil, false
	}
	k = &Key{Models: []string{}}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &k.Models) != nil || k.Models == nil {
		k.Models = []string{}
	}
	return k, true
}
