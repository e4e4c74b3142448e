package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSchedule_SlowAnswersDelayNoOtherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := []request{{at: 0}, {at: 10 * time.Millisecond}, {at: time.Second}}
		begin := time.Now()
		var lock sync.Mutex
		sent := map[departure]time.Duration{}
		play(t.Context(), departures(requests, 3), func(d departure) sending {
			return func(_ context.Context, late time.Duration) {
				lock.Lock()
				sent[d] = time.Since(begin)
				lock.Unlock()
				if late != 0 {
					t.Errorf("%+v is %s late, want 0", d, late)
				}
				time.Sleep(time.Hour)
			}
		})
		if len(sent) != 9 {
			t.Errorf("%d departures, want 9", len(sent))
		}
		for d, at := range sent {
			want := requests[d.request].at + time.Duration((d.contender+d.request)%3)*stagger
			if at != want || d.at != want {
				t.Errorf("%+v left at %s, want %s", d, at, want)
			}
		}
	})
}

func TestSchedule_LatenessIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lates []time.Duration
		requests := []request{{at: 0}, {at: time.Millisecond}, {at: time.Second}}
		play(t.Context(), departures(requests, 1), func(departure) sending {
			time.Sleep(20 * time.Millisecond) // simulates a busy machine
			return func(_ context.Context, late time.Duration) { lates = append(lates, late) }
		})
		if want := []time.Duration{20 * time.Millisecond, 39 * time.Millisecond, 0}; !slices.Equal(lates, want) {
			t.Errorf("late by %v, want %v", lates, want)
		}
	})
}

func TestSchedule_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		play(ctx, departures([]request{{at: 0}, {at: time.Hour}}, 1), func(departure) sending {
			return func(ctx context.Context, _ time.Duration) { n++; <-ctx.Done() }
		})
		if n != 1 {
			t.Errorf("%d requests left, want 1", n)
		}
	})
}

func TestBodies_SharePrefixesAsBlocksDo(t *testing.T) {
	text := func(r request) string {
		var body struct {
			Model     string
			Stream    bool
			MaxTokens int `json:"max_tokens"`
			Messages  []struct{ Content string }
		}
		err := json.Unmarshal(r.body(), &body)
		if err != nil || !body.Stream || body.MaxTokens != r.output || body.Model != model {
			t.Fatalf("got %+v, %v, want a stream of %d tokens by %s", body, err, r.output, model)
		}
		return body.Messages[0].Content
	}
	a := strings.Fields(text(request{input: 1300, output: 7, blocks: []uint64{1, 2, 3}}))
	b := strings.Fields(text(request{input: 1200, output: 8, blocks: []uint64{1, 2, 4}}))
	c := strings.Fields(text(request{input: 600, output: 8, blocks: []uint64{5, 2}}))
	if len(a) != 1300 || len(b) != 1200 || len(c) != 600 {
		t.Fatalf("%d, %d and %d words, want 1300, 1200, 600", len(a), len(b), len(c))
	}
	if !slices.Equal(a[:1024], b[:1024]) || slices.Equal(a[1024:1040], b[1024:1040]) || slices.Equal(a[:16], c[:16]) {
		t.Error("prompts do not share what their blocks share")
	}
}

func TestBodies_EachIsBuiltOnceAndDropped(t *testing.T) {
	c := bodyCache{requests: []request{{input: 1, blocks: []uint64{1}}, {input: 1, blocks: []uint64{2}}}, uses: 2}
	first, other, again := c.take(0), c.take(1), c.take(0)
	if &first[0] != &again[0] || string(first) == string(other) || len(c.bodies) != 1 {
		t.Errorf("got %s, %s, %s, %d kept, want the first again as the third, another second, 1 kept", first, other,
			again, len(c.bodies))
	}
}

func TestWorkloads_ArriveAtTheirRate(t *testing.T) {
	for _, w := range workloads("../bench/traces") {
		const lasts = 5 * time.Minute
		requests, err := w.plan(usual.load, serversOfFleet, lasts)
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
			continue
		}
		want := usual.load * w.full * serversOfFleet * lasts.Seconds() / w.slow
		last := requests[len(requests)-1].at
		if n := float64(len(requests)); n < want*.7 || n > want*1.4 || last > lasts*5/4 || last < lasts*3/4 {
			t.Errorf("%s: %v requests until %s, want about %.0f in %s", w.name, n, last, want, lasts)
		}
		prefixes := map[uint64]bool{}
		for _, r := range requests {
			prefixes[r.blocks[0]] = true
			if r.input < 1 || r.output < 1 || len(r.blocks) != (r.input+511)/512 {
				t.Fatalf("%s: got %+v, want tokens in and out, and one block per 512 of input", w.name, r)
			}
		}
		if w.name == "documents" && len(prefixes) != 47 {
			t.Errorf("%d documents, want a quarter of 188", len(prefixes))
		}
		if w.about == "" {
			t.Errorf("%s has no description, want one", w.name)
		}
	}
}

func TestStream_TimesAreThoseOfContent(t *testing.T) {
	const role = `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	piece := func(text string) string {
		return fmt.Sprintf(`data: {"choices":[{"delta":{"content":%q}}]}`, text) + "\n\n"
	}
	const counts = `data: {"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}`
	const end = counts + "\n\ndata: [DONE]\n\n"
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		go func() {
			for _, text := range []string{role, piece("a"), piece("b"), end} {
				time.Sleep(time.Second)
				_, _ = io.WriteString(writer, text)
			}
			_ = writer.Close()
		}()
		var s sample
		err := s.read(reader, time.Now(), 2)
		if err != nil || s.ttft != 2*time.Second || s.input != 9 || s.cached != 4 {
			t.Errorf("%+v, %v, want ttft %v, input 9, cached 4", s, err, 2*time.Second)
		}
	})
	for name, answer := range map[string]struct {
		status int
		text   string
	}{
		"no end": {200, piece("a") + piece("b")}, "too short": {200, piece("a") + end}, "status": {503, "busy"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(answer.status)
			_, _ = io.WriteString(w, answer.text)
		}))
		if s := complete(t.Context(), server.Client(), server.URL, nil, 2); s.err == nil {
			t.Errorf("%s: got %+v, want an error", name, s)
		}
		server.Close()
	}
}

func TestStatistics_IntervalHoldsTheRatioAndNoiseDecides(t *testing.T) {
	var a, b series
	for i := range slicesOfRun {
		a = append(a, []float64{1 + float64(i%5)/10, 2})
		b = append(b, []float64{2 + float64(i%5)/5, 4})
	}
	for _, m := range measures {
		r := compare(a, b, m.stat)
		if r.value < .49 || r.value > .51 || r.low > r.value || r.high < r.value || r != compare(a, b, m.stat) {
			t.Errorf("%s: %+v, want 0.5", m.name, r)
		}
	}
	if r := (ratio{1.01, .9, 1.05}); r.noise() < 1.11 || r.noise() > 1.12 {
		t.Errorf("noise %v, want 1/0.9", r.noise())
	}
	for value, want := range map[float64]bool{1.04: true, .97: true, 1.06: false, .94: false} {
		if (ratio{value: value}).equal(1.05) != want {
			t.Errorf("%v within a noise of 1.05: want %v", value, want)
		}
	}
}

func TestStatistics_WarmUpDoesNotCount(t *testing.T) {
	early, rest := split([]request{{at: 1}, {at: 2, input: 5}, {at: 7}}, 2)
	if len(early) != 1 || len(rest) != 2 || rest[0].at != 0 || rest[1].at != 5 {
		t.Errorf("early %v, rest %v, want 1, and 2 at 0 and 5", early, rest)
	}
	for at, want := range map[time.Duration]int{0: -1, 9: -1, 10: 0, 55: 16, 99: 31, 120: 31} {
		if got := sliceOf(at*time.Second, 100*time.Second); got != want {
			t.Errorf("an arrival after %d s is in slice %d, want %d", at, got, want)
		}
	}
}
