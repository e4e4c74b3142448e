package jwt

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/penstock-project/penstock/picker/authz/jwks"
)

// maxVerified bounds the entries of each of the Verifier's two maps.
const maxVerified = 1 << 14

// Keys provides the public keys of issuers. *jwks.Fetcher implements it.
type Keys interface {
	// Get returns the current set of a source, or nil.
	Get(jwks.Source) *jwks.Set
	// Refresh may fetch a source. It waits for the fetch until ctx ends, and reports whether the
	// fetch has ended.
	Refresh(ctx context.Context, s jwks.Source) bool
	// Pending reports whether the first fetch of a source has not ended.
	Pending(jwks.Source) bool
}

// ErrPending is the error while the first fetch of the issuer's keys is still in flight.
var ErrPending = errors.New("the keys of the token's issuer are not known here yet")

// ErrNoKeys is the error if no fetch of the issuer's keys has succeeded.
var ErrNoKeys = errors.New("the keys of its issuer are not known")

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	keys Keys

	mu             sync.Mutex
	recent, former map[verified]result // a full recent becomes former
}

type verified struct {
	rule  *Rule
	token [sha256.Size]byte
}

type result struct {
	set      *jwks.Set
	identity *Identity
}

// New makes a Verifier.
func New(keys Keys) *Verifier {
	return &Verifier{keys: keys, recent: map[verified]result{}}
}

// Verify returns the identity that a token describes, or why a rule does not accept the token at a
// given time. If the current set lacks the token's key, Verify waits for a newer set until ctx
// ends.
func (v *Verifier) Verify(ctx context.Context, rule *Rule, token string, now time.Time) (*Identity, error) {
	if !Formed(token) {
		return nil, errForm
	}
	set := v.keys.Get(rule.Source)
	id, known, err := v.check(set, rule, token, now)
	if known || err == nil {
		return id, err
	}
	if v.keys.Refresh(ctx, rule.Source) {
		id, _, err = v.check(v.keys.Get(rule.Source), rule, token, now)
	}
	if err != nil && v.keys.Pending(rule.Source) {
		err = ErrPending
	}
	return id, err
}

// check verifies a token with a set. known is false if the set lacks the token's key, which a newer
// set may have.
func (v *Verifier) check(set *jwks.Set, rule *Rule, token string, now time.Time) (id *Identity, known bool, err error) {
	if set == nil {
		return nil, false, ErrNoKeys
	}
	at := verified{rule, sha256.Sum256([]byte(token))}
	if id := v.remembered(at, set); id != nil {
		if !now.Before(id.Expires) {
			return nil, true, ErrExpired
		}
		return id, true, nil
	}
	signed, err := jose.ParseSignedCompact(token, jwks.Algorithms())
	if err != nil || len(signed.Signatures) != 1 {
		return nil, true, errForm
	}
	header := signed.Signatures[0].Protected
	keys, known := set.Find(header.KeyID, header.Algorithm)
	for _, key := range keys {
		payload, err := signed.Verify(key)
		if err != nil {
			continue
		}
		c, err := parseClaims(payload)
		if err != nil {
			return nil, true, err
		}
		if id, err = c.accept(rule, now); err == nil {
			v.remember(at, result{set, id})
		}
		return id, true, err
	}
	return nil, known, errKey
}

func (v *Verifier) remembered(at verified, set *jwks.Set) *Identity {
	v.mu.Lock()
	defer v.mu.Unlock()
	r, ok := v.recent[at]
	if !ok {
		r = v.former[at]
	}
	if r.set != set {
		return nil
	}
	return r.identity
}

func (v *Verifier) remember(at verified, r result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.recent) >= maxVerified {
		v.former, v.recent = v.recent, map[verified]result{}
	}
	v.recent[at] = r
}
