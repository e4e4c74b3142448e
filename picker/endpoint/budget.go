package endpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

// budget spreads the scrapes of all pages: after a burst, so many a second. Without it, the first
// pick of a pool of 1,000 idle servers would have 1,000 pages read at once.
type budget struct {
	every time.Duration // between two scrapes of all processes
	share atomic.Int64  // how many processes there are; 0: one

	mu   sync.Mutex
	next time.Time
}

// scrapeBurst is how many scrapes may run without waiting, after a time without scrapes.
const scrapeBurst = 64

func newBudget(perSecond int) budget { return budget{every: time.Second / time.Duration(perSecond)} }

// processes is how many processes there are.
func (b *budget) processes() int64 { return max(1, b.share.Load()) }

// take reserves a scrape, and returns how long it must wait.
func (b *budget) take(now time.Time) time.Duration {
	every := b.every * time.Duration(b.processes())
	b.mu.Lock()
	defer b.mu.Unlock()
	if from := now.Add(-scrapeBurst * every); b.next.Before(from) {
		b.next = from
	}
	b.next = b.next.Add(every)
	return max(0, b.next.Sub(now))
}

// follow has the load's pages read after two picks.
func (l *Load) follow(sent uint64) {
	list := l.sources.Load()
	if list == nil {
		return
	}
	for _, src := range *list {
		if sent == src.due.Load() {
			notify(src.scrapeNow)
		}
	}
}

// picksPerScrape is how many picks of an endpoint have its page read.
const picksPerScrape = 2

// countScrapers accounts for scrapers that begin or end. With more pages than the budget has for a
// second, samples stay fresh for longer.
func (r *Registry) countScrapers(n int64) {
	running := time.Duration(r.running.Add(n))
	period := max(r.config.Slow, running*r.budget.every)
	r.freshFor.Store(int64(time.Duration(r.config.StaleAfter)*period + r.config.Timeout))
}
