package picker

import "time"

// wake waits while this process may lack recent configuration because it was paused. The pick's
// measured time begins after the wait. wake ends no pick.
func wake(k *pick) {
	k.started = time.Now()
	stops := k.picker.config.Stops
	if stops == nil {
		return
	}
	wait := stops.Behind(k.started)
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.ctx.Done():
	}
	k.started = time.Now()
}
