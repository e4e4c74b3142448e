package hub

import "time"

// Each decision on a member's exports adds its cost to a debt, which decreases by paceShare*t in
// the time t. While the debt exceeds paceBurst, the next decision waits.
const (
	paceShare  = 0.1
	paceBurst  = 2 * time.Second // enough for a first decision on about 1,000 pools
	exportCost = 2 * time.Millisecond
	// longestPace bounds the wait: a third of a lease.
	longestPace = 5 * time.Second
)

type pace struct {
	debt time.Duration
	at   time.Time
}

func (p *pace) spent(took time.Duration, exports int, now time.Time) time.Duration {
	if !p.at.IsZero() {
		p.debt = max(p.debt-time.Duration(float64(now.Sub(p.at))*paceShare), 0)
	}
	p.debt = min(p.debt+took+time.Duration(exports)*exportCost, paceBurst+time.Duration(float64(longestPace)*paceShare))
	p.at = now
	return max(time.Duration(float64(p.debt-paceBurst)/paceShare), 0)
}
