package scoring

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/picker/scoring/scoringtest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func two() *Question {
	return Ask("ns/pool",
		&schedule.Request{Model: "m", Tokens: 300, MaxTokens: 7, Stream: true, Session: schedule.Session{ID: 9}},
		[]schedule.Candidate{
			{Endpoint: &endpoint.Endpoint{Text: "10.0.0.1:80", Spec: endpoint.Spec{Pod: "a"}}, Cached: 64},
			{Endpoint: &endpoint.Endpoint{Text: "10.0.0.2:80"}},
		},
		func(e *endpoint.Endpoint) *endpoint.State {
			if e.Pod == "" {
				return &endpoint.State{}
			}
			return &endpoint.State{Fresh: true, Queue: 1.5, Running: 2, KV: 0.25, InFlight: 3, Unread: 400}
		})
}

func client(t *testing.T, at netip.AddrPort) *Client {
	t.Helper()
	c, err := NewClient([]dial.Address{{AddrPort: at, Cleartext: true}}, dial.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// once calls Score until the connection is up. Only Score's short deadline makes a call fail.
func once(t *testing.T, c *Client) (scores []float64) {
	t.Helper()
	poll.NoError(t, "the scorer answers", 10*time.Second, func() error {
		var err error
		var outcome Outcome
		if scores, outcome, err = c.Score(t.Context(), two()); outcome != Scored {
			return fmt.Errorf("got %s %v, want %s", outcome, err, Scored)
		}
		return nil
	})
	return scores
}

// The field numbers match scoring.proto.
func TestExternalScorer_RequestIsThatOfTheProto(t *testing.T) {
	proto, err := os.ReadFile("scoring.proto")
	if err != nil {
		t.Fatal(err)
	}
	number := func(message, field string) int {
		_, rest, _ := strings.Cut(string(proto), "message "+message+" {")
		rest, _, _ = strings.Cut(rest, "\n}")
		m := regexp.MustCompile(` ` + field + ` = (\d+);`).FindStringSubmatch(rest)
		if m == nil {
			t.Fatalf("%s has no field %s", message, field)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	asked := make(chan []byte, 100)
	at := scoringtest.Start(t, func(_ context.Context, request []byte) ([]byte, error) {
		asked <- request
		return scoringtest.Scores(0.25, 1), nil
	})
	if got := once(t, client(t, at)); fmt.Sprint(got) != "[0.25 1]" {
		t.Errorf("scores %v, want [0.25 1]", got)
	}
	request := <-asked
	one := func(m []byte, message, field string) []byte {
		values := scoringtest.Fields(m, number(message, field))
		if len(values) != 1 {
			t.Fatalf("%d values of %s.%s, want 1", len(values), message, field)
		}
		return values[0]
	}
	facts := one(request, "ScoreRequest", "facts")
	candidates := scoringtest.Fields(request, number("ScoreRequest", "candidates"))
	if len(candidates) != 2 || string(one(request, "ScoreRequest", "pool")) != "ns/pool" ||
		string(one(facts, "Facts", "model")) != "m" ||
		string(one(candidates[0], "Candidate", "address")) != "10.0.0.1:80" ||
		string(one(candidates[0], "Candidate", "pod")) != "a" {
		t.Errorf("request %q, want pool ns/pool, model m and two candidates, the first a at 10.0.0.1:80", request)
	}
	for _, tt := range []struct {
		in      []byte
		message string
		field   string
		want    uint64
	}{
		{facts, "Facts", "tokens", 300}, {facts, "Facts", "max_tokens", 7}, {facts, "Facts", "stream", 1},
		{facts, "Facts", "session", 9},
		{candidates[0], "Candidate", "fresh", 1}, {candidates[0], "Candidate", "in_flight", 3},
		{candidates[0], "Candidate", "unread_tokens", 400}, {candidates[0], "Candidate", "cached_tokens", 64},
	} {
		if v, _ := protowire.ConsumeVarint(one(tt.in, tt.message, tt.field)); v != tt.want {
			t.Errorf("%s.%s is %d, want %d", tt.message, tt.field, v, tt.want)
		}
	}
	for field, want := range map[string]float64{"queue": 1.5, "running": 2, "kv_cache": 0.25} {
		if bits, _ := protowire.ConsumeFixed64(one(candidates[0], "Candidate", field)); math.Float64frombits(
			bits) != want {
			t.Errorf("%s is %g, want %g", field, math.Float64frombits(bits), want)
		}
	}
	if number("ScoreResponse", "scores") != fieldScores || fieldScores != 1 {
		t.Error("ScoreResponse.scores has another number")
	}
}

func TestExternalScorer_FailuresGiveNoScores(t *testing.T) {
	for name, answer := range map[string]func(context.Context) ([]byte, error){
		"error":      func(context.Context) ([]byte, error) { return nil, errors.New("broken") },
		"late":       func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() },
		"too few":    func(context.Context) ([]byte, error) { return scoringtest.Scores(1), nil },
		"too many":   func(context.Context) ([]byte, error) { return scoringtest.Scores(1, 1, 1), nil },
		"no message": func(context.Context) ([]byte, error) { return []byte{0xff}, nil },
		"torn":       func(context.Context) ([]byte, error) { return []byte{10, 4, 1, 2, 3, 4}, nil },
		"a huge answer": func(context.Context) ([]byte, error) {
			return scoringtest.Scores(make([]float64, 10_000)...), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var works atomic.Bool
			works.Store(true)
			at := scoringtest.Start(t, func(ctx context.Context, _ []byte) ([]byte, error) {
				if works.Load() {
					return scoringtest.Scores(1, 1), nil
				}
				return answer(ctx)
			})
			c := client(t, at)
			once(t, c)
			works.Store(false)
			for i := range maxFailures {
				if got, outcome, err := c.Score(t.Context(), two()); got != nil || outcome != Failed || err == nil {
					t.Fatalf("call %d: got %v %s %v, want %s", i, got, outcome, err, Failed)
				}
			}
			for range 20 {
				if got, outcome, err := c.Score(t.Context(), two()); got != nil || outcome != Skipped || err != nil {
					t.Fatalf("after %d failures: %v %s %v, want %s", maxFailures, got, outcome, err, Skipped)
				}
			}
			works.Store(true)
			if got := once(t, c); fmt.Sprint(got) != "[1 1]" {
				t.Errorf("after it works again: scores %v, want [1 1]", got)
			}
		})
	}
}

func TestExternalScorer_FurtherAddressesAreTried(t *testing.T) {
	var broken atomic.Bool
	first := scoringtest.Start(t, func(context.Context, []byte) ([]byte, error) {
		if broken.Load() {
			return nil, errors.New("broken")
		}
		return scoringtest.Scores(1, 0), nil
	})
	second := scoringtest.Start(t, func(context.Context, []byte) ([]byte, error) {
		return scoringtest.Scores(0, 1), nil
	})
	addresses := []dial.Address{{AddrPort: netip.MustParseAddrPort("127.0.0.1:1"), Cleartext: true},
		{AddrPort: first, Cleartext: true}, {AddrPort: second, Cleartext: true}}
	c, err := NewClient(addresses, dial.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	scored := func(want string) {
		t.Helper()
		poll.NoError(t, "scores "+want, 10*time.Second, func() error {
			if got, outcome, err := c.Score(t.Context(), two()); fmt.Sprint(got) != want {
				return fmt.Errorf("got %v %s %v, want %s", got, outcome, err, want)
			}
			return nil
		})
	}
	scored("[1 0]")
	broken.Store(true)
	scored("[0 1]")
	broken.Store(false)
	scored("[1 0]") // after the pause, the scorer is called again
}

func TestExternalScorer_ScoresAreBounded(t *testing.T) {
	at := scoringtest.Start(t, func(context.Context, []byte) ([]byte, error) { return scoringtest.Scores(-3, 7), nil })
	if got := once(t, client(t, at)); fmt.Sprint(got) != "[0 1]" {
		t.Errorf("scores %v, want [0 1]", got)
	}
	var s scores
	if err := s.unmarshal(scoringtest.Scores(math.NaN(), math.Inf(1))); err != nil || fmt.Sprint(s) != "[0 1]" {
		t.Errorf("scores %v, %v; want [0 1]", s, err)
	}
}

func TestExternalScorer_LargePoolsAreNotScored(t *testing.T) {
	q := Ask("p", &schedule.Request{}, make([]schedule.Candidate, maxCandidates+1), nil)
	c := client(t, netip.MustParseAddrPort("127.0.0.1:1"))
	if got, outcome, err := c.Score(t.Context(), q); got != nil || outcome != Skipped || err != nil {
		t.Errorf("%v %s %v, want %s", got, outcome, err, Skipped)
	}
}

func FuzzExternalScorer_AnswersAreBounded(f *testing.F) {
	f.Add(scoringtest.Scores(0, 0.5, 1))
	f.Add([]byte{9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}) // encoded without packing
	f.Add([]byte{10, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s scores
		if s.unmarshal(data) != nil {
			return
		}
		if len(s) > maxCandidates {
			t.Fatalf("%d scores, want at most %d", len(s), maxCandidates)
		}
		for _, v := range s {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("score %g, want 0 to 1", v)
			}
		}
	})
}
