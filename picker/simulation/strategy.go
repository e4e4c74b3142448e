package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Strategy makes the policies that a scenario compares.
type Strategy struct {
	Name string
	// Immediate means that a policy receives first bytes and ends at once, as a proxy in the data
	// path does. Otherwise it receives them as Envoy's access log reports them: a first byte with
	// the entry of every 2 s, and both up to 5 ms late.
	Immediate bool
	// Unpaged means that no metrics pages are read.
	Unpaged bool
	New     func(Pool) Policy
}

// Pool is what a policy chooses among.
type Pool struct {
	Servers  int // that exist at the start: numbers 0 to Servers-1
	Room     int // servers that exist at the end
	Config   ServerConfig
	Workload *Workload
	Random   *rand.Rand
	// Oracle shows the servers as they are, to rivals that have exact knowledge.
	Oracle Oracle
	// ShedAfter is the predicted time to first token after which a pick becomes a 429; 0: none
	// does.
	ShedAfter time.Duration
}

// Oracle shows the servers as they are.
type Oracle interface {
	InFlight(server int) int // requests
	Cached(server int, r *Request) (tokens int)
}

// Policy is a strategy in one picker process. Its methods are called in the order of virtual time.
type Policy interface {
	// Choose returns a server for a request, and what is predicted for it. The pick follows as a
	// Fact, unless it is shed.
	Choose(now time.Duration, r *Request) Choice
	// Learn receives a fact when it becomes known to the picker.
	Learn(now time.Duration, f Fact)
}

// Choice is a server for a request.
type Choice struct {
	Server   int
	Uncached int           // tokens of the prompt that it has to compute, as far as is known
	Wait     time.Duration // until its first token
	Work     any           // of the policy's own, for the facts that follow
}

// Kind is what a Fact is about.
type Kind uint8

// The kinds of facts.
const (
	Picked      Kind = iota // a Pick
	FirstByte               // of Pick; After is the time from its arrival to that
	Waits                   // Pick goes on without a first byte
	Ended                   // Pick
	ScrapeBegan             // of Server's page
	Scraped                 // Server's Page, as it was when the scrape began
	Failed                  // a scrape of Server failed
	Joined                  // Server takes requests from now on
)

// Fact is something that a picker learns.
type Fact struct {
	Kind  Kind
	Pick  *Pick
	Peer  bool // Pick is another picker's
	After time.Duration
	// Headers is the time from the arrival of Pick to the headers of its response, which come with
	// FirstByte's report.
	Headers time.Duration
	Took    time.Duration // of Ended: the time from the first byte to the end
	Server  int
	Page    Page
}

// Pick is a request that was sent to a server.
type Pick struct {
	Choice
	Request  *Request
	At       time.Duration
	reported bool // the access log has reported its first byte
}

// Named returns the strategies with these names. The error for an unknown one lists all.
func Named(names ...string) ([]Strategy, error) {
	all := Strategies()
	var found []Strategy
	for _, name := range names {
		i := slices.IndexFunc(all, func(s Strategy) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown strategy %q: use one of %v", name, Names())
		}
		found = append(found, all[i])
	}
	return found, nil
}

// Names returns the names of all strategies: those of production first.
func Names() []string {
	var names []string
	for _, s := range Strategies() {
		names = append(names, s.Name)
	}
	return names
}

// Strategies returns the strategies of production, and those of other routers.
func Strategies() []Strategy { return append(Production(), Rivals()...) }

// argmin returns the server of 0 to n-1 with the least cost; equal ones are chosen by lot.
func argmin(n int, random *rand.Rand, cost func(server int) float64) int {
	best, least, ties := 0, 0.0, 0
	for s := range n {
		c := cost(s)
		switch {
		case s == 0 || c < least:
			best, least, ties = s, c, 1
		case c == least:
			if ties++; random.IntN(ties) == 0 {
				best = s
			}
		}
	}
	return best
}
