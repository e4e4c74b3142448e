package kube

import (
	"testing"

	"k8s.io/client-go/rest"
)

// The client must have no rate limit. With client-go's default of five requests a second, writing
// the statuses of a thousand routes would take minutes.
func TestStatusPatch_IsNotRateLimitedByTheClient(t *testing.T) {
	c, err := newClient(&rest.Config{Host: "http://127.0.0.1:1"}, kinds())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		r, err := c.restFor(k.gvk().GroupVersion(), k.builtIn)
		if err != nil {
			t.Fatal(err)
		}
		if limit := r.GetRateLimiter(); limit != nil && limit.QPS() > 0 {
			t.Errorf("%s: %v requests a second, want no limit", k.resource, limit.QPS())
		}
	}
}
