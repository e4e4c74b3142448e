package selection

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// MaxMembers is how many members an import may have. Further members take no requests.
	MaxMembers = 64
	// DefaultMargin is a compromise: at 70 % load, 45 % of the requests leave their cluster with
	// this margin, and 65 % without a margin.
	DefaultMargin = 100 * time.Millisecond
	// DefaultBlocks is the default of Config.Blocks: about 12 MiB.
	DefaultBlocks = 1 << 18

	// uncachedWeight is above 1, because reading uncached tokens also delays all later requests.
	uncachedWeight = 3
	// perRequest is in seconds.
	perRequest = 0.020
	// defaultRate, in tokens a second, is assumed until a member reports a rate.
	defaultRate = 4000
	barredFor   = 10 * time.Second
	missed      = 3
)

// Config configures a LeastLoad.
type Config struct {
	// Local is the member that is this cluster itself; "": none.
	Local string
	// Margin is added to the cost of all members except Local.
	Margin time.Duration
	// End returns how many tokens the first i+1 blocks of a chain have. Required. All clusters of
	// the set must use the same function.
	End func(i int) int
	// Latency ranks members by response times instead of load (latency.go).
	Latency bool
	// Blocks limits the blocks of all members together; default DefaultBlocks.
	Blocks int
	// Random returns uniform numbers. Required. Calls do not overlap.
	Random func() uint64
}

// Member is a cluster that a request may go to.
type Member struct {
	Name string
	// RoundTrip is the round trip time to the member; 0 for this cluster.
	RoundTrip time.Duration
	// Servers is the number of the member's servers, used until the member reports; 0: unknown.
	Servers int
	// Empty means that, until the member reports, it is assumed to have no server that takes
	// requests.
	Empty bool
}

// Prompt describes a request.
type Prompt struct {
	Tokens int // length of the prompt; 0 or less: unknown
	// Chain has, for each block, a hash of the prompt up to the block's end; nil: unknown.
	Chain []uint64
	// Stay is the member that has the request's session; "": none.
	Stay string
}

// LeastLoad ranks the members of one import for the requests of one gateway. Its methods may be
// called concurrently.
type LeastLoad struct {
	cfg Config

	mu      sync.Mutex
	members []*member
	// rate and servers are the means of the members that report. They stand for the other members.
	rate, servers float64
	picks         uint64
}

type member struct {
	Member
	books   books
	blocks  blocks
	answers answers

	reported bool
	report   facts
	at       time.Time
	barred   time.Time
}

// New returns a LeastLoad without members.
func New(c Config) *LeastLoad {
	c.Blocks = cmp.Or(max(c.Blocks, 0), DefaultBlocks)
	return &LeastLoad{cfg: c, rate: defaultRate, servers: 1}
}

// SetMembers replaces the members. A member whose name stays keeps its measurements. Only the first
// MaxMembers by name are used.
func (l *LeastLoad) SetMembers(members []Member) {
	members = slices.SortedFunc(slices.Values(members), func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	members = slices.CompactFunc(members, func(a, b Member) bool { return a.Name == b.Name })
	members = members[:min(len(members), MaxMembers)]
	l.mu.Lock()
	defer l.mu.Unlock()
	next := make([]*member, len(members))
	for i, m := range members {
		if next[i] = l.find(m.Name); next[i] == nil {
			next[i] = &member{}
		}
		next[i].Member = m
		next[i].RoundTrip = max(m.RoundTrip, 0)
	}
	l.members = next
	l.shareBlocks()
	l.average()
}

// SetMargin replaces Config.Margin.
func (l *LeastLoad) SetMargin(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.Margin = d
}

func (l *LeastLoad) find(name string) *member {
	i, ok := slices.BinarySearchFunc(l.members, name,
		func(m *member, name string) int { return cmp.Compare(m.Name, name) })
	if !ok {
		return nil
	}
	return l.members[i]
}

func (l *LeastLoad) shareBlocks() {
	for _, m := range l.members {
		limit := max(l.cfg.Blocks/len(l.members), 1)
		if m.report.blocks > 0 {
			limit = min(limit, m.report.blocks)
		}
		m.blocks.limit(limit)
	}
}

func (l *LeastLoad) average() {
	var n, rate, servers float64
	for _, m := range l.members {
		if m.reported && m.report.servers > 0 {
			n, rate, servers = n+1, rate+m.report.rate, servers+float64(m.report.servers)
		}
	}
	l.rate, l.servers = defaultRate, 1
	if n > 0 {
		l.rate, l.servers = rate/n, servers/n
	}
}

// Basis is the source of Choice.Wait.
type Basis string

const (
	// Reported means the member's last report.
	Reported Basis = "report"
	// Own means this gateway's requests in flight, because the member does not report.
	Own Basis = "own requests"
	// Answered means the member's mean time to the first byte (Config.Latency).
	Answered Basis = "its answers"
	// Tried means a trial: the member has no recent response (Config.Latency).
	Tried Basis = "a trial"
)

// Choice is a member that Rank considered, with the parts of its cost in seconds.
type Choice struct {
	Member string
	// Cost is the sum of the following parts.
	Cost                            float64
	Wait, Prompt, RoundTrip, Margin float64
	Basis                           Basis
	// Uncached is how many of the prompt's tokens the member has not read before.
	Uncached int
	// Barred states why the member is barred; "": it is not barred.
	Barred string
	// Session means that the member has the request's session. Among equally barred members, it
	// comes first.
	Session bool

	member *member
	lot    uint64
}

const (
	BarredDeclined = "it declined a request less than 10 s ago"
	BarredSilent   = "it has missed three reports"
	BarredEmpty    = "it reports no server that takes requests" // or the page of its picker shows none
)

// Rank appends a Choice for each member to out: the session's member first, then the others by
// cost, at random if equal, barred members last. The caller sends the request to one of them, and
// calls Begin with its Choice.
func (l *LeastLoad) Rank(now time.Time, p Prompt, out []Choice) []Choice {
	first := len(out)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		c := l.choice(m, now, p)
		c.lot, c.Session = l.cfg.Random(), p.Stay != "" && m.Name == p.Stay
		out = append(out, c)
	}
	slices.SortStableFunc(out[first:], Choice.compare)
	return out
}

func (c Choice) compare(o Choice) int {
	return cmp.Or(trueFirst(c.Barred == "", o.Barred == ""), trueFirst(c.Session, o.Session),
		cmp.Compare(c.Cost, o.Cost), cmp.Compare(c.lot, o.lot))
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (l *LeastLoad) choice(m *member, now time.Time, p Prompt) Choice {
	if l.cfg.Latency {
		c := l.latency(m, now)
		c.Uncached = max(p.Tokens, 0)
		return c
	}
	rate, servers := l.figures(m)
	c := Choice{Member: m.Name, Barred: m.bar(now), Basis: Own, RoundTrip: m.RoundTrip.Seconds(), member: m}
	c.Uncached = max(p.Tokens-m.cached(p.Chain, l.cfg.End), 0)
	c.Prompt = uncachedWeight * float64(c.Uncached) / rate
	if m.fresh(now) {
		c.Basis = Reported
		c.Wait = m.report.least + m.books.unreported(rate)/servers
	} else {
		c.Wait = m.books.wait(now, rate, servers)
	}
	l.sum(&c)
	return c
}

func (l *LeastLoad) sum(c *Choice) {
	if l.cfg.Local != "" && c.Member != l.cfg.Local {
		c.Margin = l.cfg.Margin.Seconds()
	}
	c.Cost = c.Wait + c.Prompt + c.RoundTrip + c.Margin
}

func (l *LeastLoad) figures(m *member) (rate, servers float64) {
	rate, servers = l.rate, l.servers
	if m.Servers > 0 {
		servers = float64(m.Servers)
	}
	if m.reported {
		rate = m.report.rate
		if m.report.servers > 0 {
			servers = float64(m.report.servers)
		}
	}
	return rate, servers
}

func (m *member) fresh(now time.Time) bool { return m.reported && now.Before(m.silent()) }

func (m *member) silent() time.Time { return m.at.Add(missed * m.report.interval) }

func (m *member) bar(now time.Time) string {
	switch {
	case now.Before(m.barred):
		return BarredDeclined
	case m.reported && !now.Before(m.silent()) && now.Before(m.silent().Add(barredFor)):
		return BarredSilent
	case m.fresh(now) && m.report.servers == 0, !m.fresh(now) && m.Empty:
		return BarredEmpty
	}
	return ""
}

func (m *member) cached(chain []uint64, end func(int) int) int {
	if n := m.blocks.match(chain); n > 0 {
		return end(n - 1)
	}
	return 0
}

// bring clamps v. NaN becomes low.
func bring(v, low, high float64) float64 {
	if math.IsNaN(v) {
		return low
	}
	return min(max(v, low), high)
}
