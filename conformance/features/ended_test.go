package features

import (
	"fmt"
	"net/http"
	"testing"
)

// inARow polls until check accepts the answers of n successive requests. A failure begins a new
// round, because a busy machine may report a request's end too late.
func (s *site) inARow(n int, check func(reply) error) {
	s.Helper()
	s.Eventually(fmt.Sprint(n, " requests in a row"), func() error {
		for i := range n {
			got, err := s.ask("/", question)
			if err == nil {
				err = check(got)
			}
			if err != nil {
				return fmt.Errorf("request %d: %w", i, err)
			}
		}
		return nil
	})
}

// An idle pool never appears full to a client that sends one request at a time.
func TestEnded_NextRequestOfAClientIsNotSpilled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("own")
	s.server("spare")
	s.up("ended.yaml", with("spill"))
	s.answers("/", http.StatusOK)
	s.inARow(40, func(got reply) error {
		return because(got.status == http.StatusOK && got.by() == "own", got.status, got.by())
	})
}

func TestEnded_SequentialRequestsKeepTheirServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"own", "b", "c"} {
		s.server(name)
	}
	s.up("ended.yaml", with("chwbl"))
	by := s.answers("/", http.StatusOK).by()
	s.inARow(40, func(got reply) error {
		return because(got.status == http.StatusOK && got.by() == by, got.status, got.by(), by)
	})
}
