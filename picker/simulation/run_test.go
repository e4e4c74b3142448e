package simulation

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func named(t *testing.T, name string) Strategy {
	t.Helper()
	s, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return s[0]
}

func generated(t *testing.T, name string, n int) Source {
	t.Helper()
	all := Generated(n)
	i := slices.IndexFunc(all, func(s Source) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no workload %s", name)
	}
	return all[i]
}

func TestSimulation_EqualScenariosHaveEqualOutcomes(t *testing.T) {
	for _, s := range Strategies() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			play := func() []Outcome {
				return Run(Scenario{Workload: generated(t, "chat", 300).Draw(30, 1), Strategy: s, Servers: 3,
					Pickers: 2, Publish: 50 * time.Millisecond, Seed: 7})
			}
			if a, b := play(), play(); !slices.Equal(a, b) {
				t.Error("the outcomes differ")
			}
		})
	}
}

func TestSimulation_EveryRequestEnds(t *testing.T) {
	for _, source := range Generated(300) {
		w := source.Draw(20, 1)
		if rate := w.Rate(); rate < 14 || rate > 27 {
			t.Errorf("%s: %g requests a second, want at least 14 and at most 27", source.Name, rate)
		}
		for _, s := range Strategies() {
			t.Run(source.Name+"/"+s.Name, func(t *testing.T) {
				t.Parallel()
				for i, o := range Run(Scenario{Workload: w, Strategy: s, Servers: 4, JoinAt: 2 * time.Second}) {
					at := w.Requests[i].At
					if o.Server < 0 || o.Scheduled < at || o.FirstByte <= o.Scheduled || o.End < o.FirstByte ||
						o.Server == 3 && at < 2*time.Second {
						t.Fatalf("request %d at %s: got %+v, want a server that is there, and times in order", i, at, o)
					}
				}
			})
		}
	}
}

// TestSimulation_AccessLogReportsLate checks when a policy receives facts: a first byte with the
// entry every 2 s, an end within 5 ms.
func TestSimulation_AccessLogReportsLate(t *testing.T) {
	var learned []string
	s := Strategy{Name: "recorder", Unpaged: true, New: func(Pool) Policy { return recorder{&learned} }}
	w := workload(request{contents: make([]uint64, 98), input: 50_000, output: 200})
	out := Run(Scenario{Workload: w, Strategy: s, Servers: 1})
	if len(learned) != 6 || learned[0] != "0 at 0s" || learned[1] != "2 at 2s" || learned[3] != "2 at 6s" ||
		learned[4] != "1 at 8s" {
		t.Errorf("got %v; want 6 reports, the first at 0s, then at 2s, 6s and 8s; the first byte came at %s",
			learned, out[0].FirstByte)
	}
}

type recorder struct{ learned *[]string }

func (r recorder) Choose(time.Duration, *Request) Choice { return Choice{} }
func (r recorder) Learn(now time.Duration, f Fact) {
	*r.learned = append(*r.learned, fmt.Sprintf("%d at %s", f.Kind, now.Truncate(time.Second)))
}

func TestSimulation_PeersLearnOfPicksAfterTheDelay(t *testing.T) {
	w := workload(request{contents: []uint64{1}, input: 100, output: 1},
		request{at: time.Second, contents: []uint64{2}, input: 100, output: 1})
	for publish, want := range map[time.Duration]int{50 * time.Millisecond: 12, -1: 6} {
		var learned []string
		s := Strategy{Name: "recorder", Immediate: true, Unpaged: true,
			New: func(Pool) Policy { return recorder{&learned} }}
		Run(Scenario{Workload: w, Strategy: s, Servers: 1, Pickers: 2, Publish: publish})
		if len(learned) != want {
			t.Errorf("published after %s: %v, want %d of them", publish, learned, want)
		}
	}
}

func TestSimulation_ShedsByTheChosenServersWait(t *testing.T) {
	source := generated(t, "rag", 400)
	w := source.Draw(60, 1)
	s := Summarize(w, Run(Scenario{Workload: w, Strategy: named(t, "reference"), Servers: 4, ShedAfter: time.Second}),
		0, w.Requests[len(w.Requests)-1].At)
	all := Summarize(w, Run(Scenario{Workload: w, Strategy: named(t, "reference"), Servers: 4}), 0,
		w.Requests[len(w.Requests)-1].At)
	if s.Shed == 0 || all.Shed != 0 || s.TTFT90 > all.TTFT90/2 {
		t.Errorf("got %+v, without shedding %+v; want some shed, none without, and half the TTFT p90", s, all)
	}
}

// The strategies rank as in measurements of TTFT p90 with a trace at 70 % load: those with prefixes
// and backlogs come first.
func TestSimulation_StrategiesRankAsMeasured(t *testing.T) {
	rank := func(source Source, rate float64, names ...string) {
		t.Helper()
		last := time.Duration(0)
		for i, name := range names {
			total := time.Duration(0)
			for _, s := range Play(Drawings(Scenario{Strategy: named(t, name), Servers: 4}, source, rate, 2)) {
				total += s.TTFT90
			}
			if i > 0 && total < last {
				t.Errorf("%s: %s has a TTFT p90 of %s, %s of %s; want them in this order",
					source.Name, names[i-1], last/2, name, total/2)
			}
			last = total
		}
	}
	rank(generated(t, "chat", 2500), 11, "reference", "dynamo", "exact-least-request", "random")
	rank(generated(t, "agents", 1500), 7, "reference", "llm-d", "exact-least-request")
}

func TestStrategy_UnknownNameListsTheNames(t *testing.T) {
	if _, err := Named("load", "best"); err == nil ||
		err.Error() != fmt.Sprintf("unknown strategy %q: use one of %v", "best", Names()) {
		t.Error(err)
	}
}

// Only streams show a picker how fast a server reads. For a rival, the first byte of a response
// that is not streamed arrives at its end.
func TestSimulation_AnswersThatAreNotStreamed(t *testing.T) {
	w := generated(t, "rag", 300).Draw(1, 1)
	whole := w.Label(func(_ int, r *Request) bool { r.Whole = true; return true })
	bare := Pages{Bare: true}
	if rates := LearnedRates(Scenario{Workload: whole, Strategy: named(t, "load"), Servers: 2,
		Pages: bare}); rates[0] != 0 || rates[1] != 0 {
		t.Errorf("without a stream, rates of %v are learned, want none", rates)
	}
	if rates := LearnedRates(Scenario{Workload: w, Strategy: named(t, "load"), Servers: 2, Pages: bare}); rates[0] ==
		0 || rates[1] == 0 {
		t.Errorf("of streams, rates of %v are learned, want one of each server", rates)
	}
	for i, o := range Run(Scenario{Workload: whole, Strategy: named(t, "dynamo"), Servers: 2}) {
		if o.FirstByte != o.End || o.Headers != o.End {
			t.Fatalf("request %d: %+v, want FirstByte %v and Headers %v", i, o, o.End, o.End)
		}
	}
	if s := Summarize(whole, Run(Scenario{Workload: whole, Strategy: named(t, "load"), Servers: 2}), 0,
		time.Hour); s.Streams != 0 || s.TTFT90 != 0 || s.EndToEnd == 0 {
		t.Errorf("got %+v, want no streams, no TTFT, and an end-to-end time", s)
	}
}
