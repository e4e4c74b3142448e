package selection

import "time"

// Recovery is how long a member must be up before Up returns true again.
const Recovery = 3 * time.Second

// Damper delays the return of a member that was down. Otherwise a member that is down and up in
// turns would move all requests back and forth. The zero value is up.
type Damper struct {
	down  bool
	since time.Time // when the member was last down, or first up again
	rises bool      // the member was up at all observations after since
}

// Observe records whether the member is up. A down member counts as down at once.
func (d *Damper) Observe(now time.Time, up bool) {
	switch {
	case !up:
		d.down, d.since, d.rises = true, now, false
	case d.down && !d.rises:
		d.since, d.rises = now, true
	}
}

// Up reports whether the member counts as up.
func (d *Damper) Up(now time.Time) bool {
	return !d.down || d.rises && now.Sub(d.since) >= Recovery
}

// Next returns when Up becomes true without another Observe; false: never.
func (d *Damper) Next(now time.Time) (at time.Time, ok bool) {
	if !d.down || !d.rises || d.Up(now) {
		return time.Time{}, false
	}
	return d.since.Add(Recovery), true
}
