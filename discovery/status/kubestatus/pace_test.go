package kubestatus

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// If an object changes every millisecond for a second, for example because a thousand routes
// attach, only a few writes follow.
func TestStatusPatch_ChangesInARowAreSpaced(t *testing.T) {
	p := pace{last: map[report.Ref]written{}}
	gw := report.Ref{Kind: "Gateway", Name: "gw"}
	now := time.Unix(0, 0)
	writes, pending := 0, false
	step := func() {
		if pending && p.wait(gw, now) == 0 {
			p.wrote(gw, now)
			writes, pending = writes+1, false
		}
		now = now.Add(time.Millisecond)
	}
	for i := range 1000 {
		delay := p.changed(gw, now)
		if i == 0 && delay != 0 {
			t.Errorf("the first write waits %v, want 0", delay)
		}
		pending = true
		step()
	}
	for end := now.Add(moment); pending && now.Before(end.Add(time.Millisecond)); {
		step()
	}
	if pending || writes > 10 {
		t.Errorf("%d writes, the last change is pending: %v; want at most 10, false", writes, pending)
	}
	now = now.Add(rowEnd + maxDelay)
	if delay := p.changed(gw, now); delay != 0 {
		t.Errorf("the first write of the next row waits %v, want 0", delay)
	}
}
