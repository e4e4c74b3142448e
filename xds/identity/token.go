package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Reviewer reviews tokens. *apply.Cluster implements it.
type Reviewer interface {
	// ReviewToken returns the user of a token; "" if the token is not valid for the audience. An error means that the
	// review failed.
	ReviewToken(ctx context.Context, token, audience string) (user string, err error)
}

const (
	// trusted bounds how long a review counts; a deleted pod may read for so long.
	trusted = 5 * time.Minute
	// denied is how long a denial counts, so that a proxy that retries does not load the API server.
	denied = 10 * time.Second
	// remembered is the number of tokens whose reviews are cached.
	remembered = 8192
)

// tokens caches the reviews of tokens.
type tokens struct {
	reviewer Reviewer
	now      func() time.Time

	mu      sync.RWMutex
	answers map[[sha256.Size]byte]answer
	group   singleflight.Group
}

type answer struct {
	user  string // "" if denied
	until time.Time
}

// user returns the user of a token.
func (t *tokens) user(ctx context.Context, token string) (string, error) {
	hash := sha256.Sum256([]byte(token))
	now := t.now()
	t.mu.RLock()
	a, ok := t.answers[hash]
	t.mu.RUnlock()
	if !ok || now.After(a.until) {
		// Proxies that reconnect at once with one token cause one review.
		got, err, _ := t.group.Do(string(hash[:]), func() (any, error) { return t.ask(context.WithoutCancel(ctx), token, hash, now) })
		if err != nil {
			return "", err
		}
		a = got.(answer)
	}
	if a.user == "" {
		return "", fmt.Errorf("the token is not valid, or not for the audience %s", Audience)
	}
	return a.user, nil
}

func (t *tokens) ask(ctx context.Context, token string, hash [sha256.Size]byte, now time.Time) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	user, err := t.reviewer.ReviewToken(ctx, token, Audience)
	if err != nil {
		return answer{}, fmt.Errorf("the token cannot be reviewed now: %w", err)
	}
	a := answer{user: user, until: now.Add(trusted)}
	if user == "" {
		a.until = now.Add(denied)
	} else if end := expiry(token); !end.IsZero() && end.Before(a.until) {
		a.until = end
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.answers) >= remembered {
		t.evict(now)
	}
	t.answers[hash] = a
	return a, nil
}

// evict makes room: first expired answers, then any.
func (t *tokens) evict(now time.Time) {
	for h, a := range t.answers {
		if now.After(a.until) {
			delete(t.answers, h)
		}
	}
	for h := range t.answers {
		if len(t.answers) < remembered {
			return
		}
		delete(t.answers, h)
	}
}

// expiry is the end of a token that the API server has verified; zero if the token is not a JWT.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp int64 `json:"exp"`
	}
	if json.Unmarshal(raw, &claims) != nil || claims.Exp == 0 {
		return time.Time{}
	}
	return time.Unix(claims.Exp, 0)
}
