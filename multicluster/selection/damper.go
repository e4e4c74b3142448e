package selection

import "time"

// Recovery is how long a member must be up before Up returns true again.
const Recovery = 3 * time.Second

// Damper delays the return of a member that was down: Envoys react within milliseconds, and would
// follow a flapping member. The zero value is up.
type Damper struct {
	down  bool
	since time.Time // last observation as down
	rises bool      // observed as up since then
}

// Observe records whether the member is up. A member goes down at once.
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

// Next returns when Up changes without another observation; false: never.
func (d *Damper) Next(now time.Time) (at time.Time, ok bool) {
	if !d.down || !d.rises || d.Up(now) {
		return time.Time{}, false
	}
	return d.since.Add(Recovery), true
}
