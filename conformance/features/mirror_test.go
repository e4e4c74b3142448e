package features

import (
	"net/http"
	"strings"
	"testing"
)

func TestMirror_CopiesHaveNoHeadersOfPickersAndMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cluster("east")
	s.cluster("west")
	s.server("mirror")
	s.up("mirror.yaml")
	for _, name := range []string{"order", "load"} {
		id := s.answers("/"+name, http.StatusOK).header.Get("x-request-id")
		var last received
		s.Eventually("the mirror has the copy", func() error {
			got, err := s.get("http://" + s.address("mirror") + "/debug/last")
			if err != nil || got.status != http.StatusOK { // no request has arrived yet
				return because(false, got.status, err)
			}
			last = s.last("mirror")
			return because(last.Headers.Get("x-request-id") == id, last.Headers)
		})
		for header := range last.Headers {
			header = strings.ToLower(header)
			if strings.HasPrefix(header, "penstock-") || strings.HasPrefix(header, "x-penstock-") ||
				header == "x-gateway-destination-endpoint" {
				t.Errorf("the copy of a request to import %s has the header %s", name, header)
			}
		}
	}
}
