package gatewayapi

import (
	"strings"
	"testing"
)

// Each of these was given to Envoy 1.40 in a route (re2.max_program_size.error_level 100000): what it refuses must be
// refused here, with words, because one bad expression makes it refuse a whole route configuration.
func TestRegularExpressionsThatEnvoyRefusesAreNamed(t *testing.T) {
	for _, pattern := range []string{
		"", "a(b", "a**", `\C`, "(?=a)", `\x{100}`, `\x{10FFFF}`, `\x{D800}`, `[\x{100}-\x{200}]`, `\\\x{100}`,
		strings.Repeat(`\pL{1000}`, 10), // too large for us, before it is for Envoy
	} {
		if regexProblem(pattern) == "" {
			t.Errorf("%.40q is accepted", pattern)
		}
	}
	for _, pattern := range []string{
		`\pL+`, `\p{Greek}`, "(?i)abc", "(?P<n>a)", "(?<n>a)", `\Qa.b\E`, `a\z`, `\Aa`, "[[:alpha:]]+", "a{1,1000}", "a{0}", "(a|b)*?c",
		`\d+\s\w`, `[^\x00-\x7F]`, "é+", "(?s).*", "(?U)a+", `\bfoo\b`, `[\d\-]`, "x*", "()", "(?m)^a$", `\x{ff}`, `\x{0ff}`, `\xff`, `\\x{100}`,
		"[a-z]{1,1000}[a-z]{1,1000}[a-z]{1,1000}", strings.Repeat(`.{1000}`, 4),
	} {
		if wrong := regexProblem(pattern); wrong != "" {
			t.Errorf("%q is refused: %s", pattern, wrong)
		}
	}
}
