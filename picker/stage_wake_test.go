package picker

import (
	"testing"
	"time"
)

func TestPicker_PickAfterAStopNamesWhatHasChanged(t *testing.T) {
	stopped, asked := make(chan struct{}), make(chan struct{})
	p := runPicker(t, Config{Stops: stops(func(time.Time) time.Duration {
		close(asked)
		<-stopped
		return time.Millisecond
	})})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true, Endpoints: specs("10.0.0.1:80")})
	go func() {
		<-asked
		setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true, Endpoints: specs("10.0.0.2:80")})
		close(stopped)
	}()
	if got := p.Pick(t.Context(), longPrompt(10)).Endpoints.String(); got != "10.0.0.2:80" {
		t.Errorf(`the pick names %q, which has left while the process was stopped, want "10.0.0.2:80"`, got)
	}
}
