package attacks

import (
	"errors"
	"testing"
)

var errAnswered = errors.New("the answer is 200")

// The test's own server loses a request, which traffic must detect. Otherwise the other tests would
// prove nothing.
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
