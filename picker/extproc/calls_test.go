package extproc

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCalls_BoundOfOneClusterIsNotThatOfAnother(t *testing.T) {
	c := NewCalls(2)
	for _, cluster := range []string{"a", "a", "b", ""} {
		if err := c.begin(cluster); err != nil {
			t.Errorf("%q: got %v, want no error", cluster, err)
		}
	}
	if err := c.begin("a"); status.Code(err) != codes.ResourceExhausted || c.Excess() != 1 {
		t.Errorf("a third call: got %v, %d in excess; want ResourceExhausted and 1", err, c.Excess())
	}
	c.end("a")
	if err := c.begin("a"); err != nil {
		t.Errorf("after one has ended: got %v, want no error", err)
	}
	for _, cluster := range []string{"a", "a", "b", ""} {
		c.end(cluster)
	}
	if len(c.open) != 0 {
		t.Errorf("kept: %v, want none", c.open)
	}
}
