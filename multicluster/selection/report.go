package selection

import "time"

const (
	maxLeast    = 3600.0 // bounds Report.Least, in seconds
	minRate     = 1.0    // bounds Report.Rate, in tokens per second
	maxRate     = 1e7
	maxServers  = 1 << 16
	minInterval = 50 * time.Millisecond
	maxInterval = time.Minute
	// MaxReportBlocks bounds the blocks of a report. Further blocks are ignored.
	MaxReportBlocks = 4096
)

// Report is a member's report on its pool to one gateway.
type Report struct {
	// Least is the wait at the member's least loaded server, in seconds.
	Least float64
	// Servers is the number of servers that take requests. 0 bars the member.
	Servers int
	// Rate is the rate at which one server reads prompts, in tokens per second; 0: unknown.
	Rate float64
	// Counted is the number of this gateway's requests that the member received in Epoch.
	Counted, Epoch uint64
	// Blocks has the new blocks of prompts that any gateway sent to the member since the last
	// report. The newest prompt comes first. The blocks of a prompt are in order.
	Blocks []uint64
	// Capacity is how many blocks the member's servers cache together; 0: unknown.
	Capacity int
	// Interval is the time until the next report.
	Interval time.Duration
}

type facts struct {
	least, rate float64
	servers     int
	blocks      int
	interval    time.Duration
	epoch       uint64
}

// Report applies a report that has just arrived. It ignores unknown members.
func (l *LeastLoad) Report(now time.Time, name string, r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.find(name)
	if m == nil {
		return
	}
	f := facts{least: bring(r.Least, 0, maxLeast), servers: min(max(r.Servers, 0), maxServers),
		blocks: max(r.Capacity, 0), interval: min(max(r.Interval, minInterval), maxInterval), epoch: r.Epoch,
		rate: l.rate}
	if r.Rate > 0 {
		f.rate = bring(r.Rate, minRate, maxRate)
	} else if m.reported {
		f.rate = m.report.rate
	}
	if !m.reported || m.report.epoch != f.epoch {
		m.books.synced = false
	}
	m.books.counted(now.Add(-m.RoundTrip), r.Counted)
	shares := m.report.blocks != f.blocks
	m.reported, m.report, m.at = true, f, now
	if shares {
		l.shareBlocks()
	}
	m.blocks.add(r.Blocks[:min(len(r.Blocks), MaxReportBlocks)])
	l.average()
}

// Standing is the state of a member of an import, for status and metrics.
type Standing struct {
	Member
	// Report is the member's last report without Blocks; nil: it sent none, or has missed three.
	// Age is the time since the report.
	Report   *Report
	Age      time.Duration
	Barred   string
	InFlight int // this gateway's requests at the member
	Blocks   int // prompt blocks known to have been sent to the member
	// FirstByte is the mean time to the first byte less the round trip, in seconds; 0: unknown.
	FirstByte float64
}

// Standings returns all members, sorted by name.
func (l *LeastLoad) Standings(now time.Time) []Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Standing, len(l.members))
	for i, m := range l.members {
		out[i] = Standing{Member: m.Member, Barred: m.bar(now), InFlight: m.books.inFlight, Blocks: len(m.blocks.at)}
		if l.cfg.Latency && m.answers.known(now) {
			out[i].FirstByte = m.answers.mean
		}
		if m.reported {
			out[i].Age = now.Sub(m.at)
		}
		if m.fresh(now) {
			out[i].Report = &Report{Least: m.report.least, Servers: m.report.servers, Rate: m.report.rate,
				Epoch: m.report.epoch, Capacity: m.report.blocks, Interval: m.report.interval}
		}
	}
	return out
}
