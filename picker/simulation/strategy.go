package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Strategy is a picking strategy to compare. New makes a Policy for each picker process.
type Strategy struct {
	Name string
	// Immediate means that policies learn at once when a response begins and ends, like a proxy in
	// the data path. Other policies learn this from Envoy's access log: up to 5 ms late, and the
	// first byte only with the periodic entry every 2 s.
	Immediate bool
	Unpaged   bool
	New       func(Pool) Policy
}

// Pool describes a policy's servers.
type Pool struct {
	Servers  int // when the run starts; their numbers are 0 to Servers-1
	Room     int // servers after the last one has joined
	Config   ServerConfig
	Workload *Workload
	Random   *rand.Rand
	// Oracle gives rivals exact figures of the servers, which a picker behind Envoy cannot have.
	Oracle Oracle
	// ShedAfter is the predicted time to the first token above which picks are rejected; 0 means
	// no limit.
	ShedAfter time.Duration
}

// Oracle returns a server's exact number of requests in flight, and how many tokens of a request's
// prompt it has cached.
type Oracle interface {
	InFlight(server int) int
	Cached(server int, r *Request) (tokens int)
}

// Policy is a strategy's state in one picker process. Run calls the methods in the order of virtual
// time.
type Policy interface {
	// Choose returns a server for a request. If the request is not shed, Run then calls Learn with
	// the pick.
	Choose(now time.Duration, r *Request) Choice
	Learn(now time.Duration, f Fact)
}

// Choice is the server that a policy chose.
type Choice struct {
	Server   int
	Uncached int           // prompt tokens to compute, as far as known
	Wait     time.Duration // predicted time to the first token
	Work     any           // data that the policy reads again in Facts about the pick
}

// Kind is the kind of a Fact.
type Kind uint8

const (
	Picked    Kind = iota // Pick was sent to Server
	FirstByte             // the response began; After is the time since the pick
	Waits
	Ended
	ScrapeBegan // a scrape of Server began
	Scraped     // the scrape ended; Page has the values at its start
	Failed
	Joined // Server accepts requests from now on
)

// Fact is an event that a picker process receives.
type Fact struct {
	Kind    Kind
	Pick    *Pick
	Peer    bool
	After   time.Duration
	Headers time.Duration
	Took    time.Duration // for Ended: from the first byte to the end
	Server  int
	Page    Page
}

// Pick is a request sent to a server.
type Pick struct {
	Choice
	Request  *Request
	At       time.Duration
	reported bool
}

// Named returns the strategies with these names. The error for an unknown name lists all names.
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

// Names returns the names of all strategies.
func Names() []string {
	var names []string
	for _, s := range Strategies() {
		names = append(names, s.Name)
	}
	return names
}

// Strategies returns Production's strategies and the Rivals.
func Strategies() []Strategy { return append(Production(), Rivals()...) }

// argmin returns the server from 0 to n-1 with the least cost. It breaks ties at random.
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
