package attacks

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// otherRoute redirects, unlike earlier routes, so that a response shows whether the route is in
// effect.
const otherRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /other}}]
    filters: [{type: RequestRedirect, requestRedirect: {hostname: elsewhere.example, statusCode: 301}}]
`

// One HTTPRoute has 2,048 regular expressions, which would take hundreds of MiB in Envoy. They
// exceed the budget, so Envoy gets none of them. Another route's change still takes effect.
func TestRegularExpressions_LargestRouteCostsNoMemory(t *testing.T) {
	s := start(t, nil)
	traffic := s.traffic()
	before := s.rss(s.envoy)
	peak := s.peak(s.envoy)
	s.Write("attacker.yaml", ExpressionRoute("large", "attacker.example"))
	s.Eventually("the route is above the budget", func() error {
		if text := s.whole("penstock"); !strings.Contains(text,
			"HTTPRoute default/large spec.rules[15]: its regular expressions are above the budget") {
			return fmt.Errorf("penstock prints %.2000s, want that rule 15 is above the budget", text)
		}
		return nil
	})
	s.Write("other.yaml", otherRoute)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.Eventually("another route's change takes effect", func() error {
		response, err := client.Get("http://" + local(s.gateway) + "/other")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusMovedPermanently {
			return fmt.Errorf("/other is answered %s, want 301", response.Status)
		}
		return nil
	})
	if most := peak(); most > before+64 {
		t.Errorf("Envoy had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
	traffic.end()
}
