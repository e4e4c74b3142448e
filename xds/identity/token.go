package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
)

// Reviewer reviews tokens. *apply.Cluster implements it.
type Reviewer interface {
	// ReviewToken returns the user of a token, or "" if the token is not valid for the audience. An
	// error means that the review failed.
	ReviewToken(ctx context.Context, token, audience string) (user string, err error)
}

const (
	// trusted is how long a review is valid, also for a deleted pod.
	trusted    = 5 * time.Minute
	denied     = 10 * time.Second
	remembered = 8192
	atOnce     = 32
)

type tokens struct {
	reviewer    Reviewer
	now         func() time.Time
	wall        func() time.Time
	unreachable func() bool
	junk        *junk
	slots       chan struct{}
	group       singleflight.Group
	denials     *lru.Cache // token hash -> end of the denial; evicts no accepted token

	mu       sync.RWMutex
	accepted map[[sha256.Size]byte]answer
}

type answer struct {
	user    string
	until   time.Time
	expires time.Time
}

func (a answer) inGrace(now time.Time) bool {
	end := a.expires
	if end.IsZero() {
		end = a.until
	}
	return now.Before(end.Add(grace))
}

func newTokens(r Reviewer, now, wall func() time.Time, unreachable func() bool) *tokens {
	return &tokens{
		reviewer: r, now: now, wall: wall, unreachable: unreachable, junk: newJunk(now),
		slots:   make(chan struct{}, atOnce),
		denials: lru.New(remembered), accepted: map[[sha256.Size]byte]answer{},
	}
}

var errDenied = fmt.Errorf("the token is not valid, or not for the audience %s", Audience)

func (t *tokens) review(ctx context.Context, from netip.Addr, token string) (answer, error) {
	hash := sha256.Sum256([]byte(token))
	now := t.now()
	t.mu.RLock()
	a, known := t.accepted[hash]
	t.mu.RUnlock()
	if known && (!now.After(a.until) || t.unreachable() && a.inGrace(now)) {
		return a, nil
	}
	if until, ok := t.denials.Get(hash); ok && !now.After(until.(time.Time)) {
		return answer{}, errDenied
	}
	if !plausible(token) {
		return answer{}, errDenied
	}
	if !known {
		if !t.junk.take(from) {
			return answer{}, errors.New("too many tokens from this address are not valid; try again in a minute")
		}
	}
	got, err, _ := t.group.Do(string(hash[:]), func() (any, error) {
		return t.ask(context.WithoutCancel(ctx), token, hash, now)
	})
	if !known && !errors.Is(err, errDenied) {
		t.junk.give(from)
	}
	if err != nil {
		return answer{}, err
	}
	return got.(answer), nil
}

func (t *tokens) ask(ctx context.Context, token string, hash [sha256.Size]byte, now time.Time) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return answer{}, errors.New("the token cannot be reviewed now: too many reviews are in flight")
	}
	user, err := t.reviewer.ReviewToken(ctx, token, Audience)
	if err != nil {
		return answer{}, fmt.Errorf("the token cannot be reviewed now: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if user == "" {
		delete(t.accepted, hash)
		t.denials.Add(hash, now.Add(denied))
		return answer{}, errDenied
	}
	a := answer{user: user, until: now.Add(trusted), expires: expiry(token, now, t.wall())}
	if !a.expires.IsZero() && a.expires.Before(a.until) {
		a.until = a.expires
	}
	if len(t.accepted) >= remembered {
		t.evict(now)
	}
	t.accepted[hash] = a
	return a, nil
}

// evict removes answers after their grace period first, then answers that need a new review. The
// caller holds t.mu.
func (t *tokens) evict(now time.Time) {
	for _, over := range []func(answer) bool{
		func(a answer) bool { return !a.inGrace(now) },
		func(a answer) bool { return now.After(a.until) && len(t.accepted) >= remembered },
	} {
		for h, a := range t.accepted {
			if over(a) {
				delete(t.accepted, h)
			}
		}
	}
	for h := range t.accepted {
		if len(t.accepted) < remembered {
			return
		}
		delete(t.accepted, h)
	}
}

// claims are read without verifying the JWT's signature: they may deny a token, but never accept
// it.
type claims struct {
	expires, issued int64
	audience        []string
}

// latest bounds a time in a token, in Unix seconds.
const latest = 1 << 40

// parse returns false if the token is not a JWT (RFC 7519). A struct instead of the map would also
// accept "AUD".
func parse(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return c, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return c, false
	}
	switch text := fields["aud"]; {
	case text == nil:
	case text[0] == '"':
		c.audience = make([]string, 1)
		if json.Unmarshal(text, &c.audience[0]) != nil {
			return c, false
		}
	case json.Unmarshal(text, &c.audience) != nil:
		return c, false
	}
	for name, field := range map[string]*int64{"exp": &c.expires, "iat": &c.issued} {
		seconds := 0.0 // a NumericDate may have a fraction
		if text := fields[name]; text != nil && json.Unmarshal(text, &seconds) != nil {
			return c, false
		}
		if seconds >= 1 && seconds < latest {
			*field = int64(seconds)
		}
	}
	return c, true
}

func plausible(token string) bool {
	c, ok := parse(token)
	return ok && slices.Contains(c.audience, Audience)
}

// expiry returns when an accepted token expires; zero: never. The result has now's monotonic clock,
// so changes of the wall clock end no token. If the wall clock is outside the token's lifetime, the
// whole lifetime begins now.
func expiry(token string, now, wall time.Time) time.Time {
	c, ok := parse(token)
	if !ok || c.expires == 0 {
		return time.Time{}
	}
	end := time.Unix(c.expires, 0)
	left, life := end.Sub(wall), end.Sub(time.Unix(c.issued, 0)) // saturates at 292 years
	if c.issued == 0 {
		life = max(left, trusted)
	}
	if left <= 0 || left > life {
		left = life
	}
	return now.Add(left)
}
