package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestSubset_RequestsReachItsEndpointsAlone(t *testing.T) {
	t.Parallel()
	for name, picker := range map[string]string{
		"own picker":                  "picker: {failureMode: FailOpen}",
		"own picker without bodies":   "picker: {strategy: round-robin}",
		"own picker that picks again": "picker: {failureMode: FailClose}",
		"external picker":             "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.server("pod-east")
			s.server("pod-west")
			parts, end := []string{"both", "own", "policy"}, "picker: {failureMode: FailOpen}" // the pool's failureMode
			if picker == "" {
				s.alone("epp", "subset.yaml", with("external", "east", "west"), otherNames...)
				parts, end = []string{"both", "external", "names"}, "subsetNamespace: subsets}"
				picker = end
			}
			policy := swap(end, picker)
			s.up("subset.yaml", with(append(parts, "east", "west")...), policy)
			for range 10 {
				if by := s.answers("/east", http.StatusOK).by(); by != "pod-east" {
					t.Errorf(`zone east: from %q, want "pod-east"`, by)
				}
			}
			served := map[string]int{}
			for range 40 {
				served[s.answers("/both", http.StatusOK).by()]++
			}
			if served["pod-east"] == 0 || served["pod-west"] == 0 { // by chance, once in 500 billion runs
				t.Errorf("50:50 went to %v, want some to each of pod-east and pod-west", served)
			}
			got := s.answers("/north", http.StatusServiceUnavailable)
			if reason := got.header.Get("x-penstock-reason"); reason != "subset_empty" {
				t.Errorf(`a subset without endpoints: got reason %q %s, want "subset_empty"`, reason, got.body)
			}
			s.write("subset.yaml", with(append(parts, "east", "moved")...), policy)
			s.goes("/north", "pod-west", 1)
			// A request needs both the pool's subset and the route's.
			s.write("subset.yaml", with(append(parts, "east", "moved")...),
				swap(end, picker+"\n  subset: {matchExpressions: [{key: zone, operator: In, values: [east, south]}]}"))
			s.answers("/north", http.StatusServiceUnavailable)
			for range 5 {
				if by := s.answers("/", http.StatusOK).by(); by != "pod-east" {
					t.Errorf(`the pool's subset: from %q, want "pod-east"`, by)
				}
			}
			if name == "external picker" {
				return
			}
			if out := s.explain(s.url("/east")); !strings.Contains(out, "zone in (east,south),zone=east") {
				t.Errorf("explain: got\n%s\nwant zone in (east,south),zone=east", out)
			}
		})
	}
}

// If a subset has no endpoints, its requests go to the spill target, never to other endpoints, even
// if no picker answers.
func TestSubset_SpillsAndNeverReachesOtherEndpoints(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"pod-east", "pod-west", "spare-1"} {
		s.server(name)
	}
	// With FailOpen, Envoy sends a request without a pick to any endpoint of the pool, except for a
	// request with a subset.
	s.up("subset.yaml", with("own", "west", "spare", "spill"))
	for range 5 {
		if by := s.answers("/east", http.StatusOK).by(); by != "spare-1" {
			t.Errorf(`zone east has no endpoint: got an answer of %q, want "spare-1"`, by)
		}
		if by := s.answers("/", http.StatusOK).by(); by != "pod-west" {
			t.Errorf(`without a subset: from %q, want "pod-west"`, by)
		}
	}
	// The external picker is called from an internal listener. It may pick any endpoint of the
	// subset.
	s.alone("epp", "subset.yaml", with("external", "east", "west"), otherNames...)
	for _, c := range []struct {
		parts []string
		by    string
	}{{[]string{"east", "west"}, "pod-east"}, {[]string{"west"}, "spare-1"}, {[]string{"east", "west"}, "pod-east"}} {
		s.write("subset.yaml", with("external", "spare", "spill-names"), with(c.parts...))
		s.goes("/east", c.by, 5)
	}
	s.closed("epp")
	s.write("subset.yaml", with("external", "spare", "east", "west"))
	s.answers("/east", http.StatusServiceUnavailable)
	for range 5 {
		if by := s.answers("/", http.StatusOK).by(); !strings.HasPrefix(by, "pod-") {
			t.Errorf("without a subset and without a picker: got an answer of %q, want one of a pod", by)
		}
	}
	s.answers("/east", http.StatusServiceUnavailable)
	unknown := swap("kind: PoolPolicy, name: east", "kind: PoolPolicy, name: unknown")
	s.write("subset.yaml", with("external", "spare", "east", "west"), unknown)
	s.answers("/east", http.StatusInternalServerError)
	s.write("subset.yaml", with("external", "spare", "east", "west"), unknown,
		swap("matchLabels: {zone: east}", "matchExpressions: [{key: zone, operator: Is, values: [east]}]"))
	s.Eventually("the findings are there", func() error {
		out := s.status()
		for _, want := range []string{"PoolPolicy default/unknown does not exist", "InvalidSubset"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("got\n%s\nwant %q", out, want)
			}
		}
		return nil
	})
}
