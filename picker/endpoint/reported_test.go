package endpoint

import (
	"testing"
	"time"
)

// serving is a server that reads 8,000 tokens a second as requests are counted here, each of which
// is half of one of its own.
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

// prompts are read at once, each as fast as alone or slower; then they end, and the page is read.
// took is the time in which all of them are read.
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

func (s *serving) state() (is State) {
	s.e.ReadState(&is, At(s.now))
	return is
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
		is := s.state()
		if is.RateFrom == Inferred {
			is.Rate, is.RateFrom = 0, ""
		}
		if is.Rate < 0.99*tt.rate || is.Rate > 1.01*tt.rate || is.RateFrom != tt.from {
			t.Errorf("%s: %.0f tokens a second, %q; want %.0f, %q", name, is.Rate, is.RateFrom, tt.rate, tt.from)
		}
	}
}

// First tokens that come late, as behind another gateway that holds them back, show a slow server.
// Its own series outrank them.
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
	s.page.PrefillTokens, s.page.PrefillSeconds = s.page.PrefillTokens+2000*samples, s.page.PrefillSeconds+samples*(0.5+step.Seconds())
	s.read()
	if is := s.state(); is.RateFrom != Reported || is.Rate < 7900 || is.Rate > 8100 || is.Inferred > 2100 {
		t.Errorf("%+v", is)
	}
}

// Reports of first tokens come in any order.
func TestReportedRate_TimeWithUnreadPromptsIsTheUnionOfTheirs(t *testing.T) {
	all := [][2]int64{{0, 10}, {5, 15}, {20, 30}, {22, 24}, {40, 41}, {30, 35}}
	for turn := range all {
		var s spans
		for i := range all {
			is := all[(i*5+turn)%len(all)]
			s.add(span{is[0], is[1]}, 1)
		}
		if s.unread != 15+15+1 || s.requests != int64(len(all)) || s.tokens != int64(len(all)) {
			t.Errorf("turn %d: %+v", turn, s)
		}
	}
	var many spans
	for i := range int64(1000) {
		many.add(span{10 * i, 10*i + 1}, 1)
	}
	if many.unread != 1000 || len(many.last) > maxSpans {
		t.Errorf("%d, %d spans", many.unread, len(many.last))
	}
}
