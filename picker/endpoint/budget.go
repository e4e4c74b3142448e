package endpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

// budget limits the rate of scrapes, with bursts of scrapeBurst. Otherwise the first pick of a
// large idle pool would scrape all servers at once.
type budget struct {
	every time.Duration // between two scrapes by all processes
	share atomic.Int64  // number of processes that share the rate; 0 counts as 1

	mu   sync.Mutex
	next time.Time
}

const scrapeBurst = 64

func newBudget(perSecond int) budget { return budget{every: time.Second / time.Duration(perSecond)} }

func (b *budget) processes() int64 { return max(1, b.share.Load()) }

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

func (l *Load) follow(sent uint64) {
	list := l.sources.Load()
	if list == nil {
		return
	}
	for _, src := range *list {
		if sent == src.due.Load() {
			src.scrapeSoon()
		}
	}
}

const picksPerScrape = 2

func (r *Registry) countScrapers(n int64) {
	running := time.Duration(r.running.Add(n))
	period := max(r.config.Slow, running*r.budget.every)
	r.freshFor.Store(int64(time.Duration(r.config.StaleAfter)*period + r.config.Timeout))
}
