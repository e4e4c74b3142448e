package features

import (
	"fmt"
	"net/http"
	"testing"
)

// The only cluster of an import, whose pods are not declared, gives way to another one in the same change.
func TestImport_ReplacedClusterLosesNoRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cluster("one")
	s.cluster("two")
	s.up("replaced.yaml", with("one"))
	s.answers("/far", http.StatusOK)
	requests := s.traffic("/far")
	for i := range 20 {
		name := []string{"two", "one"}[i%2]
		s.write("replaced.yaml", with(name))
		s.Eventually(fmt.Sprintf("change %d: %s serves", i, name), func() error {
			by := s.served("/far")
			return because(by == name, by, " does")
		})
	}
	requests.end(0)
}
