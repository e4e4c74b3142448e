package attacks

import (
	"fmt"
	"strings"
	"testing"
)

// expressionRoute is the largest HTTPRoute: 128 matches with 16 regular expressions of headers each.
func expressionRoute(name, host string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: %s}\nspec:\n  parentRefs: [{name: gw}]\n  hostnames: [%s]\n  rules:\n", name, host)
	for rule := range 16 {
		b.WriteString("  - matches:\n")
		for match := range 8 {
			fmt.Fprintf(&b, "    - path: {value: /%d/%d}\n      headers:\n", rule, match)
			for header := range 16 {
				fmt.Fprintf(&b, "      - {name: x-%d, type: RegularExpression, value: '([a-z]{%d}[0-9]{1000}){8}'}\n", header, 900+match)
			}
		}
	}
	return b.String()
}

// Before, one HTTPRoute with 2,048 regular expressions took an Envoy from 69 to 824 MB, and the change of any other route
// from 30 ms to 7 s.
func TestRegularExpressions_LargestRouteCostsNoMemory(t *testing.T) {
	s := start(t, nil)
	traffic := s.traffic()
	before := s.rss(s.envoy)
	peak := s.peak(s.envoy)
	s.write("attacker.yaml", expressionRoute("large", "attacker.example"))
	s.write("other.yaml", strings.NewReplacer("by-model}", "other}", "/by-model", "/other", ", headers: [{name: X-Gateway-Model-Name, value: m}]", "").Replace(modelRoute))
	s.eventually("another route's change takes effect", func() error { return s.ask("POST", "/other", "{}") })
	if most := peak(); most > before+64 {
		t.Errorf("Envoy had %.0f MiB before, and %.0f MiB at the peak", before, most)
	}
	traffic.end()
}
