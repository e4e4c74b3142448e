package engines

import "time"

// timings are the intervals and limits of a supervisor; tests have shorter ones.
type timings struct {
	first, longest time.Duration // of the back-off
	well           time.Duration // ready for so long: the next back-off is the first one again
	probe          time.Duration // between two readiness checks
	health         time.Duration // between two checks of a ready engine
	answer         time.Duration // how long such a check waits
	hung, restart  int           // checks without an answer until it is Unresponsive, and until it is ended
	size           time.Duration // between two checks of the logs' sizes
	locked         time.Duration // how long Open waits for the lock
	logLimit       int64         // bytes
	table          int           // processes
	systemd        string        // a folder that exists where systemd runs; "": it makes no scopes
	busctl         string        // the program that calls systemd
}

var production = timings{
	first: time.Second, longest: 5 * time.Minute, well: 5 * time.Minute,
	probe: 200 * time.Millisecond, health: 40 * time.Second, answer: 10 * time.Second, hung: 3, restart: 18,
	size: 10 * time.Second, locked: time.Second,
	logLimit: 8 << 20, table: 256, systemd: "/run/systemd/system", busctl: "busctl",
}

// delay returns the back-off after so many consecutive failures.
func (t timings) delay(failures int) time.Duration {
	d := t.first
	for i := 1; i < failures && d < t.longest; i++ {
		d *= 2
	}
	return min(d, t.longest)
}

// Notable reports whether the end of a process is logged and printed that has failed so often in a
// row: each of the first ones, then with growing distance.
func Notable(failures int) bool { return failures <= 4 || failures&(failures-1) == 0 }
