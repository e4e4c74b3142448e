package gatewayapi

import (
	"slices"
	"testing"
)

func TestHostname_IntersectsByTheSpecification(t *testing.T) {
	for _, c := range []struct{ listener, route, want string }{
		{"*", "*", "*"},
		{"*", "a.example.com", "a.example.com"},
		{"a.example.com", "*", "a.example.com"},
		{"test.example.com", "*.example.com", "test.example.com"},
		{"*.example.com", "*.example.com", "*.example.com"},
		{"*.example.com", "foo.test.example.com", "foo.test.example.com"},
		{"*.example.com", "*.test.example.com", "*.test.example.com"},
		{"*.test.example.com", "*.example.com", "*.test.example.com"},
		{"*.example.com", "example.com", ""},
		{"*.example.com", "test.example.net", ""},
		{"*.example.com", "badexample.com", ""},
		{"a.example.com", "b.example.com", ""},
	} {
		if got, _ := intersect(c.listener, c.route); got != c.want {
			t.Errorf("listener %s, route %s: %q, want %q", c.listener, c.route, got, c.want)
		}
	}
}

func TestHostname_CoveringListsEveryHostnameThatMayAnswer(t *testing.T) {
	for host, want := range map[string][]string{
		"x.a.com": {"x.a.com", "*.a.com", "*.com", "*"},
		"*.a.com": {"*.a.com", "*.com", "*"},
		"*.com":   {"*.com", "*"},
		"single":  {"single", "*"},
		"*":       {"*"},
	} {
		got := Covering(host)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
		for _, h := range got {
			if !covers(h, host) {
				t.Errorf("%s does not cover %s, want it to", h, host)
			}
		}
		if !slices.IsSortedFunc(got, bySpecificity) {
			t.Errorf("%v is not sorted, want the most specific first", got)
		}
	}
}
