package report_test

import (
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
)

func TestNearest_SuggestsMisspellingsOnly(t *testing.T) {
	for _, c := range []struct {
		name, want string
	}{
		{"cret", "cert"}, {"plane", "plain"}, {"edgee", "edge"}, {"EDGE", "edge"}, {"lama-8b", "llama-8b"},
		{"x", ""}, {"", ""}, {"other", ""}, {"ca", ""},
	} {
		if got := report.Nearest(c.name, []string{"cert", "plain", "edge", "llama-8b"}); got != c.want {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
	if d := report.Distance("ab", "ba"); d != 1 {
		t.Errorf("a swap costs %d, want 1", d)
	}
}
