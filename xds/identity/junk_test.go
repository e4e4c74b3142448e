package identity_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/identity"
)

func TestServiceAccountToken_JunkIsNotReviewed(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := &reviewer{users: map[string]string{}}
	g := identity.New(identity.Config{Reviewer: r, Members: echo{}, Now: func() time.Time { return now }})
	mine := jwt(now.Add(time.Hour))
	r.users[mine] = "system:serviceaccount:a:b"
	if _, err := authorize(g, from(bearing(mine), "10.0.0.1")); err != nil {
		t.Fatal(err)
	}
	r.reviews = 0
	for i := range 20_000 {
		for _, token := range []string{fmt.Sprint(i), fmt.Sprintf("e30.e30.%d", i), jwt(now) + fmt.Sprint(i)} {
			if _, err := authorize(g, from(bearing(token), "10.0.0.9")); err == nil {
				t.Fatalf("token %q is accepted", token)
			}
		}
	}
	if r.reviews > 20 {
		t.Errorf("the API server reviewed %d tokens of one attacker, want at most 20", r.reviews)
	}
	reviewed := r.reviews
	if _, err := authorize(g, from(bearing(mine), "10.0.0.1")); err != nil || r.reviews != reviewed {
		t.Errorf("junk evicted the review of a valid token: got %v and %d reviews, want none", err, r.reviews-reviewed)
	}
	other := jwt(now.Add(2 * time.Hour))
	r.users[other] = "system:serviceaccount:a:c"
	if _, err := authorize(g, from(bearing(other), "10.0.0.2")); err != nil {
		t.Errorf("a proxy at another address: got %v, want it permitted", err)
	}
	if _, err := authorize(g, from(bearing(other), "10.0.0.9")); err != nil {
		t.Errorf("the token of a known proxy, from the attacker's address: got %v, want it permitted", err)
	}
	now = now.Add(time.Minute) // now a valid proxy has the attacker's address
	last := jwt(now.Add(3 * time.Hour))
	r.users[last] = "system:serviceaccount:a:d"
	if _, err := authorize(g, from(bearing(last), "10.0.0.9")); err != nil {
		t.Errorf("a minute later: got %v, want it permitted", err)
	}
}

// Proxies behind a NAT share one address, and their valid tokens must not be limited.
func TestServiceAccountToken_ValidTokensOfOneAddressAreNotLimited(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := &reviewer{users: map[string]string{}}
	g := identity.New(identity.Config{Reviewer: r, Members: echo{}, Now: func() time.Time { return now }})
	for i := range 1000 {
		token := jwt(now.Add(time.Hour)) + fmt.Sprint(i)
		r.users[token] = "system:serviceaccount:a:b"
		if _, err := authorize(g, from(bearing(token), "10.0.0.1")); err != nil {
			t.Fatalf("proxy %d: got %v, want it permitted", i, err)
		}
	}
}
