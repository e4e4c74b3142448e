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
	// Verify returns the caller of a token that a rule accepts. It may wait until ctx ends.
	Verify(ctx context.Context, rule *jwt.Rule, token string, now time.Time) (*jwt.Identity, error)
}

// tokenWait bounds how long a call waits for the keys of issuers. A gate waits 60 ms for an answer
// (translator/envoy, gate.go).
const tokenWait = 35 * time.Millisecond

// identify verifies a call's token by each of its policies. The result pending means that this
// process does not have an issuer's keys yet; another process may have them.
func (s *Server) identify(ctx context.Context, c *call, now time.Time) (pending bool) {
	credential, _ := presented(c.Headers)
	if s.cfg.Tokens == nil || !jwt.Formed(credential) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, tokenWait)
	defer cancel()
	c.Tokens = make([]*Key, len(c.Policies))
	for i, rule := range s.cfg.Table.Rules(c.Policies) {
		if rule == nil {
			continue
		}
		id, err := s.cfg.Tokens.Verify(ctx, rule, credential, now)
		if err == nil {
			c.Tokens[i] = keyOf(rule.Namespace, id)
		}
		pending = pending || errors.Is(err, jwt.ErrPending)
	}
	return pending
}

// keyOf returns the caller of a token as a key without a name.
func keyOf(namespace string, id *jwt.Identity) *Key {
	return &Key{Namespace: namespace, Caller: objectid.Join(namespace, id.Owner), Groups: id.Groups,
		Objective: id.Objective, Models: id.Models, Expires: id.Expires}
}

// modelsPrefix begins the reference of a token with models. No key's name begins with it.
const modelsPrefix = "models="

// reference returns the text by which Permits finds a restricted key: "namespace/name", or the
// models of a token.
func (k *Key) reference() string {
	if k.Name != "" {
		return objectid.Join(k.Namespace, k.Name)
	}
	list, _ := json.Marshal(k.Models) // cannot fail: only strings
	return modelsPrefix + base64.RawURLEncoding.EncodeToString(list)
}

// tokenOf returns the key of a token's reference. A reference that does not parse permits no model.
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
