package selection

import (
	"math"
	"testing"
	"time"
)

// byLatency has a LeastLoad with three members, and the response time of each, including the round
// trip.
type byLatency struct {
	t     *testing.T
	l     *LeastLoad
	now   time.Time
	after map[string]time.Duration
	went  map[string]int
}

func newByLatency(t *testing.T, margin time.Duration) *byLatency {
	return &byLatency{t: t, now: start, went: map[string]int{},
		l: three(t, func(c *Config) { c.Latency, c.Margin = true, margin }),
		after: map[string]time.Duration{"east": 500 * time.Millisecond, "north": 300 * time.Millisecond,
			"west": 400 * time.Millisecond}}
}

func (b *byLatency) begin() (Lease, Choice) {
	c := b.l.Rank(b.now, Prompt{Tokens: 1000}, nil)[0]
	b.went[c.Member]++
	return b.l.Begin(b.now, c, Prompt{}), c
}

// send sends n requests, one after another. Each ends a second later.
func (b *byLatency) send(n int) {
	for range n {
		lease, c := b.begin()
		b.now = b.now.Add(time.Second)
		lease.FirstByteAfter(b.now, b.after[c.Member])
		lease.End()
	}
}

// expect sends n requests. All must go to member, except at most `tries` requests, which try other
// members.
func (b *byLatency) expect(member string, n, tries int) {
	b.t.Helper()
	clear(b.went)
	if b.send(n); n-b.went[member] > tries {
		b.t.Errorf("of %d requests %v went to each, want all but %d to %s", n, b.went, tries, member)
	}
}

func TestSelection_LatencyGoesToTheFastestAndTriesTheOthers(t *testing.T) {
	b := newByLatency(t, 0)
	b.send(3)
	if b.went["east"] != 1 || b.went["north"] != 1 || b.went["west"] != 1 {
		t.Errorf("the first three requests went to %v, want each member tried", b.went)
	}
	if c := b.l.Rank(b.now, Prompt{}, nil); c[0].Member != "north" || math.Abs(c[0].Cost-.3) > 1e-9 ||
		math.Abs(c[0].Wait-.26) > 1e-9 || c[0].RoundTrip != .04 || c[0].Basis != Answered {
		t.Errorf("got %+v, want north at 0.3 s, 0.26 s of it waiting, and 0.04 s of round trip", c[0])
	}
	b.expect("north", 200, 20) // at most one request in 20 tries each other member
	if b.went["east"] < 4 || b.went["west"] < 4 {
		t.Errorf("in 200 s %v went to each, want at least 4 to east and to west", b.went)
	}
	// If another member becomes the fastest, a trial detects this.
	b.after["west"] = 200 * time.Millisecond
	b.send(400)
	b.expect("west", 100, 12)
	// If the fastest member becomes slow, requests go to another member after some responses.
	b.after["west"] = 2 * time.Second
	b.send(5)
	b.expect("north", 20, 3)
}

func TestSelection_LatencyTriesWithOneRequestAtATime(t *testing.T) {
	b := newByLatency(t, 0)
	b.send(3)
	b.now = b.now.Add(11 * time.Minute) // all means have expired
	if c := b.l.Rank(b.now, Prompt{}, nil); c[0].Member != "east" || c[0].Cost != 0 || c[0].Basis != Tried ||
		b.l.Standings(b.now)[0].FirstByte != 0 {
		t.Fatalf("got %+v, want east tried at no cost", c[0])
	}
	b.send(1) // goes to east, which responds after 0.5 s
	clear(b.went)
	var open []Lease
	for range 20 {
		lease, _ := b.begin()
		open = append(open, lease)
	}
	if b.went["north"] != 1 || b.went["west"] != 1 || b.went["east"] != 18 {
		t.Errorf("while two members are tried, %v requests went to each, want 1 to north and west, 18 to east", b.went)
	}
	for i := range open {
		open[i].End() // the trial ends without a response, so another one follows
	}
	if _, c := b.begin(); c.Member != "north" {
		t.Errorf(`the next one goes to %s, want "north"`, c.Member)
	}
}

func TestSelection_LatencyHasAMarginForTheOwnCluster(t *testing.T) {
	b := newByLatency(t, 250*time.Millisecond)
	b.send(3)
	b.expect("east", 20, 0)
	b.after["east"] = time.Second
	b.send(10)
	b.expect("north", 20, 2)
}

func TestSelection_LatencyComesLastAtAMemberThatDeclined(t *testing.T) {
	b := newByLatency(t, 0)
	b.send(3)
	lease, c := b.begin()
	lease.Declined(b.now)
	ranked := b.l.Rank(b.now, Prompt{}, nil)
	if c.Member != "north" || ranked[2].Member != "north" || ranked[2].Barred != BarredDeclined {
		t.Errorf("%s declined: got %+v, want north, last and barred", c.Member, ranked)
	}
	b.now = b.now.Add(10 * time.Second)
	if ranked = b.l.Rank(b.now, Prompt{}, nil); ranked[0].Member != "north" {
		t.Errorf(`10 s later: %+v, want Member "north"`, ranked[0])
	}
}
