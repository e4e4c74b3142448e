package endpoint

import "time"

// Died records that the server is dead. It is suspect until a request shows that it works again.
func (l *Load) Died(now time.Time) {
	for l.health.score.Load() < failing {
		l.health.fail(sinceStart(now))
	}
}
