package processes

import "time"

// timings are the intervals and limits of a supervisor; tests have shorter ones.
type timings struct {
	first, longest time.Duration // shortest and longest back-off
	well           time.Duration // service time after which the back-off is first again
	probe          time.Duration // interval of readiness checks
	health         time.Duration // interval of checks of a ready engine
	answer         time.Duration // timeout of a check of a ready engine
	hung, restart  int           // unanswered checks until Unresponsive, and until the engine is ended
	size           time.Duration // interval of checks of the logs' sizes
	locked         time.Duration // how long Open waits for the lock
	logLimit       int64         // in bytes
	table          int           // maximum number of processes
	systemd        string        // a folder that exists where systemd runs; "": no scopes
	busctl         string        // the program that calls systemd
}

var production = timings{
	first: time.Second, longest: 5 * time.Minute, well: 5 * time.Minute,
	probe: 200 * time.Millisecond, health: 40 * time.Second, answer: 10 * time.Second, hung: 3, restart: 18,
	size: 10 * time.Second, locked: time.Second,
	logLimit: 8 << 20, table: 256, systemd: "/run/systemd/system", busctl: "busctl",
}

func (t timings) delay(failures int) time.Duration {
	d := t.first
	for i := 1; i < failures && d < t.longest; i++ {
		d *= 2
	}
	return min(d, t.longest)
}

// Notable reports whether a failure is logged: the first four in a row, then each power of two.
func Notable(failures int) bool { return failures <= 4 || failures&(failures-1) == 0 }
