package attacks

import (
	"strings"
	"testing"
)

// Before, one HTTPRoute with 2,048 regular expressions took an Envoy from 69 to 824 MB, and the change of any other route
// from 30 ms to 7 s.
func TestRegularExpressions_LargestRouteCostsNoMemory(t *testing.T) {
	s := start(t, nil)
	traffic := s.traffic()
	before := s.rss(s.envoy)
	peak := s.peak(s.envoy)
	s.write("attacker.yaml", ExpressionRoute("large", "attacker.example"))
	s.write("other.yaml", strings.NewReplacer("by-model}", "other}", "/by-model", "/other", ", headers: [{name: X-Gateway-Model-Name, value: m}]", "").Replace(modelRoute))
	s.eventually("another route's change takes effect", func() error { return s.ask("POST", "/other", "{}") })
	if most := peak(); most > before+64 {
		t.Errorf("Envoy had %.0f MiB before, and %.0f MiB at the peak", before, most)
	}
	traffic.end()
}
