package attacks

import (
	"errors"
	"testing"
)

var errAnswered = errors.New("the answer is 200")

// A rig that finds no loss must be able to find one.
func TestAttacks_LostRequestIsReported(t *testing.T) {
	s := start(t, nil)
	traffic := s.traffic()
	s.Eventually("a request succeeds", func() error { return s.ask("GET", "/v1/models", "") })
	traffic.end()
	s.server.Close()
	s.Eventually("a request fails", func() error {
		if s.ask("GET", "/v1/models", "") == nil {
			return errAnswered
		}
		return nil
	})
}
