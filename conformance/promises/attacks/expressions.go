package attacks

import (
	"fmt"
	"strings"
)

// ExpressionRoute returns the largest HTTPRoute that Gateway API allows, with regular expressions
// for 16 headers in each of 128 matches. Envoy accepts the route. Its parent is the Gateway gw.
func ExpressionRoute(name, host string) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: %s}\nspec:\n  parentRefs: "+
			"[{name: gw}]\n  hostnames: [%s]\n  rules:\n", name, host)
	for rule := range 16 {
		b.WriteString("  - matches:\n")
		for match := range 8 {
			fmt.Fprintf(&b, "    - path: {value: /%d/%d}\n      headers:\n", rule, match)
			for header := range 16 {
				fmt.Fprintf(&b,
					"      - {name: x-%d, type: RegularExpression, value: "+
						"'[a-z]{%d}[0-9]{1000}[a-z]{1000}[0-9]{1000}'}\n", header, 900+match)
			}
		}
	}
	return b.String()
}
