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

// Reviewer asks the API server about a token. *cluster.Cluster is one.
type Reviewer interface {
	// ReviewToken returns the user that the token is for; "" if it is not valid for the audience. An error means that
	// nobody knows.
	ReviewToken(ctx context.Context, token, audience string) (user string, err error)
}

const (
	// trusted is how long an answer counts at most; a pod that is deleted may go on reading for so long.
	trusted = 5 * time.Minute
	// refused is how long a refusal counts: long enough to spare the API server a proxy that keeps trying.
	refused = 10 * time.Second
	// remembered is how many tokens' answers are kept.
	remembered = 8192
)

// tokens remembers what was said of tokens.
type tokens struct {
	reviewer Reviewer
	audience string
	now      func() time.Time

	mu      sync.RWMutex
	answers map[[sha256.Size]byte]answer
	group   singleflight.Group
}

type answer struct {
	user  string // "" if refused
	until time.Time
}

// user is who a token is for.
func (t *tokens) user(ctx context.Context, token string) (string, error) {
	hash := sha256.Sum256([]byte(token))
	now := t.now()
	t.mu.RLock()
	a, ok := t.answers[hash]
	t.mu.RUnlock()
	if !ok || now.After(a.until) {
		// Proxies that come back all at once with one token ask once.
		got, err, _ := t.group.Do(string(hash[:]), func() (any, error) { return t.ask(context.WithoutCancel(ctx), token, hash, now) })
		if err != nil {
			return "", err
		}
		a = got.(answer)
	}
	if a.user == "" {
		return "", fmt.Errorf("the token is not valid, or not for the audience %s", t.audience)
	}
	return a.user, nil
}

func (t *tokens) ask(ctx context.Context, token string, hash [sha256.Size]byte, now time.Time) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	user, err := t.reviewer.ReviewToken(ctx, token, t.audience)
	if err != nil {
		return answer{}, fmt.Errorf("the token cannot be reviewed now: %w", err)
	}
	a := answer{user: user, until: now.Add(trusted)}
	if user == "" {
		a.until = now.Add(refused)
	} else if end := expiry(token); !end.IsZero() && end.Before(a.until) {
		a.until = end
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.answers) >= remembered {
		t.forget(now)
	}
	t.answers[hash] = a
	return a, nil
}

// forget makes room: what counts no more, or anything.
func (t *tokens) forget(now time.Time) {
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

// expiry reads when a token ends. The API server has verified it; a token that is no JWT has no end.
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
