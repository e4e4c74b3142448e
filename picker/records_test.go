package picker

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

func poolOf(t *testing.T, n int, strategy string) *Picker {
	t.Helper()
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("10.0.%d.%d:80", i/200, i%200+1))
	}
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: strategy, Endpoints: specs(addrs...)})
	return p
}

func TestExplain_EveryPickIsKnownWithItsOutcome(t *testing.T) {
	p := poolOf(t, 3, "load")
	var last extproc.Answer
	for i := range maxNotes + 100 { // at this rate, only few picks have verdicts
		last = p.Pick(t.Context(), &extproc.Request{Pool: "ns/pool", Gateway: "ns/gw", Headers: &extproc.Message{}})
		if i%2 == 0 {
			p.LogOwn(accesslog.Entry{Lease: last.Lease.String(), Gateway: "ns/gw", Served: last.Endpoints.String(),
				Status: 200, FirstByte: time.Second, Took: 2 * time.Second})
		}
	}
	all := p.Picks(Picks{})
	if len(all) != maxPicks || all[0].Lease != last.Lease.String() || len(p.records.notes.ring) != maxNotes {
		t.Fatalf("%d records of %d notes, the newest %+v; want %d of %d, the newest %s",
			len(all), len(p.records.notes.ring), all[0], maxPicks, maxNotes, last.Lease)
	}
	for i, r := range all {
		if r.Candidates != 3 || len(r.Compared) != 3 || r.Compared[0].Address != r.Endpoints || r.Outcome == nil ||
			r.Outcome.Ended != (i%2 == 1) || r.Gateway != "ns/gw" || r.Picker != p.Owner() {
			t.Fatalf("record %d: got %+v, outcome %+v; want 3 candidates, the chosen one first, and an end: %t",
				i, r, r.Outcome, i%2 == 1)
		}
		if r.Outcome.Ended &&
			(r.Outcome.Served != r.Endpoints || r.Outcome.Status != 200 || r.Outcome.Begun != time.Second ||
				r.Outcome.Took != 2*time.Second) {
			t.Fatalf("record %d: got outcome %+v, want 200 by its endpoint, begun after 1s, 2s in all", i, r.Outcome)
		}
	}
	if two := p.Picks(Picks{Last: 2, Pool: "ns/pool"}); len(two) != 2 || two[1].Lease != all[1].Lease {
		t.Errorf("the last two: got %+v, want the newest two", two)
	}
	if none := p.Picks(Picks{Pool: "ns/other"}); len(none) != 0 {
		t.Errorf("another pool's: %+v, want none", none)
	}
	// An entry without a pick.
	p.LogOwn(accesslog.Entry{Lease: "other.1", Gateway: "ns/gw"})
	// An entry whose pick has lost its note.
	p.records.notes.ended(1, accesslog.Entry{Status: 500}, time.Now())
	for _, r := range p.Picks(Picks{}) {
		if r.Outcome.Status == 500 {
			t.Error("an outcome is that of another pick")
		}
	}
}

func TestExplain_RecordsAreBounded(t *testing.T) {
	p := poolOf(t, 1000, "least-request")
	var picked []string
	began := time.Now()
	for range 300 {
		picked = append(picked,
			p.Pick(t.Context(), &extproc.Request{Pool: "ns/pool", Headers: &extproc.Message{}}).Endpoints.String())
	}
	r := p.Picks(Picks{Last: 1})[0]
	if r.Candidates != 1000 || len(r.Compared) != maxChoices || r.Compared[0].Address != picked[299] {
		t.Errorf("got %+v, want 1000 candidates, and %d compared, %s first", r, maxChoices, picked[299])
	}
	for _, c := range r.Compared {
		if *c.Cost != 0 { // 700 endpoints are idle
			t.Errorf("%+v is not among the best, want a cost of 0", c)
		}
	}
	h, took := p.History("ns/pool"), time.Since(began)
	if len(h) == 0 || len(h) > 1+int(took/historyEvery) {
		t.Fatalf("%d of 300 picks in %v have verdicts, want at most one in %v", len(h), took, historyEvery)
	}
	for _, r := range h {
		named := false
		for _, v := range r.Verdicts {
			named = named || v.Address == r.Endpoints
		}
		if len(r.Verdicts) != maxVerdicts || r.Omitted["candidate"] != 1000-maxVerdicts || !named {
			t.Errorf("%d verdicts, others %v, the chosen one among them: %t; want %d, the rest as candidates, true",
				len(r.Verdicts), r.Omitted, named, maxVerdicts)
		}
	}
}

// A record's verdicts describe the endpoints before the pick, which adds a request to the picked
// one.
func TestExplain_VerdictsAreThoseOfTheMomentOfTheChoice(t *testing.T) {
	for _, strategy := range []string{"load", "least-request", "chwbl", "session", "plugins"} {
		p := runPicker(t, Config{})
		pool := Pool{ID: poolID("ns/pool"), Strategy: strategy, Body: BodyPrompts,
			Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")}
		if strategy == "plugins" {
			pool.Plugins = parsed(t, "plugins: [{type: active-request-scorer}, {type: prefix-cache-scorer}]")
		}
		setPools(t, p, pool)
		p.Pick(t.Context(), longPrompt(4000, 1, 2, 3))
		records := p.Picks(Picks{})
		if len(records) != 1 || len(records[0].Verdicts) != 2 {
			t.Fatalf("%s: got %+v, want one record with 2 verdicts", strategy, records)
		}
		compared := map[string]Choice{}
		for _, c := range records[0].Compared {
			compared[c.Address] = c
		}
		for _, v := range records[0].Verdicts {
			if v.State.InFlight != 0 || v.State.Unread != 0 || v.Cached != 0 || v.Trial != "" {
				t.Errorf("%s: the pick itself counts in %+v, want the state before it", strategy, v)
			}
			if c := compared[v.Address]; (c.Cost == nil) != (v.Cost == nil) ||
				c.Cost != nil && math.Abs(*c.Cost-*v.Cost) > 1e-9 || c.Score != nil && *c.Score != v.Score ||
				c.Cached != v.Cached {
				t.Errorf("%s: %+v was compared, and %+v is shown; want the same cost, score and cached tokens",
					strategy, c, v)
			}
			if v.Score != records[0].Verdicts[0].Score {
				t.Errorf("%s: idle servers have different scores, want equal ones: %+v", strategy, records[0].Verdicts)
			}
		}
	}
}

// A record has a cost or a score only if the strategy compares costs or scores. Otherwise these
// fields are meaningless: -1, 0, or infinity, which JSON cannot encode.
func TestExplain_PicksHaveCostsOrScoresIfTheyAreComparedBy(t *testing.T) {
	for _, tt := range []struct{ strategy, plugins, want string }{
		{"load", "", `"cost":`}, {"least-request", "", `"cost":0`}, {"round-robin", "", ""}, {"random", "", ""},
		{"tree", "", ""}, {"chwbl", "", ""}, {"session", "", ""},
		{"plugins", "plugins: [{type: active-request-scorer}]", `"score":1`},
		{
			"plugins",
			"plugins: [{type: token-load-scorer, parameters: {queueThresholdTokens: 1}}, {type: " +
				"weighted-random-picker}]", `"score":0`,
		},
		{"plugins", "plugins: [{type: random-picker}]", ""},
	} {
		p := runPicker(t, Config{})
		pool := Pool{ID: poolID("ns/pool"), Strategy: tt.strategy, Body: BodyPrompts,
			Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")}
		if tt.plugins != "" {
			pool.Plugins = parsed(t, tt.plugins)
		}
		setPools(t, p, pool)
		p.Pick(t.Context(), longPrompt(4000))
		for _, c := range p.Picks(Picks{})[0].Compared {
			raw, err := json.Marshal(c)
			if got := string(raw); err != nil || !strings.Contains(got, tt.want) ||
				strings.Contains(got, "cost") != strings.Contains(tt.want, "cost") ||
				strings.Contains(got, "score") != strings.Contains(tt.want, "score") {
				t.Errorf("%s %s: got %s %v, want %s", tt.strategy, tt.plugins, got, err, tt.want)
			}
		}
		for _, v := range append(p.Picks(Picks{})[0].Verdicts, p.Explain("ns/pool", nil).Verdicts...) {
			raw, err := json.Marshal(v)
			if got := string(raw); err != nil || strings.Contains(got, `"cost":`) != strings.Contains(tt.want, "cost") {
				t.Errorf("%s %s: verdict %s %v, want a cost exactly in %s", tt.strategy, tt.plugins, got, err, tt.want)
			}
		}
	}
}

// A note has room for few endpoints. It always has the two that power-of-two-picker drew, even if
// their scores are low.
func TestExplain_PicksByPowerOfTwoNameTheTwoThatWereDrawn(t *testing.T) {
	p := runPicker(t, Config{})
	var addresses []string
	for i := range 40 {
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d:80", i+1))
	}
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "plugins", Body: BodyPrompts, Endpoints: specs(addresses...),
			Plugins: parsed(t, "plugins: [{type: active-request-scorer}, {type: power-of-two-picker}]")})
	for range 50 {
		p.Pick(t.Context(), longPrompt(40))
	}
	for _, r := range p.Picks(Picks{}) {
		drawn := 0
		for i, c := range r.Compared {
			if c.Drawn {
				drawn++
			}
			if i == 0 && !c.Drawn {
				t.Errorf("%s was chosen, and not drawn", c.Address)
			}
		}
		if r.Choice != "power-of-two-picker" || drawn != 2 {
			t.Errorf(`choice %q, %d drawn: %+v, want "power-of-two-picker" and 2`, r.Choice, drawn, r.Compared)
		}
	}
	if got := p.Explain("ns/pool", nil).Choice; got != "power-of-two-picker" {
		t.Errorf(`explain has choice %q, want "power-of-two-picker"`, got)
	}
}

// If a strategy reads no metrics pages, its records state this instead of "no fresh metrics".
func TestExplain_PicksOfAStrategyThatReadsNoPagesShowThatTheyAreNotRead(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Endpoints: specs("10.0.0.1:80")})
	p.Pick(t.Context(), longPrompt(40))
	if v := p.Picks(Picks{})[0].Verdicts; len(v) != 1 ||
		!strings.Contains(v[0].Problem, "its metrics page is not read") {
		t.Errorf("got verdicts %+v, want one whose problem is that its page is not read", v)
	}
}

func TestExplain_OmittedVerdictsAreCounted(t *testing.T) {
	var all []schedule.Verdict
	for i := range 40 {
		v := schedule.Verdict{Address: fmt.Sprint(i)}
		cost := float64(40 - i)
		v.Cost = &cost
		if i%4 == 0 {
			v.Out = "full"
		}
		all = append(all, v)
	}
	kept, rest := trim(all, "1,2")
	if len(kept) != maxVerdicts || kept[0].Address != "1" || kept[len(kept)-1].Address != "39" || rest["full"] != 10 ||
		rest["candidate"] != 30-maxVerdicts {
		t.Errorf("got %+v %v, want %d kept, the chosen first, 10 full and the rest candidates", kept, rest, maxVerdicts)
	}
}
