package features

import (
	"net/http"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// Requests stay in the clusters that a policy allows, even if all of these are unreachable.
func TestWithin_RequestsStayInTheirClusters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("east")
	west := s.server("west")
	s.up("within.yaml")
	for range 30 {
		if by := s.answers("/all", http.StatusOK).by(); by != "west" {
			t.Fatalf(`a request goes to %s, want "west"`, by)
		}
	}
	s.answers("/east", http.StatusInternalServerError) // no backend exists
	if err := west.Stop(process.Limit); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if got := s.answers("/all", http.StatusServiceUnavailable); got.by() != "" {
			t.Fatalf("a request left the set: got %s, want 503 of no server", got.body)
		}
	}
	within := func(cluster string) { s.write("within.yaml", swap("clusters: [west]", "clusters: ["+cluster+"]")) }
	within("north")
	s.reports("it leaves no cluster of InferencePoolImport default/far, which east, west export")
	s.answers("/all", http.StatusInternalServerError)
	within("east")
	if by := s.answers("/all", http.StatusOK).by(); by != "east" {
		t.Errorf(`a request goes to %s, want "east"`, by)
	}
	s.answers("/east", http.StatusOK)
}
