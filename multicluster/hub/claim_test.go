package hub

import (
	"testing"

	"k8s.io/client-go/rest"
)

// A provider may use one CA for all its clusters, so two members with the same CA may be different
// clusters. The first of them that reports a UID must not exclude the other.
func TestClaim_OneAuthorityIsNotOneCluster(t *testing.T) {
	at := func(host string) *rest.Config {
		return &rest.Config{
			Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("the authority of a provider")},
		}
	}
	h := &Hub{claims: map[string]claim{}}
	if other, certain := h.claim("evil", claim{"a", at("https://evil.example.com")}); other != "" || certain {
		t.Fatalf(`the first member: got %q, %t, want "", false`, other, certain)
	}
	if other, certain := h.claim("east", claim{"a", at("https://east.example.com")}); other != "evil" || certain {
		t.Errorf("at another address: %q, %t; want a finding that names evil alone", other, certain)
	}
	if other, certain := h.claim("twin", claim{"a", at("https://east.example.com")}); other != "east" || !certain {
		t.Errorf("at one address: %q, %t; want that it is certainly east", other, certain)
	}
}
