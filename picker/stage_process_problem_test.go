package picker

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func TestProcessor_RecordAndLogStateWhyItDoesNotAnswer(t *testing.T) {
	s := startProcessor(t)
	s.Route = true
	log := new(logged)
	p := runPicker(t, Config{Log: slog.New(slog.NewTextHandler(log, nil))})
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: specs("10.0.0.1:80"), Processor: &s.Processor,
			Body: BodyBuffered})
	for i, c := range []struct {
		answer string
		status int
		want   string
	}{
		{`{"token_value":5}`, 200, "token_value"},
		{"not json\x1b[31m", 200, "the answer is no JSON object"},
		{`{"token_key":"a\r\nb"}`, 200, "token_key has characters that a header cannot have"},
		{`{"token_value":"[1,x` + strings.Repeat("y", 1000) + `]"}`, 200, "token_value is no list of token IDs"},
		{`{}`, 422, "status 422"}, // 422 is not a failure of the service
		{`{}`, 500, "status 500"}, {`{}`, 500, "status 500"}, {`{}`, 500, "status 500"}, {`{}`, 500, "status 500"},
		{`{}`, 500, "status 500"},
		{`{}`, 200, "it has failed 5 times in a row"},
	} {
		s.set(c.answer, c.status)
		p.Pick(t.Context(), bodied(`{"prompt":"a"}`)).Track.End()
		picks := p.Picks(Picks{Last: 1})
		if len(picks) != 1 || picks[0].Processor == nil || picks[0].Processor.Own != noAnswer {
			t.Fatalf("%d: recorded as %+v, want %s by a processor", i, picks, noAnswer)
		}
		if got := picks[0].Processor.Error; !strings.Contains(got, c.want) || len(got) > 200 ||
			strings.ContainsAny(got, "\x1b\r\n") {
			t.Errorf("%.40s: %q, want %s", c.answer, got, c.want)
		}
	}
	if n := log.count("is not asked for 10 s"); n != 1 || log.count(`reason="status 500"`) != 1 ||
		log.count("pool=ns/pool") != 1 {
		t.Errorf("the breaker opens with %d lines, want one with pool and reason:\n%s", n, &log.text)
	}
}
