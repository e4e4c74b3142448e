package endpoint

import (
	"math"
	"time"
)

// agendaPages is how many ticks an agenda has: twice as many as a lease's timeout.
const agendaPages = 32

// maxPage is the capacity that a page keeps when it is empty.
const maxPage = 1 << 12

// agenda has the leases of a shard by when they could expire, as IDs. So each lease is looked at
// when its timeout is over, and not at every tick, which took 1.5 us of a pick with 25,000 leases
// open. A lease that was renewed meanwhile is entered again; the ID of one that was released stays
// until it is due.
type agenda struct {
	tick  time.Duration
	last  int64 // the tick that each has reached
	pages [agendaPages][]uint64
}

// never is the due time of a lease that is gone.
const never = time.Duration(math.MinInt64)

func newAgenda(tick time.Duration) agenda { return agenda{tick: tick, last: math.MinInt64} }

// at returns the tick of a time since processStart. In tests with a clock of their own it may be
// negative.
func (a *agenda) at(t time.Duration) int64 {
	if t < 0 {
		return int64((t+1)/a.tick) - 1
	}
	return int64(t / a.tick)
}

func (a *agenda) page(tick int64) *[]uint64 { return &a.pages[uint64(tick)%agendaPages] }

// add enters a lease that is due at a time, which is half of the pages ahead at most.
func (a *agenda) add(id uint64, due time.Duration) {
	page := a.page(max(a.at(due)+1, a.last))
	*page = append(*page, id)
}

// each calls f for every lease that is due, and for some that are not. f returns when the lease is
// due again, or never.
func (a *agenda) each(now time.Duration, f func(id uint64) time.Duration) {
	last := a.at(now)
	from := max(a.last, last-agendaPages+1)
	a.last = max(a.last, last)
	for tick := from; tick <= last; tick++ {
		page := a.page(tick)
		due := *page
		*page = nil
		for _, id := range due {
			if again := f(id); again != never {
				a.add(id, again)
			}
		}
		if *page == nil && cap(due) <= maxPage {
			*page = due[:0]
		}
	}
}
