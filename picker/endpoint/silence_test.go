package endpoint

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// motionRig is a server whose requests and metrics page a test controls. Times are seconds since
// begin.
type motionRig struct {
	*Registry
	e      *Endpoint
	leases *Leases
	begin  time.Time
	tokens float64
}

func newMotionRig() *motionRig {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: netip.MustParseAddrPort("10.0.0.1:80")}})
	return &motionRig{r, &s.Endpoints[0], NewLeases("me", time.Hour), time.Now(), 100}
}

func (m *motionRig) at(seconds float64) time.Time {
	return m.begin.Add(time.Duration(seconds * float64(time.Second)))
}

// page makes a scrape of the page with further tokens.
func (m *motionRig) page(at, tokens float64) {
	m.tokens += tokens
	m.e.BeginScrape().Succeed(Reading{Running: 1, Tokens: m.tokens, CountsTokens: true}, m.at(at))
}

func (m *motionRig) send(at float64, w Work) *Lease {
	return m.leases.Open(m.e, Holder{}, w, 0, m.at(at))
}

func (m *motionRig) silent(at float64) bool {
	silent, _ := m.Registry.Silent(m.at(at))
	return len(silent) == 1
}

var (
	stream = Work{Generates: true, Stream: true, First: 100 * time.Millisecond}
	plain  = Work{Generates: true, First: 100 * time.Millisecond}
	// answered reports headers; waiting reports a request without a response.
	answered  = Progress{Status: 200, Sent: time.Millisecond}
	streaming = Progress{Status: 200, Sent: time.Millisecond, Streams: true}
	begun     = Progress{Status: 200, Sent: time.Millisecond, First: time.Millisecond, Bytes: 9}
	waiting   = Progress{Sent: time.Millisecond}
	gaveUp    = Progress{Status: 200, Sent: time.Millisecond, Ended: true, Canceled: true}
)

// follow reports the requests every 2 s, and reads the page with further tokens every second, until
// a time. It returns when the server becomes silent, or 0.
func (m *motionRig) follow(until, tokens float64, report Progress, leases ...*Lease) float64 {
	for i := 1; ; i++ {
		at := float64(i) / 10
		if at > until {
			return 0
		}
		if i%20 == 0 {
			for _, lease := range leases {
				lease.Progress(report, m.at(at))
			}
		}
		if i%10 == 0 && tokens >= 0 {
			m.page(at, tokens)
		}
		if m.silent(at) {
			return at
		}
	}
}

const noPage = -1

func TestSilent_OnlyServerThatMovesNothing(t *testing.T) {
	with := func(w Work, change func(*Work)) Work {
		change(&w)
		return w
	}
	for name, tt := range map[string]struct {
		work   []Work
		tokens float64 // further tokens on the page each second
		report Progress
		want   float64 // seconds until silent; 0 means never
	}{
		"headers only":                            {[]Work{stream}, 0, answered, 2},
		"not even headers":                        {[]Work{stream}, 0, waiting, 2},
		"an answer that is not streamed":          {[]Work{plain}, 0, waiting, 2},
		"many of them":                            {[]Work{plain, stream, plain}, 0, waiting, 2},
		"a body that is not read, without a page": {[]Work{plain}, noPage, streaming, 6},
		// at the third report
		"headers only, without a page":       {[]Work{stream}, noPage, answered, 6},
		"a long answer":                      {[]Work{plain}, 10, waiting, 0},
		"a long queue":                       {[]Work{stream, stream, stream, plain}, 1, answered, 0},
		"a long answer, without a page":      {[]Work{plain}, noPage, waiting, 0},
		"a stream behind it, without a page": {[]Work{plain, stream}, noPage, waiting, 0},
		"an answer whose end is predicted, without a page": {
			[]Work{with(plain, func(w *Work) { w.Whole = 5 * time.Second })}, noPage, waiting, 22},
		"a prompt that takes 3 s": {[]Work{with(stream, func(w *Work) { w.First = 3 * time.Second })}, 0, answered, 12},
		"a short prompt among long ones": {
			[]Work{with(stream, func(w *Work) { w.First = 3 * time.Second }), stream}, 0, answered, 2},
		"an unknown prediction": {[]Work{with(stream, func(w *Work) { w.First = 0 })}, 0, answered, 20},
		"another API":           {[]Work{with(plain, func(w *Work) { w.Generates = false })}, 0, waiting, 0},
		"an upload":             {[]Work{stream}, 0, Progress{}, 0},
		"an error":              {[]Work{stream}, 0, Progress{Status: 400, Sent: time.Millisecond}, 0},
		"an event and no token": {
			[]Work{with(stream, func(w *Work) { w.Early = true })}, 0, begun, 4},
		"a stream that has begun": {[]Work{stream}, 0, begun, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMotionRig()
			if tt.tokens >= 0 {
				m.page(0, 0)
			}
			var leases []*Lease
			for _, w := range tt.work {
				leases = append(leases, m.send(0, w))
			}
			got := m.follow(60, tt.tokens, tt.report, leases...)
			if got < tt.want || got > tt.want+1 || (got == 0) != (tt.want == 0) {
				t.Errorf("silent after %v s, want %v", got, tt.want)
			}
			if s := m.e.Load().Silence(); s != nil && s.Headers != (tt.report.Status == 200) {
				t.Errorf("its silence is %s, want Headers: %t", s, tt.report.Status == 200)
			}
		})
	}
}

func TestSilent_BytesOfAnotherStreamAreMotion(t *testing.T) {
	for _, page := range []bool{true, false} {
		m := newMotionRig()
		if page {
			m.page(-1, 0)
		}
		waits, moves := m.send(0, stream), m.send(0, stream)
		for i := range 30 {
			at := float64(2*i + 2)
			moves.Progress(Progress{Status: 200, Sent: 1, First: 1, Bytes: int64(i + 1)}, m.at(at-0.05))
			if page {
				m.page(at, 0)
			}
			waits.Progress(answered, m.at(at))
			if m.silent(at) {
				t.Fatalf("page %t: silent after %v s, want never: answers continue", page, at)
			}
		}
	}
}

func TestSilent_UnpredictedRequestIsComparedWithOthers(t *testing.T) {
	m := newMotionRig()
	unknown := Work{Generates: true, Stream: true}
	for range enoughFirsts {
		lease := m.send(0, unknown)
		lease.Progress(Progress{Status: 200, Bytes: 1, Sent: 1, First: time.Second, Ended: true}, m.at(0))
		lease.Release()
	}
	m.begin = m.at(10)
	m.page(0, 0)
	if got := m.follow(10, 0, answered, m.send(0, unknown)); got < 4 || got > 5 {
		t.Errorf("silent after %v s, want 4: four times what others took", got)
	}
}

// The waits of clients that give up add up until the server is silent. Clients that leave before a
// token can come do not count.
func TestSilent_ClientsThatGiveUpShowIt(t *testing.T) {
	for _, tt := range []struct {
		lasts, gap, want float64
		page             bool
	}{
		{1, 0, 2, true}, {1, 0.5, 3, true}, {1, 0, 5, false}, {0.4, 0, 2, true}, {0.4, 0, 4, false},
		{0.05, 0, 0, true}, {0.05, 0, 0, false}, {1, 31, 0, true},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			m, got := newMotionRig(), 0.0
			if tt.page {
				m.page(0, 0)
			}
			for at := 0.0; at < 60 && got == 0; at += tt.gap {
				lease := m.send(at, stream)
				at += tt.lasts
				lease.Progress(gaveUp, m.at(at))
				lease.Release()
				if tt.page {
					m.page(at, 0)
				}
				if m.silent(at) {
					got = at
				}
			}
			if got < tt.want || got > tt.want+1 || (got == 0) != (tt.want == 0) {
				t.Errorf("silent after %v s, want %v", got, tt.want)
			}
		})
	}
}

// A silent server serves again after progress, or after a probe that got a token. A lost request
// does not make it silent a second time.
func TestSilent_EndsOnceSomethingMoves(t *testing.T) {
	for name, move := range map[string]func(*motionRig, *Lease){
		"counters": func(m *motionRig, _ *Lease) { m.page(5, 1) },
		"the use of the KV cache": func(m *motionRig, _ *Lease) {
			m.e.BeginScrape().Succeed(Reading{KV: 0.1, Tokens: m.tokens, CountsTokens: true}, m.at(5))
		},
		"a restart": func(m *motionRig, _ *Lease) { m.page(5, -m.tokens) },
		"a body byte": func(m *motionRig, l *Lease) {
			l.Progress(Progress{Status: 200, Bytes: 1, Sent: 1, First: 4 * time.Second}, m.at(5))
		},
		"a probe": func(m *motionRig, _ *Lease) { m.e.Load().Answers(m.at(4), m.at(5)) },
	} {
		m := newMotionRig()
		m.page(0, 0)
		lease := m.send(0, stream)
		if m.follow(4, 0, answered, lease) == 0 {
			t.Fatal("it is not silent")
		}
		if move(m, lease); m.silent(5.1) {
			t.Errorf("%s: it is silent still, want it cleared", name)
		}
		lost := m.follow(20, 0, answered, lease)
		if name == "a probe" && lost != 0 {
			t.Errorf("%s: silent after %v s, want never: only an older request waits", name, lost)
		}
	}
}

func TestSilent_ServerThatDeniesProbesIsTriedBySingleRequests(t *testing.T) {
	m := newMotionRig()
	m.e.Load().Suspect(m.at(0))
	var tried []float64
	for i := range 700 {
		at := float64(i) / 10
		m.e.Load().Probed("401", true, m.at(at))
		var s State
		m.e.ReadState(&s, At(m.at(at)))
		if s.Silent == nil || s.Silent.Probe != "401" {
			t.Fatalf("got %+v, want silent with probe 401", s)
		}
		if s.Trial {
			tried = append(tried, at)
			lease := m.leases.Open(m.e, Holder{}, Work{Trial: true}, 0, m.at(at))
			if m.leases.Open(m.e, Holder{}, Work{Trial: true}, 0, m.at(at)) != nil {
				t.Fatal("two requests try it at a time")
			}
			lease.Release()
		}
	}
	if fmt.Sprint(tried) != "[1 3 7 15 31 61]" {
		t.Errorf("tried at %v, want [1 3 7 15 31 61]", tried)
	}
}

func TestSilent_ServerThatLeavesIsForgotten(t *testing.T) {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: netip.MustParseAddrPort("10.0.0.1:80")}})
	s.Endpoints[0].Load().Suspect(time.Now())
	if silent, more := r.Silent(time.Now()); len(silent) != 1 || !more {
		t.Error("it is not silent")
	}
	r.Release(s)
	if silent, more := r.Silent(time.Now()); len(silent) != 0 || more {
		t.Error("it is silent still")
	}
}

// The late first token after a server's silence must not become a prediction: later requests would
// wait as long at the next silence.
func TestSilent_TokensAfterItShowNoSpeed(t *testing.T) {
	for _, silent := range []bool{true, false} {
		m := newMotionRig()
		work := stream
		work.Tokens, work.Rate, work.Measure, work.Features = 1000, 1000, true, Features{Prefill: 1}
		for range enough {
			lease := m.send(0, work)
			if silent {
				m.e.Load().Suspect(m.at(1))
			}
			lease.Begun(15 * time.Second)
			lease.Progress(Progress{Status: 200, Bytes: 1, Sent: 1, First: 15 * time.Second}, m.at(15))
			lease.Release()
		}
		s := m.e.State()
		if learned := s.Latency != nil || s.Rate > 0; learned == silent || s.Unread != 0 {
			t.Errorf("silent %t: learned %t, want %t; %d tokens unread, want 0", silent, learned, !silent, s.Unread)
		}
	}
}
