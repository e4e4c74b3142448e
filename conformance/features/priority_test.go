package features

import (
	"net/http"
	"strings"
	"testing"
)

// The first cluster in the order that takes the request serves it; if none takes it, the spill
// target.
func TestPriority_ServesInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, north, west := s.cluster("east"), s.cluster("north"), s.cluster("west")
	s.server("here-1")
	s.up("priority.yaml")
	s.answers("/far", http.StatusOK)
	// expect sends requests until want serves one. want must serve all later requests, too.
	expect := func(want string, declining ...*cluster) {
		t.Helper()
		for _, c := range declining {
			c.set(full)
		}
		s.Eventually(want+" serves", func() error {
			by := s.served("/far")
			return because(by == want, by, " does")
		})
		for range 10 {
			if by := s.served("/far"); by != want {
				t.Errorf("%s serves, want %s", by, want)
			}
		}
		for _, c := range declining {
			c.reset()
		}
	}
	expect("west")
	expect("east", west)
	expect("north", west, east)
	expect("here-1", west, east, north)
	expect("west")
	s.write("priority.yaml", swap("order: [west, east]", "order: [nowhere, north]"))
	expect("north")
	expect("east", north)
	if text := s.status(); !strings.Contains(text,
		`spec.selection.order[0]: cluster "nowhere" does not export InferencePoolImport default/far now`) {
		t.Errorf("status: got %s, want that nowhere does not export the import", text)
	}
}
