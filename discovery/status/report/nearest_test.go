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

func TestNearest_TheOrderOfNamesHasNoEffect(t *testing.T) {
	for _, names := range [][]string{{"r1", "r3", "r9"}, {"r9", "r3", "r1"}, {"r3", "r1", "other", "r9"}} {
		if got := report.Nearest("r2", names); got != "r1" {
			t.Errorf("of %v: got %q, want r1", names, got)
		}
	}
}
