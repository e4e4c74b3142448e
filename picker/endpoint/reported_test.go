package endpoint

import (
	"testing"
	"time"
)

// serving is a server that reads 8,000 tokens a second by this picker's count. The server counts
// half as many.
type serving struct {
	e      *Endpoint
	leases *Leases
	now    time.Time
	page   Reading
}

func newServing() *serving {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	e := &r.Snapshot(Metrics{}, nil, []Spec{{Addr: addrA}}).Endpoints[0]
	s := &serving{e: e, leases: NewLeases("me", time.Hour), now: epoch}
	s.read()
	return s
}

func (s *serving) read() { s.e.BeginScrape().Succeed(s.page, s.now) }

// prompts sends n prompts that are read together in the time took. Then the requests end, and the
// page is read.
func (s *serving) prompts(n, tokens int, took time.Duration) {
	var open []*Lease
	for range n {
		work := Work{Tokens: tokens, Rate: 4000, Stream: true, Measure: true}
		open = append(open, s.leases.Open(s.e, Holder{}, work, 0, s.now))
	}
	s.now = s.now.Add(step + took)
	for _, lease := range open {
		lease.Begun(step + took)
		lease.Release()
		lease.Done()
		s.page.PrefillTokens += float64(tokens) / 2
		s.page.PrefillSeconds += (step + took).Seconds()
	}
	s.now = s.now.Add(time.Second)
	s.read()
}

func (s *serving) state() (state State) {
	s.e.ReadState(&state, At(s.now))
	return state
}

func TestReportedRate_IsWhatBothReadingsAgreeOn(t *testing.T) {
	for name, tt := range map[string]struct {
		serve func(*serving)
		rate  float64
		from  RateSource
	}{
		"one prompt": {func(s *serving) { s.prompts(1, 4000, time.Second/2) }, 8000, Reported},
		"one at a time": {func(s *serving) {
			for i := range 20 {
				s.prompts(1, 2000+1000*i, time.Duration(2000+1000*i)*time.Second/8000)
			}
		}, 8000, Reported},
		"several at once, of which the sum counts each second several times": {func(s *serving) {
			for range 10 {
				s.prompts(4, 2000, time.Second)
			}
		}, 0, ""},
		"several at once, later": {func(s *serving) {
			s.prompts(1, 4000, time.Second/2)
			for range 10 {
				s.prompts(4, 2000, time.Second)
			}
		}, 8000, Reported},
		"prompts of another sender": {func(s *serving) {
			for range 10 {
				s.page.PrefillTokens, s.page.PrefillSeconds = s.page.PrefillTokens+4000, s.page.PrefillSeconds+1
				s.prompts(1, 4000, time.Second/2)
			}
		}, 0, ""},
		"prompts that wait for a slot": {func(s *serving) {
			for range 10 {
				s.page.PrefillSeconds -= 1.5
				s.prompts(1, 4000, 2*time.Second)
			}
		}, 0, ""},
		"short prompts": {func(s *serving) {
			for range 10 {
				s.prompts(1, 200, time.Second/2)
			}
		}, 0, ""},
		"no series": {func(s *serving) {
			s.prompts(1, 4000, time.Second/2)
			s.page = Reading{}
			s.read()
		}, 0, ""},
		"another server behind the address": {func(s *serving) {
			s.prompts(1, 4000, time.Second/2)
			s.page = Reading{PrefillTokens: 1, PrefillSeconds: 1}
			s.read()
		}, 0, ""},
		"long ago": {func(s *serving) {
			s.prompts(1, 4000, time.Second/2)
			s.now = s.now.Add(reportedFor + time.Minute)
		}, 0, ""},
	} {
		s := newServing()
		tt.serve(s)
		state := s.state()
		if state.RateFrom == Inferred {
			state.Rate, state.RateFrom = 0, ""
		}
		if state.Rate < 0.99*tt.rate || state.Rate > 1.01*tt.rate || state.RateFrom != tt.from {
			t.Errorf("%s: %.0f tokens a second, %q; want %.0f, %q", name, state.Rate, state.RateFrom, tt.rate, tt.from)
		}
	}
}

// answer is a response whose first token is hidden, among other responses.
type answer struct {
	at, read, rest time.Duration // time of sending, time to read the prompt, and time for the rest
	early          bool          // a stream that begins with an early event; otherwise not a stream
}

// answers sends prompts of 2,000 tokens. The page counts a prompt at the end of its response.
func (s *serving) answers(all ...answer) {
	leases, begin := make([]*Lease, len(all)), s.now
	for at, open := time.Duration(0), len(all); open > 0; at += 10 * time.Millisecond {
		s.now = begin.Add(at)
		for i, a := range all {
			switch took := step + a.read + a.rest; at {
			case a.at:
				leases[i] = s.leases.Open(s.e, Holder{},
					Work{Tokens: 2000, Rate: 4000, Stream: a.early, Early: a.early}, 0, s.now)
				s.page.Running++
			case a.at + took:
				if lease := leases[i]; a.early {
					lease.Begun(30 * time.Millisecond)
					lease.Wrote(1000, took-30*time.Millisecond)
				} else {
					lease.Begun(took)
				}
				leases[i].Release()
				leases[i].Done()
				open--
				s.page.PrefillTokens += 1000
				s.page.PrefillSeconds += (step + a.read).Seconds()
				s.page.Prefills++
				s.page.Running--
			}
		}
		if at%(50*time.Millisecond) == 0 || open == 0 {
			s.read()
		}
	}
}

// The rate is known from the page even if no first token is visible.
func TestReportedRate_IsKnownWithoutFirstTokens(t *testing.T) {
	const prefill, long, short = time.Second / 4, 2 * time.Second, 200 * time.Millisecond
	one := answer{read: prefill, rest: long}
	for name, tt := range map[string]struct {
		serve func(*serving)
		rate  float64
		from  RateSource
	}{
		"one answer": {func(s *serving) { s.answers(one) }, 8000, Reported},
		"one after the other": {func(s *serving) {
			for range 20 {
				s.answers(one)
			}
		}, 8000, Reported},
		"streams that begin with an event": {func(s *serving) {
			s.answers(answer{read: prefill, rest: long, early: true})
		}, 8000, Reported},
		"at all times one": {func(s *serving) {
			var all []answer
			for i := range 20 { // all within reportedWindow
				all = append(all, answer{at: time.Duration(i) * 450 * time.Millisecond, read: prefill, rest: short})
			}
			s.answers(append(all, answer{at: 8550 * time.Millisecond, read: 10 * time.Second})...)
		}, 8000, Reported},
		"several, whose prompts are read one after the other": {func(s *serving) {
			var all []answer
			for i := range 20 {
				all = append(all, answer{at: time.Duration(i) * 300 * time.Millisecond, read: prefill, rest: long})
			}
			s.answers(all...)
		}, 8000, Reported},
		"several, whose prompts are read at once": {func(s *serving) {
			for range 10 {
				s.answers(
					answer{read: time.Second, rest: long}, answer{read: time.Second, rest: short},
					answer{read: time.Second, rest: long},
					answer{at: 100 * time.Millisecond, read: time.Second, rest: short},
				)
			}
		}, 0, ""},
		"prompts of another sender, between pages": {func(s *serving) {
			for range 10 {
				s.page.PrefillTokens, s.page.PrefillSeconds = s.page.PrefillTokens+2000, s.page.PrefillSeconds+1
				s.page.Prefills += 2
				s.answers(one)
			}
		}, 0, ""},
		"prompts of another sender, on a page without their number": {func(s *serving) {
			for range 10 {
				s.page.Running = 1
				s.page.PrefillTokens, s.page.PrefillSeconds = s.page.PrefillTokens+2000, s.page.PrefillSeconds+1
				s.read()
				s.page.Running = 0
				s.answers(one)
				s.page.Prefills = 0
			}
		}, 0, ""},
		"prompts that wait and are then read at once": {func(s *serving) {
			for range 10 {
				s.page.Queue = 1
				s.read()
				s.page.Queue = 0
				s.answers(answer{read: prefill, rest: long}, answer{at: prefill, read: prefill, rest: long})
			}
		}, 0, ""},
	} {
		s := newServing()
		tt.serve(s)
		state := s.state()
		if state.RateFrom == Inferred {
			state.Rate, state.RateFrom = 0, ""
		}
		if state.Rate < 0.9*tt.rate || state.Rate > 1.1*tt.rate || state.RateFrom != tt.from {
			t.Errorf("%s: %.0f tokens a second, %q; want %.0f, %q", name, state.Rate, state.RateFrom, tt.rate, tt.from)
		}
	}
}

// The rate from the server's page takes precedence over first tokens, which a gateway may delay.
func TestReportedRate_OutranksFirstTokens(t *testing.T) {
	s := newServing()
	for range 10 {
		s.prompts(1, 4000, time.Second/2)
	}
	for range samples {
		lease := s.leases.Open(s.e, Holder{}, Work{Tokens: 4000, Rate: 4000, Stream: true, Measure: true}, 0, s.now)
		s.now = s.now.Add(2 * time.Second)
		lease.Begun(step + 2*time.Second)
		lease.Release()
		lease.Done()
	}
	s.page.PrefillTokens, s.page.PrefillSeconds = s.page.PrefillTokens+2000*samples,
		s.page.PrefillSeconds+samples*(0.5+step.Seconds())
	s.read()
	if state := s.state(); state.RateFrom != Reported || state.Rate < 7900 || state.Rate > 8100 ||
		state.Inferred > 2100 {
		t.Errorf("%+v, want RateFrom %v, Rate at least 7900, Rate at most 8100, Inferred at most 2100", state, Reported)
	}
}

// Requests report their first tokens in any order.
func TestReportedRate_TimeWithUnreadPromptsIsTheUnionOfTheirs(t *testing.T) {
	all := [][2]int64{{0, 10}, {5, 15}, {20, 30}, {22, 24}, {40, 41}, {30, 35}}
	for turn := range all {
		var s spans
		for i := range all {
			state := all[(i*5+turn)%len(all)]
			s.prompt(asked{span: span{state[0], state[1]}, tokens: 1})
		}
		if s.unread != 15+15+1 || s.requests != int64(len(all)) || s.tokens != int64(len(all)) {
			t.Errorf("turn %d: %+v, want unread %v, requests %v, tokens %v",
				turn, s, 15+15+1, int64(len(all)), int64(len(all)))
		}
	}
	var many spans
	for i := range int64(1000) {
		many.prompt(asked{span: span{10 * i, 10*i + 1}, tokens: 1})
	}
	if many.unread != 1000 || len(many.last) > maxSpans || len(many.prompts) > maxAsked {
		t.Errorf("%d tokens unread in %d spans, want 1000 in at most %d", many.unread, len(many.last), maxSpans)
	}
}
