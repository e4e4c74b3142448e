package features

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// explain --why shows a request's result at each cluster, even if no picker of Penstock gets the
// request.
func TestAttempts_WhyShowsEachClusterThatWasAsked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east := s.cluster("east")
	s.cluster("west")
	s.cluster("alone")
	s.up("attempts.yaml")
	const (
		ended = `  outcome      ended after \d+\.\d{3} s, status 200, served by 127\.0\.0\.1:\d+, headers after \d+\.\d{3} s, first byte after \d+\.\d{3} s`
		named = `  choice       its own picker names 127\.0\.0\.1:\d+`
	)
	spilled := []string{`pick .*, pool default/both, .*`, `  choice       spilled: import default/far .*`,
		`pick .*, cluster east of import default/far, .*`, named, ended}
	for range 6 {
		s.why("/both", "east", spilled...)
	}
	s.why("/far", "east", `pick .*, cluster east of import default/far, .*`, named, ended)
	east.set(full)
	declined := []string{`sent .* to cluster east of import default/far`, `  declined .*`, `  details      .+`,
		`  outcome      ended after \d+\.\d{3} s, status 429`, `sent .* to cluster west of import default/far`, ended}
	s.why("/far", "west", declined...)
	for range 6 {
		s.why("/both", "west", declined...)
	}
	s.why("/one", "alone", `sent .* to cluster alone of import default/one`, ended)
	s.why("/empty", "alone", `pick .*`, `  choice       spilled: import default/one .*`,
		`sent .* to cluster alone of import default/one, spilled by a pool`, ended)
	for series, least := range map[string]float64{
		`ended_requests_total{cluster="east",import="default/far",outcome="served"}`:   1,
		`ended_requests_total{cluster="east",import="default/far",outcome="declined"}`: 1,
		`ended_requests_total{cluster="west",import="default/far",outcome="served"}`:   1,
		`ended_requests_total{cluster="alone",import="default/one",outcome="served"}`:  2,
		`spilled_requests_total{cluster="east",import="default/far"}`:                  6,
		`spilled_requests_total{cluster="west",import="default/far"}`:                  6,
		`spilled_requests_total{cluster="alone",import="default/one"}`:                 1,
		`response_bytes_total{cluster="west",import="default/far"}`:                    1,
	} {
		if n := s.series("penstock_import_" + series); n < least {
			t.Errorf("%s is %g, want at least %g", series, n, least)
		}
	}
}

// why sends requests to a path until a cluster serves one. explain --why must show these lines in
// order, and no other cluster.
func (s *site) why(path, by string, lines ...string) {
	s.Helper()
	var id string
	s.Eventually(path+" is served by "+by, func() error {
		got, err := s.ask(path, question)
		id = got.header.Get("x-request-id")
		return because(err == nil && got.status == http.StatusOK && got.by() == by, got.status, got.by(), err)
	})
	s.Eventually("it is explained", func() error {
		out, err := s.command("explain", "--why", id)
		if err != nil {
			return err
		}
		rest := out
		for _, line := range lines {
			at := regexp.MustCompile("(?m)^" + line + "$").FindStringIndex(rest)
			if at == nil {
				return fmt.Errorf("got\n%s\nwant the line %q after those before it", out, line)
			}
			rest = rest[at[1]:]
		}
		sent := strings.Count("\n"+out, "\nsent ")
		return because(sent == strings.Count(strings.Join(lines, "\n"), "sent "), sent, " clusters were asked:\n", out)
	})
}
